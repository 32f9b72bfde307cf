//! Runs one program inside: its input, its output lines, and the reasons to stop it early. Stopping is TERM, grace, KILL.
//! The sandbox stays, so that the output can be collected.

use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

use sandbox::{Command, CommandExit, Stdio};

use super::attempt::RuntimeError;
use super::launch::{AttemptRequest, LaunchContext};
use super::state;
use super::stream::{self, StreamEnd, Timeouts};
use crate::backend::{AgentProcess, CommandError};
use crate::event::clock::Moment;

/// From the end of its output to the end of the program.
const LEAVE: Duration = Duration::from_secs(10);

/// From the request to stop to TERM, for a program that can be asked.
const CANCEL: Duration = Duration::from_secs(2);

/// Between TERM and KILL.
const GRACE: Duration = Duration::from_secs(5);

const TERM: i32 = 15;

/// The run's deadline as RFC 3339, for agents that plan.
const DEADLINE: &str = "FULLSEND_DEADLINE";

/// How the program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    Exited {
        /// The last lines of its errors, if it failed.
        stderr: String,
    },
    Failed {
        why: String,
    },
    TimedOut,
    Interrupted,
}

/// A program that is talked to while it runs.
pub struct Dialogue<'a> {
    /// For its standard input, in this order. The input is closed when the sender is dropped.
    pub messages: Receiver<Vec<u8>>,
    /// Whether nothing more is expected of it.
    pub has_ended: &'a dyn Fn() -> bool,
    /// The same, and it has had time to end by itself.
    pub is_over: &'a dyn Fn() -> bool,
    /// Asks it to stop what it is doing. `false`: there is nothing to stop.
    pub cancel: &'a dyn Fn() -> bool,
}

/// Runs the command to its end. If it is stopped early, everything inside is killed.
pub fn run(
    context: &LaunchContext<'_>,
    request: &AttemptRequest,
    started: Instant,
    command: Command,
    words: &[u8],
    on_line: &mut dyn FnMut(&[u8]),
) -> Result<ProcessEnd, RuntimeError> {
    let (sender, messages) = std::sync::mpsc::channel();
    drop(sender.send(words.to_vec()));
    drop(sender);
    let dialogue = Dialogue { messages, has_ended: &|| false, is_over: &|| false, cancel: &|| false };
    talk(context, request, started, command, dialogue, on_line)
}

/// The same for a program that is talked to. If it stays after the end of the dialogue, it is stopped, which is no failure.
pub fn talk(
    context: &LaunchContext<'_>,
    request: &AttemptRequest,
    started: Instant,
    mut command: Command,
    dialogue: Dialogue<'_>,
    on_line: &mut dyn FnMut(&[u8]),
) -> Result<ProcessEnd, RuntimeError> {
    command.stdout = Stdio::Pipe;
    command.stderr = Stdio::Pipe;
    command
        .environment
        .push((DEADLINE.into(), deadline(request.time.saturating_sub(started.elapsed())).into()));
    let mut process = context.sandbox.exec(command).map_err(RuntimeError::Start)?;
    process.pid().into_iter().for_each(|pid| context.guard.set_runtime_process(pid));
    let stderr = process.stderr.take().map(stream::keep_end);
    let Dialogue { messages, has_ended, is_over, cancel } = dialogue;
    if let Some(mut stdin) = process.stdin.take() {
        // On a thread: a program that does not read its input must not block us.
        std::thread::spawn(move || drop(messages.iter().try_for_each(|message| stdin.write_all(&message))));
    }
    let watchdog = &context.inputs.checked().resolved.harness.watchdog;
    let timeouts = Timeouts {
        deadline: started + request.time,
        startup: Duration::from_secs(watchdog.startup_seconds.get()),
        idle: Duration::from_secs(watchdog.idle_seconds.get()),
    };
    let must_stop = || context.guard.stop_reason().is_some() || context.cancel.is_cancelled();
    let give_up = || must_stop() || is_over();
    let lines = process.stdout.take().map(stream::read_ahead);
    let followed =
        lines.as_ref().map_or(StreamEnd::Closed, |lines| stream::follow(lines, timeouts, &give_up, on_line));
    if let Some(ended) = early_end(context, followed) {
        let stays = followed == StreamEnd::Cancelled && !must_stop();
        let urgent = || context.cancel.is_urgent() || context.guard.stop_reason().is_some();
        if let Some(lines) = lines.as_ref().filter(|_| !stays && !urgent() && cancel()) {
            let timeouts = Timeouts { deadline: Instant::now() + CANCEL, startup: CANCEL, idle: CANCEL };
            stream::follow(lines, timeouts, &|| has_ended() || urgent(), on_line);
        }
        end(context, &process, lines.as_ref(), on_line);
        return Ok(if stays { ProcessEnd::Exited { stderr: String::new() } } else { ended });
    }
    let exit = process.wait(LEAVE);
    let last_errors = match stderr.map(|end| end.recv_timeout(Duration::from_secs(1))) {
        Some(Ok(text)) => last_lines(&text),
        Some(Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected)) | None => String::new(),
    };
    if exit.is_err() {
        end(context, &process, None, on_line);
    }
    Ok(exited(exit, last_errors))
}

