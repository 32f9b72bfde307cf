//! `show` and `list`: where sessions stand.

use std::io::Write;

use clap::Args;
use serde_json::{Value as Json, json};

use super::super::exit::{Exit, Failure};
use super::requests;
use super::store::{SessionArguments, StoreArguments, failure};
use crate::event::clock::Moment;
use crate::render::diagnostics::clean_text;
use session::{Payload, Seq, Session, SessionError, SessionId, Sessions, StopReason, ToolRequest};

/// How many events from the end an error is looked for.
const LOOK_BACK: usize = 50;

#[derive(Args, Debug)]
pub struct Show {
    #[command(flatten)]
    one: SessionArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub struct List {
    /// Only sessions of this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Go on after this session
    #[arg(long, value_name = "ID")]
    after: Option<SessionId>,
    /// At most so many
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    limit: usize,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: StoreArguments,
}

pub fn show(arguments: &Show) -> Result<Exit, Failure> {
    let mut sessions = arguments.one.place.open()?;
    let session = sessions.session(arguments.one.id).map_err(failure)?;
    let asked = requests::open(&mut sessions, &session).map_err(failure)?;
    let mut out = std::io::stdout().lock();
    if arguments.json {
        writeln!(out, "{}", describe(&session, &asked))?;
        return Ok(Exit::Done);
    }
    let (header, state) = (&session.header, &session.state);
    writeln!(out, "session   {}", header.id)?;
    writeln!(out, "agent     {}", header.agent)?;
    if let Some(environment) = &header.environment {
        writeln!(out, "in        {} ({})", environment.id, environment.digest)?;
    }
    writeln!(out, "status    {} ({})", state.status, state.stop_reason)?;
    writeln!(out, "events    {}, {} waiting", state.head.0, state.pending.len() + state.interrupts.len())?;
    let usage = &state.usage;
    let dollars = usage.cost_microdollars as f64 / 1e6;
    writeln!(
        out,
        "used      {} turns, {} + {} tokens, ${dollars:.4}",
        usage.turns, usage.input_tokens, usage.output_tokens
    )?;
    if let Some(message) = last_error(&mut sessions, &session).map_err(failure)? {
        writeln!(out, "error     {}", clean_text(&message))?;
    }
    requests::tell(&mut out, &session, &asked)?;
    for wake in &state.wakes {
        writeln!(out, "wake      {} {}: {}", time(wake.due_ms.0), wake.priority, clean_text(&wake.reason))?;
    }
    for (runtime, conversation) in state.bindings.iter().filter(|(_, name)| !name.is_empty()) {
        writeln!(out, "talks     {runtime} {}", clean_text(conversation))?;
    }
    Ok(Exit::Done)
}

pub fn list(arguments: &List) -> Result<Exit, Failure> {
    let mut sessions = arguments.place.open()?;
    let found =
        sessions.list(arguments.agent.as_deref(), arguments.after, arguments.limit).map_err(failure)?;
    let mut out = std::io::stdout().lock();
    for session in &found {
        let (header, state) = (&session.header, &session.state);
        if arguments.json {
            let line = json!({
                "id": header.id, "agent": header.agent, "status": state.status, "stop_reason": state.stop_reason,
                "head": state.head, "created_ms": header.created_ms,
            });
            writeln!(out, "{line}")?;
        } else {
            let created = time(header.created_ms.0);
            writeln!(
                out,
                "{} {:16} {:24} {created}",
                header.id,
                state.status.word(),
                clean_text(&header.agent)
            )?;
        }
    }
    if found.is_empty() && !arguments.json {
        super::super::talk("there is no session; `fullsend session create --agent NAME` begins one\n");
    }
    Ok(Exit::Done)
}

/// What went wrong, if that is why it stopped or is tried again.
fn last_error(sessions: &mut Sessions, session: &Session) -> Result<Option<String>, SessionError> {
    let state = &session.state;
    if state.stop_reason != StopReason::Error && state.wake.is_none() {
        return Ok(None);
    }
    let from = Seq(state.head.0.saturating_sub(LOOK_BACK as u64));
    let events = sessions.events(session.header.id, from, LOOK_BACK)?;
    Ok(events.into_iter().rev().find_map(|event| match event.payload {
        Payload::SessionError { message, .. } => Some(message),
        _ => None,
    }))
}

/// What is known of a session, with its state as it is stored.
fn describe(session: &Session, asked: &[(ToolRequest, Json)]) -> Json {
    let (header, state) = (&session.header, &session.state);
    let open = requests::describe(asked);
    let held =
        session.holder.as_ref().map(|holder| json!({ "owner": holder.owner, "until_ms": holder.until_ms }));
    json!({
        "id": header.id, "agent": header.agent, "environment": header.environment, "resources": header.resources,
        "created_ms": header.created_ms, "status": state.status, "stop_reason": state.stop_reason,
        "head": state.head, "pending": state.pending.len() + state.interrupts.len(), "requests": open,
        "wakes": state.wakes, "attempt": state.wake.as_ref().map(|wake| wake.attempt), "usage": state.usage,
        "bindings": state.bindings, "memory": state.memory, "held": held,
    })
}

fn time(milliseconds: i64) -> String {
    Moment::from_millis(u64::try_from(milliseconds).unwrap_or(0)).rfc3339()
}
