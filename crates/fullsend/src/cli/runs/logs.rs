//! `runs logs`: the events of a run as lines, as they happen if wanted, or one of its files.

use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use clap::Args;

use super::super::exit::{Exit, Failure};
use super::super::local_time::time_zone;
use super::{Named, find, unreadable};
use crate::event::zone::TimeZone;
use crate::event::{Envelope, RunEvent, log};
use crate::record::store::StoredRun;
use crate::render::console::Console;
use crate::render::diagnostics::clean_text;
use crate::render::workflow_commands::neutralise_json;

/// How often a growing log is read.
const TICK: Duration = Duration::from_millis(200);

#[derive(Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    run: Named,
    /// Print this file of the run instead of the events, such as `post_script.log`
    file: Option<PathBuf>,
    /// Print the events as JSON, one object per line
    #[arg(long)]
    json: bool,
    /// Print new events until the run ends
    #[arg(long, short, conflicts_with = "file")]
    follow: bool,
}

pub fn run(runs: &Path, arguments: &Arguments) -> Result<Exit, Failure> {
    let run = find(runs, &arguments.run.run)?;
    if let Some(file) = &arguments.file {
        return print_file(&run, file);
    }
    let mut printer = Printer { json: arguments.json, zone: time_zone(), console: Console::default() };
    if arguments.follow {
        return follow(&run, &mut printer);
    }
    for envelope in log::read(&run.log()).map_err(|error| unreadable(&error))? {
        printer.print(&envelope)?;
    }
    Ok(Exit::Done)
}

struct Printer {
    json: bool,
    zone: TimeZone,
    console: Console,
}

impl Printer {
    fn print(&mut self, envelope: &Envelope) -> Result<(), Failure> {
        let mut out = std::io::stdout().lock();
        if self.json {
            let line = serde_json::to_string(envelope).unwrap_or_default();
            writeln!(out, "{}", neutralise_json(&line))?;
        } else if let Some(line) = self.console.line(envelope) {
            let local = self.zone.show_text(&envelope.time);
            writeln!(out, "{} {}", local.get(11..19).unwrap_or(&local), clean_text(&line))?;
        }
        out.flush()?;
        Ok(())
    }
}

/// Prints the log as it grows. It ends with the run, or when its runner is gone.
fn follow(run: &StoredRun, printer: &mut Printer) -> Result<Exit, Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(Exit::Failed, format!("cannot read {}: {error}", run.log().display()))
    };
    let mut file = std::fs::File::open(run.log()).map_err(failed)?;
    let mut read: u64 = 0;
    loop {
        // Asked before the log is read, so that a last line written in between is not lost.
        let alive = matches!(run.is_alive(), Ok(true));
        let mut new = Vec::new();
        file.seek(SeekFrom::Start(read)).and_then(|_| file.read_to_end(&mut new)).map_err(failed)?;
        let whole = new.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        for line in new[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let envelope: Envelope = serde_json::from_slice(line).map_err(|error| {
                Failure::new(Exit::Failed, format!("a line of the event log is not an event: {error}"))
                    .help("`fullsend runs verify` lists what was changed")
            })?;
            printer.print(&envelope)?;
            if matches!(envelope.event, RunEvent::RunFinished { .. }) {
                return Ok(Exit::Done);
            }
        }
        read += whole as u64;
        if !alive && whole == 0 {
            super::super::write_stderr(&format!(
                "the runner of {} is gone; `fullsend sweep` completes its record\n",
                run.id
            ));
            return Ok(Exit::Done);
        }
        std::thread::sleep(TICK);
    }
}

/// A file below the run's directory, not through a link: the agent chose some of the names there.
fn print_file(run: &StoredRun, file: &Path) -> Result<Exit, Failure> {
    let failed = |why: String| {
        Failure::new(Exit::Missing, format!("cannot print {} of the run {}: {why}", file.display(), run.id))
            .help(format!("the files are in {}", run.path.display()))
    };
    if !file.components().all(|part| matches!(part, Component::Normal(_))) {
        return Err(failed("the path must be below the run's directory".to_owned()));
    }
    let path = run.path.join(file);
    let inside = path.canonicalize().map_err(|error| failed(error.to_string()))?;
    let root = run.path.canonicalize().map_err(|error| failed(error.to_string()))?;
    if !inside.starts_with(&root) || !inside.is_file() {
        return Err(failed("the run has no such file".to_owned()));
    }
    let bytes = std::fs::read(&inside).map_err(|error| failed(error.to_string()))?;
    let text = String::from_utf8_lossy(&bytes);
    write!(std::io::stdout().lock(), "{}", clean_text(&text))?;
    Ok(Exit::Done)
}
