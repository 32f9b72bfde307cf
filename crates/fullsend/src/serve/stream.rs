//! The events of a run as server-sent events, as they happen. A reader that reconnects sends the last event that it has
//! as `Last-Event-ID`.

use std::sync::Arc;
use std::time::Duration;

use hyper::Response;
use hyper::body::Bytes;
use tokio::sync::mpsc;

use super::Server;
use super::answer::{self, AnswerBody, Chunk};
use super::log_tail::{LogPart, LogTail};
use super::metrics::ConnectionGauge;
use super::problem::Problem;
use super::runs;
use crate::record::store::StoredRun;

/// How often a growing log is read.
const TICK: Duration = Duration::from_millis(250);

/// After this many ticks without an event, a comment keeps the connection alive.
const QUIET_TICKS: u32 = 60;

/// After this many ticks without an event the run is checked: its runner may be gone.
const ALIVE_TICKS: u32 = 4;

/// The most that one poll reads; the next one reads the rest.
const MAX_PART_LINES: usize = 256;
const MAX_PART_BYTES: usize = 32 << 10;

/// Parts that wait for a slow reader. More are not read from the disk.
const WAITING_PARTS: usize = 1;

/// A reader that receives nothing for this long is disconnected. It can reconnect with `Last-Event-ID`.
const MAX_STALL: Duration = Duration::from_secs(60);

pub(super) fn last_event_id(text: Option<&str>) -> Result<u64, Problem> {
    let Some(text) = text else { return Ok(0) };
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| is_number);
    number.ok_or_else(|| Problem::bad_request("`Last-Event-ID` must be a whole number"))
}

pub(super) async fn events(
    server: &Arc<Server>,
    id: &str,
    last: Option<&str>,
) -> Result<Response<AnswerBody>, Problem> {
    let after = last_event_id(last)?;
    let id = id.to_owned();
    let run = server.blocking(move |server| runs::find(server, &id)).await?;
    let (sender, receiver) = mpsc::channel(WAITING_PARTS);
    let server = Arc::clone(server);
    tokio::spawn(async move {
        let _open = ConnectionGauge::new(&server.metrics, |metrics| &metrics.streams);
        let mut reader = StreamReader { sender };
        follow(&server, run, after, &mut reader).await
    });
    Ok(answer::stream(receiver))
}

/// The connection of one reader.
pub(super) struct StreamReader {
    pub(super) sender: mpsc::Sender<Chunk>,
}

impl StreamReader {
    /// `None`: the reader is gone, or receives nothing.
    pub(super) async fn send(&self, text: impl Into<Bytes>) -> Option<()> {
        let sent = tokio::time::timeout(MAX_STALL, self.sender.send(Ok(text.into()))).await;
        sent.ok()?.ok()
    }

    /// Waits for one tick. `None`: the reader is gone.
    pub(super) async fn tick(&self) -> Option<()> {
        tokio::select! {
            () = tokio::time::sleep(TICK) => Some(()),
            () = self.sender.closed() => None,
        }
    }

    /// Nothing happened for this many ticks.
    pub(super) async fn stay_quiet(&self, ticks: u32) -> Option<()> {
        if ticks.is_multiple_of(QUIET_TICKS) { self.send(": still here\n\n").await } else { Some(()) }
    }

    pub(super) async fn end(&self) -> Option<()> {
        self.send("event: end\ndata: {}\n\n").await
    }
}

/// Ends with the run, when its runner is gone, or when the reader is.
async fn follow(server: &Arc<Server>, run: StoredRun, after: u64, reader: &mut StreamReader) -> Option<()> {
    let mut tail = LogTail::new(run.log(), after);
    loop {
        let read = server.blocking(move |_| {
            let part = tail.read(MAX_PART_LINES, MAX_PART_BYTES);
            part.map(|part| (tail, part)).map_err(|error| Problem::unreadable(error.to_string()))
        });
        let (next, part) = read.await.ok()?;
        tail = next;
        if !part.lines.is_empty() {
            reader.send(text(&part)).await?;
        }
        if part.ended {
            return reader.end().await;
        }
        if !part.has_more {
            wait(&tail, &run, reader).await?;
        }
    }
}

/// Waits until the log grows.
async fn wait(tail: &LogTail, run: &StoredRun, reader: &StreamReader) -> Option<()> {
    let mut ticks = 0;
    let mut was_alive = true;
    loop {
        reader.tick().await?;
        // An incomplete line makes the log longer, but cannot be read yet: try again in the next tick.
        if tail.has_grown() {
            return Some(());
        }
        ticks += 1;
        if ticks % ALIVE_TICKS == 0 {
            let is_alive = matches!(run.is_alive(), Ok(true));
            // Checked twice: a runner that has just created its log may not have locked it yet.
            if !is_alive && !was_alive {
                reader.end().await?;
                return None;
            }
            was_alive = is_alive;
        }
        reader.stay_quiet(ticks).await?;
    }
}

fn text(part: &LogPart) -> Vec<u8> {
    let mut text = Vec::new();
    for line in &part.lines {
        text.extend_from_slice(format!("id: {}\ndata: ", line.envelope.seq).as_bytes());
        text.extend_from_slice(&line.bytes);
        text.extend_from_slice(b"\n\n");
    }
    text
}
