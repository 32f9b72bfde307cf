//! `events` and `watch`: print the log from a sequence number on, and follow it. A reader that resumes after the last number
//! that it saw gets every event once.

use std::io::Write;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::Value as Json;

use super::super::exit::{Exit, Failure};
use super::store::{SessionOptions, failure};
use crate::event::clock::Moment;
use crate::render::diagnostics::clean_text;
use crate::render::workflow_commands::neutralise_json;
use session::{
    PAGE_LIMIT, Payload, Seq, SessionError, SessionEvent, SessionId, SessionStatus, Sessions, StoreError,
};

#[derive(Args, Debug)]
pub struct Events {
    #[command(flatten)]
    session: SessionOptions,
    /// Start with this sequence number
    #[arg(long, value_name = "SEQ", default_value_t = 1)]
    from: u64,
    /// Follow new events until the session is terminated
    #[arg(long)]
    follow: bool,
    /// Stop following after this many seconds
    #[arg(long, value_name = "SECONDS", requires = "follow")]
    timeout: Option<u64>,
    /// Print JSON; this is the default
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub struct Watch {
    #[command(flatten)]
    session: SessionOptions,
    /// Start with this sequence number [default: new events only]
    #[arg(long, value_name = "SEQ")]
    from: Option<u64>,
    /// Stop watching after this many seconds
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// Print JSON, one event per line
    #[arg(long)]
    json: bool,
}

/// The longest single wait. The deadline is checked between waits.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// How long to wait for a store that cannot be reached.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

pub fn events(arguments: &Events) -> Result<Exit, Failure> {
    let (mut sessions, id) = arguments.session.open()?;
    let after = Seq(arguments.from.saturating_sub(1));
    let print = |event: &SessionEvent| Some(as_json(event));
    if arguments.follow {
        return follow(&mut sessions, id, after, arguments.timeout, print);
    }
    // Stop at the present head, so that a log that grows while it is printed does not keep the command running.
    let last = sessions.session(id).map_err(failure)?.state.head;
    let mut after = after;
    while after < last {
        let page = sessions.events(id, after, PAGE_LIMIT).map_err(failure)?;
        let Some(end) = page.last().map(|event| event.seq) else { break };
        show(page.iter().filter(|event| event.seq <= last), print)?;
        after = end;
    }
    Ok(Exit::Done)
}

pub fn watch(arguments: &Watch) -> Result<Exit, Failure> {
    let (mut sessions, id) = arguments.session.open()?;
    let head = sessions.session(id).map_err(failure)?.state.head;
    let after = arguments.from.map_or(head, |from| Seq(from.saturating_sub(1)));
    let json = arguments.json;
    let print = |event: &SessionEvent| if json { Some(as_json(event)) } else { line(event) };
    follow(&mut sessions, id, after, arguments.timeout, print)
}

fn follow(
    sessions: &mut Sessions,
    id: SessionId,
    mut after: Seq,
    timeout: Option<u64>,
    print: impl Fn(&SessionEvent) -> Option<String>,
) -> Result<Exit, Failure> {
    // A server that restarts does not end the stream: the next page follows the last one that was printed.
    let deadline = timeout.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    loop {
        let left = deadline.map_or(MAX_WAIT, |deadline| deadline.saturating_duration_since(Instant::now()));
        let page = match sessions.follow(id, after, PAGE_LIMIT, left.min(MAX_WAIT)) {
            Err(SessionError::Store(StoreError::Unavailable { .. } | StoreError::Busy { .. }))
                if !left.is_zero() =>
            {
                std::thread::sleep(RETRY_INTERVAL.min(left));
                continue;
            }
            page => page.map_err(failure)?,
        };
        show(page.iter(), &print)?;
        after = page.last().map_or(after, |event| event.seq);
        let over = page.iter().any(is_the_end) || (page.is_empty() && is_terminated(sessions, id)?);
        if over || (page.is_empty() && left.is_zero()) {
            return Ok(Exit::Done);
        }
    }
}

fn is_the_end(event: &SessionEvent) -> bool {
    matches!(event.payload, Payload::SessionStatusChanged { to: SessionStatus::Terminated, .. })
}

fn is_terminated(sessions: &mut Sessions, id: SessionId) -> Result<bool, Failure> {
    Ok(sessions.session(id).map_err(failure)?.state.status == SessionStatus::Terminated)
}

fn show<'a>(
    events: impl Iterator<Item = &'a SessionEvent>,
    print: impl Fn(&SessionEvent) -> Option<String>,
) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    for line in events.filter_map(print) {
        writeln!(out, "{line}")?;
    }
    out.flush()?;
    Ok(())
}

fn as_json(event: &SessionEvent) -> String {
    neutralise_json(&serde_json::to_string(event).unwrap_or_default()).into_owned()
}

/// One event as a line for people: time, sequence number, type and text.
fn line(event: &SessionEvent) -> Option<String> {
    let fields = serde_json::to_value(&event.payload).ok()?;
    let text = |key: &str| fields.get(key).and_then(Json::as_str).map(str::to_owned);
    let text_of_event = match &event.payload {
        Payload::AgentToolUse { tool, .. } | Payload::AgentCustomToolUse { tool, .. } => Some(tool.clone()),
        Payload::SessionStatusChanged { to, reason, .. } => Some(format!("{to}: {reason}")),
        Payload::SpanStarted { name, .. } => Some(name.clone()),
        Payload::SpanCompleted { result, .. } => Some(result.to_string()),
        Payload::RunAttached { run_id, .. } => Some(run_id.clone()),
        _ => ["message", "title", "note", "error", "reason", "decision"].into_iter().find_map(text),
    };
    let time = Moment::from_millis(u64::try_from(event.time_ms.0).unwrap_or(0)).rfc3339();
    let shown: String =
        clean_text(&text_of_event.unwrap_or_default()).replace('\n', " ").chars().take(300).collect();
    Some(format!("{time} {:>6} {:24} {shown}", event.seq.0, event.payload.kind()).trim_end().to_owned())
}
