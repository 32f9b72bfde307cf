//! How a run is shown while it goes on: a live line on a terminal, plain lines on a pipe, groups and annotations in GitHub
//! Actions, events as JSON, or nothing but the end.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::changed_files::changed_files;
use super::configuration::variable;
use crate::event::{Envelope, log};
use crate::record::files;
use crate::render::actions::SummaryFiles;
use crate::render::console::Console;
use crate::render::diagnostics::clean_text;
use crate::render::live::{StatusLine, retry_line};
use crate::render::script_lines::{mask, script_line};
use crate::render::workflow_commands::neutralise_json;
use crate::render::{actions, colour};
use crate::run::script_output::OnScriptOutput;

/// How often the clock on the live line is updated.
const TICK: Duration = Duration::from_millis(250);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Json,
    Quiet,
    Lines,
    Actions,
    Terminal,
}

pub struct Progress {
    style: Style,
    live: Arc<Mutex<StatusLine>>,
    console: Arc<Mutex<Console>>,
    ended: Arc<AtomicBool>,
}

pub type Listener = Arc<dyn Fn(&Envelope) + Send + Sync>;

impl Progress {
    pub fn choose(json: bool, quiet: bool) -> Self {
        let style = if json {
            Style::Json
        } else if quiet {
            Style::Quiet
        } else if variable("GITHUB_ACTIONS").as_deref() == Some("true") {
            Style::Actions
        } else if std::io::stderr().is_terminal() && variable("TERM").is_some_and(|term| term != "dumb") {
            Style::Terminal
        } else {
            Style::Lines
        };
        Self { style, live: Arc::default(), console: Arc::default(), ended: Arc::default() }
    }

    /// The lines at the end, for people who watch.
    pub fn close(&self, lines: &[String]) {
        for line in lines {
            match self.style {
                Style::Json | Style::Quiet => {}
                Style::Actions => print_line(Some(clean_text(line))),
                Style::Lines | Style::Terminal => print_line(Some(shown(line))),
            }
        }
    }

    pub fn listener(&self) -> Listener {
        match self.style {
            Style::Json => Arc::new(|envelope| {
                let line = serde_json::to_string(envelope).unwrap_or_default();
                drop(writeln!(std::io::stdout().lock(), "{}", neutralise_json(&line)));
            }),
            Style::Quiet => Arc::new(|_| {}),
            Style::Lines => {
                let console = Arc::clone(&self.console);
                Arc::new(move |envelope| {
                    let line = lock(&console).line(envelope).or_else(|| retry_line(&envelope.event));
                    print_line(line.map(|line| shown(&line)));
                })
            }
            Style::Actions => {
                let console = Arc::clone(&self.console);
                Arc::new(move |envelope| {
                    let line = actions::lines(&mut lock(&console), envelope);
                    let retry = || retry_line(&envelope.event).map(|line| clean_text(&line));
                    print_line_to_ci(line.or_else(retry));
                })
            }
            Style::Terminal => self.on_terminal(),
        }
    }

    /// In a CI the output of scripts is a part of the log: their notices, groups and masks work as if they ran alone.
    pub fn script_output(&self) -> Option<OnScriptOutput> {
        let in_ci = variable("CI").is_some_and(|value| value != "false") || self.style == Style::Actions;
        match self.style {
            Style::Actions => Some(Arc::new(|output| {
                output.masks.iter().for_each(|value| print_line_to_ci(Some(mask(value))));
                output.text.lines().filter_map(script_line).for_each(|line| print_line_to_ci(Some(line)));
            })),
            Style::Lines if in_ci => Some(Arc::new(|output| {
                output
                    .text
                    .lines()
                    .filter_map(script_line)
                    .for_each(|line| print_line(Some(clean_text(&line))));
            })),
            Style::Json | Style::Quiet | Style::Lines | Style::Terminal => None,
        }
    }

    /// Finished lines above, and one line below that changes. A thread updates its clock.
    fn on_terminal(&self) -> Listener {
        let live = Arc::clone(&self.live);
        let ended = Arc::clone(&self.ended);
        std::thread::spawn(move || {
            while !ended.load(Ordering::SeqCst) {
                std::thread::sleep(TICK);
                let live = live.lock().unwrap_or_else(PoisonError::into_inner);
                if !ended.load(Ordering::SeqCst) {
                    super::write_stderr(&format!("\r\x1b[K{}", live.status(Instant::now(), width())));
                }
            }
        });
        let live = Arc::clone(&self.live);
        let console = Arc::clone(&self.console);
        Arc::new(move |envelope| {
            let mut live = live.lock().unwrap_or_else(PoisonError::into_inner);
            live.on_event(envelope, Instant::now());
            let line = lock(&console).line(envelope).map(|line| format!("{}\n", shown(&line)));
            let status = live.status(Instant::now(), width());
            super::write_stderr(&format!("\r\x1b[K{}{status}", line.unwrap_or_default()));
        })
    }

    /// After the last event: what the CI shows beside the log. `result` is the accepted file.
    pub fn finish(&self, directory: Option<&Path>, result: Option<&Path>) {
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        self.ended.store(true, Ordering::SeqCst);
        drop(live);
        match self.style {
            Style::Terminal => super::write_stderr("\r\x1b[K"),
            Style::Actions => {
                let events = directory.map(|path| log::read(&path.join("events.jsonl")));
                let Some(Ok(events)) = events else { return };
                actions::annotations(&events).into_iter().for_each(|line| print_line_to_ci(Some(line)));
                let text = |path: &Path| {
                    std::fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
                };
                let left = SummaryFiles {
                    result: result.and_then(text),
                    patch: directory.and_then(files::accepted_patch).and_then(|path| text(&path)),
                    changed: directory.map(changed_files).unwrap_or_default(),
                };
                summarise(&actions::summary(&events, &left));
            }
            Style::Json | Style::Quiet | Style::Lines => {}
        }
    }
}

fn lock(console: &Mutex<Console>) -> MutexGuard<'_, Console> {
    console.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A line to show, in colour if the terminal supports it.
fn shown(line: &str) -> String {
    let clean = clean_text(line);
    if has_colour(&std::io::stderr()) { colour::paint(&clean) } else { clean }
}

/// On a terminal, unless the user wants none: https://no-color.org.
pub fn has_colour(stream: &impl IsTerminal) -> bool {
    let wanted = variable("NO_COLOR").is_none() && variable("TERM").is_some_and(|term| term != "dumb");
    wanted && stream.is_terminal()
}

fn print_line(line: Option<String>) {
    if let Some(line) = line {
        super::write_stderr(&format!("{line}\n"));
    }
}

fn print_line_to_ci(line: Option<String>) {
    if let Some(line) = line {
        super::write_stderr_unchanged(&format!("{line}\n"));
    }
}

/// 80 columns if the terminal does not report its width.
fn width() -> usize {
    let reported =
        rustix::termios::tcgetwinsize(rustix::stdio::stderr()).map(|size| usize::from(size.ws_col));
    reported.ok().filter(|columns| *columns > 0).unwrap_or(80)
}

fn summarise(text: &str) {
    let Some(path) = variable("GITHUB_STEP_SUMMARY") else { return };
    let written = std::fs::File::options()
        .append(true)
        .create(true)
        .open(&path)
        .and_then(|mut file| file.write_all(text.as_bytes()));
    if let Err(error) = written {
        super::write_stderr(&format!("warning: the step summary {path} could not be written: {error}\n"));
    }
}
