//! `show` and `list`: the status of sessions.

use std::io::Write;

use clap::Args;
use serde_json::json;

use super::super::exit::{Exit, Failure};
use super::requests;
use super::store::{SessionOptions, StoreOptions, failure};
use crate::event::clock::Moment;
use crate::render::diagnostics::clean_text;
use crate::render::session::{describe, load_open_requests};
use crate::render::workflow_commands::neutralise_json;
use session::{
    ListFilter, ListedSession, Payload, Seq, Session, SessionError, SessionId, SessionStatus, Sessions,
    StopReason,
};

/// How many events from the end are searched for an error.
const SEARCHED_EVENTS: usize = 50;

#[derive(Args, Debug)]
pub struct Show {
    #[command(flatten)]
    session: SessionOptions,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub struct List {
    /// List only sessions of this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// List only sessions with this status
    #[arg(long, value_name = "STATUS", value_parser = parse_status)]
    status: Option<SessionStatus>,
    /// List only sessions of this repository, such as example.com/acme/widgets
    #[arg(long, value_name = "NAME")]
    repository: Option<String>,
    /// Continue after this session
    #[arg(long, value_name = "ID")]
    after: Option<SessionId>,
    /// List at most this many
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    limit: usize,
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreOptions,
}

fn parse_status(text: &str) -> Result<SessionStatus, String> {
    let known = SessionStatus::ALL.iter().find(|status| status.word() == text);
    known.copied().ok_or_else(|| {
        let words: Vec<&str> = SessionStatus::ALL.iter().map(|status| status.word()).collect();
        format!("a status is one of {}", words.join(", "))
    })
}

impl List {
    fn filter(&self) -> ListFilter<'_> {
        let Self { agent, status, repository, .. } = self;
        ListFilter {
            agent: agent.as_deref(),
            repository: repository.as_deref(),
            status: *status,
            has_work: false,
        }
    }
}

pub fn show(arguments: &Show) -> Result<Exit, Failure> {
    let (mut sessions, id) = arguments.session.open()?;
    let session = sessions.session(id).map_err(failure)?;
    let open = load_open_requests(&mut sessions, &session).map_err(failure)?;
    let mut out = std::io::stdout().lock();
    if arguments.json {
        writeln!(out, "{}", neutralise_json(&describe(&session, &open).to_string()))?;
        return Ok(Exit::Done);
    }
    let header = &session.header;
    let state = &session.state;
    writeln!(out, "session   {}", header.id)?;
    writeln!(out, "agent     {}", clean_text(&header.agent))?;
    if let Some(repository) = &header.repository {
        writeln!(out, "of        {}", clean_text(repository))?;
    }
    if let Some(reference) = &header.reference {
        writeln!(out, "ref       {}", clean_text(reference))?;
    }
    if !header.labels.is_empty() {
        writeln!(out, "labels    {}", clean_text(&header.labels.join(", ")))?;
    }
    if header.imported {
        writeln!(out, "imported  yes")?;
    }
    if let Some(environment) = &header.environment {
        writeln!(out, "in        {} ({})", environment.id, environment.digest)?;
    }
    writeln!(out, "status    {} ({})", state.status, state.stop_reason)?;
    writeln!(out, "events    {}, {} waiting", state.head.0, state.pending.len() + state.interrupts.len())?;
    if !state.dead.is_empty() {
        writeln!(out, "dead      {} (see `fullsend session dead list`)", state.dead.len())?;
    }
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
    requests::print(&mut out, &session, &open)?;
    for wake in &state.wakes {
        let again = wake.cron.as_ref().map_or_else(String::new, |cron| format!(" ({})", clean_text(cron)));
        writeln!(
            out,
            "wake      {} {}: {}{again}",
            time(wake.due_ms.0),
            wake.priority,
            clean_text(&wake.reason)
        )?;
    }
    for (runtime, conversation) in state.bindings.iter().filter(|(_, name)| !name.is_empty()) {
        writeln!(out, "talks     {runtime} {}", clean_text(conversation))?;
    }
    Ok(Exit::Done)
}

pub fn list(arguments: &List) -> Result<Exit, Failure> {
    let mut sessions = arguments.store.open()?;
    let found = sessions.list_filtered(&arguments.filter(), arguments.after, arguments.limit);
    let found = found.map_err(failure)?;
    let mut out = std::io::stdout().lock();
    for listed in &found {
        let session = match listed {
            ListedSession::Readable(session) => session,
            ListedSession::Unreadable { id, problem } => {
                print_unreadable(&mut out, *id, problem, arguments.json)?;
                continue;
            }
        };
        let header = &session.header;
        let state = &session.state;
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
    if let Some(last) = found.last().filter(|_| found.len() >= arguments.limit && !arguments.json) {
        super::super::write_stderr(&format!("there may be more: --after {}\n", last.id()));
    }
    if found.is_empty() && !arguments.json {
        super::super::write_stderr("no sessions; `fullsend session create --agent NAME` creates one\n");
    }
    Ok(Exit::Done)
}

/// A session that cannot be read is listed with its problem.
fn print_unreadable(
    out: &mut impl Write,
    id: SessionId,
    problem: &str,
    as_json: bool,
) -> std::io::Result<()> {
    if as_json {
        return writeln!(out, "{}", json!({ "id": id, "status": "unreadable", "problem": problem }));
    }
    writeln!(out, "{id} {:16} {}", "unreadable", clean_text(problem))
}

/// The last error, if the session stopped because of it or will retry.
fn last_error(sessions: &mut Sessions, session: &Session) -> Result<Option<String>, SessionError> {
    let state = &session.state;
    if state.stop_reason != StopReason::Error && state.wake.is_none() {
        return Ok(None);
    }
    let from = Seq(state.head.0.saturating_sub(SEARCHED_EVENTS as u64));
    let events = sessions.events(session.header.id, from, SEARCHED_EVENTS)?;
    Ok(events.into_iter().rev().find_map(|event| match event.payload {
        Payload::SessionError { message, .. } => Some(message),
        _ => None,
    }))
}

fn time(milliseconds: i64) -> String {
    Moment::from_millis(u64::try_from(milliseconds).unwrap_or(0)).rfc3339()
}