fn exited(exit: Result<CommandExit, CommandError>, last_errors: String) -> ProcessEnd {
    match exit {
        Ok(CommandExit::Code(0)) => ProcessEnd::Exited { stderr: String::new() },
        Ok(CommandExit::Code(code)) => {
            let stderr = if last_errors.is_empty() { format!("it ended with {code}") } else { last_errors };
            ProcessEnd::Exited { stderr }
        }
        Ok(CommandExit::Signal(signal)) => ProcessEnd::Failed {
            why: format!("it was ended by signal {signal}. {last_errors}").trim_end().to_owned(),
        },
        Err(error) => ProcessEnd::Failed { why: format!("it closed its output and did not end: {error}") },
    }
}

/// Why it must stop early, if it must. The guard's reason comes first.
fn early_end(context: &LaunchContext<'_>, followed: StreamEnd) -> Option<ProcessEnd> {
    match followed {
        StreamEnd::Closed => None,
        StreamEnd::TimedOut => Some(ProcessEnd::TimedOut),
        StreamEnd::Silent(time) => {
            Some(ProcessEnd::Failed { why: format!("the agent was silent for {} seconds", time.as_secs()) })
        }
        StreamEnd::Cancelled => Some(match context.guard.stop_reason() {
            Some(why) => ProcessEnd::Failed { why },
            None => ProcessEnd::Interrupted,
        }),
    }
}

/// TERM to the agent, then KILL to everything inside. If that fails, the sandbox is killed.
fn end(
    context: &LaunchContext<'_>,
    process: &AgentProcess,
    lines: Option<&Receiver<Vec<u8>>>,
    on_line: &mut dyn FnMut(&[u8]),
) {
    let without_grace = || context.cancel.is_urgent() || context.guard.stop_reason().is_some();
    if !without_grace() && process.signal(TERM).is_ok() {
        let timeouts = Timeouts { deadline: Instant::now() + GRACE, startup: GRACE, idle: GRACE };
        // Its last lines are kept; when they end, the program usually has.
        let followed = lines.map(|lines| stream::follow(lines, timeouts, &without_grace, on_line));
        if followed == Some(StreamEnd::Closed) {
            drop(process.wait(GRACE));
        }
    }
    if context.cancel.is_urgent() || state::end_all(context.sandbox).is_err() {
        context.sandbox.kill();
    }
}

fn deadline(left: Duration) -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Moment::from_millis(u64::try_from((since + left).as_millis()).unwrap_or(u64::MAX)).rfc3339()
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(3)..].join(" / ").chars().take(1000).collect()
}
