//! One program inside, from its start to its end: its words in, its lines out, and the reasons to end it early.

use std::io::Write;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use sandbox::{Command, Exit, Stdio};

use super::stream::{self, Followed, Patience};
use super::{RuntimeError, Scene, Task};

/// From the end of its output to the end of the program.
const LEAVE: Duration = Duration::from_secs(10);

/// How the program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    ByItself {
        /// The last lines of its errors, if it failed.
        stderr: String,
    },
    Failed {
        why: String,
    },
    OutOfTime,
}

/// Runs the command to its end. Whatever is still inside when it was ended early is killed.
pub fn run(
    scene: &Scene<'_>,
    task: &Task,
    started: Instant,
    mut command: Command,
    words: &[u8],
    on_line: &mut dyn FnMut(&[u8]),
) -> Result<Ended, RuntimeError> {
    command.stdout = Stdio::Pipe;
    command.stderr = Stdio::Pipe;
    let mut process = scene.sandbox.exec(command).map_err(RuntimeError::Start)?;
    let stderr = process.stderr.take().map(stream::keep_end);
    if let Some(mut stdin) = process.stdin.take() {
        let words = words.to_vec();
        // A program that does not read its words must not hold us; its silence is noticed below.
        std::thread::spawn(move || drop(stdin.write_all(&words)));
    }
    let watchdog = &scene.cleared.checked.resolved.harness.watchdog;
    let patience = Patience {
        deadline: started + task.time,
        startup: Duration::from_secs(watchdog.startup_seconds.get()),
        idle: Duration::from_secs(watchdog.idle_seconds.get()),
    };
    let give_up = || scene.guard.stop_reason().is_some();
    let followed = match process.stdout.take() {
        Some(stdout) => stream::follow(stdout, patience, &give_up, on_line),
        None => Followed::ToEnd,
    };
    let early = match followed {
        Followed::ToEnd => None,
        Followed::OutOfTime => Some(Ended::OutOfTime),
        Followed::Silent(time) => {
            Some(Ended::Failed { why: format!("it was silent for {} seconds", time.as_secs()) })
        }
        Followed::GivenUp => Some(Ended::Failed { why: scene.guard.stop_reason().unwrap_or_default() }),
    };
    if let Some(ended) = early {
        scene.sandbox.kill();
        return Ok(ended);
    }
    let exit = process.wait(LEAVE);
    let said = match stderr.map(|end| end.recv_timeout(Duration::from_secs(1))) {
        Some(Ok(text)) => last_lines(&text),
        Some(Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected)) | None => String::new(),
    };
    match exit {
        Ok(Exit::Code(0)) => Ok(Ended::ByItself { stderr: String::new() }),
        Ok(Exit::Code(code)) => {
            let stderr = if said.is_empty() { format!("it ended with {code}") } else { said };
            Ok(Ended::ByItself { stderr })
        }
        Ok(Exit::Signal(signal)) => Ok(Ended::Failed {
            why: format!("it was ended by signal {signal}. {said}").trim_end().to_owned(),
        }),
        Err(error) => {
            scene.sandbox.kill();
            Ok(Ended::Failed { why: format!("it closed its output and did not end: {error}") })
        }
    }
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(3)..].join(" / ").chars().take(1000).collect()
}
