//! The transport of the servers on standard input and output (MCP, ACP): one JSON message per line, and an orderly end after a
//! signal.

use std::io::{BufRead, Read, Write};
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use super::exit::{Exit, Failure};
use crate::cancel::Cancel;

/// The longest message of a client.
const MAX_MESSAGE: u64 = 8 << 20;
/// How long work may take to end after a signal.
const STOP_GRACE: Duration = Duration::from_secs(25);
const WATCH_INTERVAL: Duration = Duration::from_millis(100);

/// One line that is not blank, or `None` at the end.
pub fn next_message(messages: &mut impl BufRead) -> Result<Option<Vec<u8>>, Failure> {
    loop {
        let mut line = Vec::new();
        messages.take(MAX_MESSAGE + 1).read_until(b'\n', &mut line)?;
        if line.len() as u64 > MAX_MESSAGE {
            let message = format!("a message has more than {} MiB", MAX_MESSAGE >> 20);
            return Err(Failure::new(Exit::Invalid, message));
        }
        if line.is_empty() {
            return Ok(None);
        }
        if !line.trim_ascii().is_empty() {
            return Ok(Some(line));
        }
    }
}

pub fn send(message: &Json) {
    let mut out = std::io::stdout().lock();
    // A client that has gone reads nothing more; the end of standard input says so too.
    drop(writeln!(out, "{message}").and_then(|()| out.flush()));
}

/// After a signal, ends the work in order and then this process, which may wait for its client.
pub fn end_on_signal(
    cancel: Cancel,
    stop: impl Fn() + Send + 'static,
    is_idle: impl Fn() -> bool + Send + 'static,
) -> Result<(), Failure> {
    let watch = move || {
        while !cancel.is_cancelled() {
            std::thread::sleep(WATCH_INTERVAL);
        }
        stop();
        let end = Instant::now() + STOP_GRACE;
        while !is_idle() && Instant::now() < end && !cancel.is_urgent() {
            std::thread::sleep(WATCH_INTERVAL);
        }
        end_process();
    };
    let thread = std::thread::Builder::new().name("signals".to_owned()).spawn(watch);
    thread.map(drop).map_err(|error| Failure::new(Exit::Bug, format!("cannot start a thread: {error}")))
}

#[expect(clippy::exit, reason = "the main thread waits for the client")]
fn end_process() -> ! {
    std::process::exit(i32::from(Exit::Terminated.code()))
}
