//! `send`, `interrupt` and `terminate`: what is said to a session. Sent again with the same key, it is the same event.

use std::io::Write;

use clap::Args;
use serde_json::json;

use super::super::exit::{Exit, Failure};
use super::store::{SessionArguments, failure, moment, text};
use session::{EventId, Payload, Seq, SessionId, SessionInput, Sessions};

#[derive(Args, Debug)]
pub struct Send {
    #[command(flatten)]
    one: SessionArguments,
    /// The message; `-` reads standard input. With --outcome, what the outcome means in detail
    text: String,
    /// What is to be reached, as a title: the agent works towards it until another is given
    #[arg(long, value_name = "TITLE")]
    outcome: Option<String>,
    /// By what one sees that it is reached; may be given several times
    #[arg(long, value_name = "TEXT", requires = "outcome")]
    criterion: Vec<String>,
    #[command(flatten)]
    how: SendOptions,
}

#[derive(Args, Debug)]
pub struct Interrupt {
    #[command(flatten)]
    one: SessionArguments,
    /// Why
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    #[command(flatten)]
    how: SendOptions,
}

#[derive(Args, Debug)]
pub struct Terminate {
    #[command(flatten)]
    one: SessionArguments,
    /// Why
    #[arg(long, value_name = "TEXT", default_value = "asked for")]
    reason: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What every event from outside may carry.
#[derive(Args, Debug)]
pub struct SendOptions {
    /// Your own name for this event, such as a delivery number: sent again with it, it is the same event
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn send(arguments: &Send) -> Result<Exit, Failure> {
    let said = text(&arguments.text)?;
    let payload = match &arguments.outcome {
        None => Payload::UserMessage { message: said },
        Some(title) => Payload::UserDefineOutcome {
            title: title.clone(),
            detail: said,
            success_criteria: arguments.criterion.clone(),
        },
    };
    let mut sessions = arguments.one.place.open()?;
    append(&mut sessions, arguments.one.id, payload, &arguments.how)
}

pub fn interrupt(arguments: &Interrupt) -> Result<Exit, Failure> {
    let payload = Payload::UserInterrupt { note: arguments.note.clone() };
    let mut sessions = arguments.one.place.open()?;
    append(&mut sessions, arguments.one.id, payload, &arguments.how)
}

pub fn terminate(arguments: &Terminate) -> Result<Exit, Failure> {
    let mut sessions = arguments.one.place.open()?;
    let mut moment = moment(&mut sessions)?;
    let state = sessions.terminate(arguments.one.id, &arguments.reason, &mut moment).map_err(failure)?;
    let mut out = std::io::stdout().lock();
    if arguments.json {
        let line = json!({ "id": arguments.one.id, "status": state.status, "seq": state.head });
        writeln!(out, "{line}")?;
    } else {
        writeln!(out, "terminated")?;
    }
    Ok(Exit::Done)
}

/// Appends one event and says where it stands.
pub fn append(
    sessions: &mut Sessions,
    id: SessionId,
    payload: Payload,
    how: &SendOptions,
) -> Result<Exit, Failure> {
    let mut moment = moment(sessions)?;
    let event = match &how.key {
        Some(key) => EventId::from_key(id, key),
        None => EventId::generate(&mut moment),
    };
    let places = sessions.append(id, &[SessionInput { id: event, payload }], &mut moment).map_err(failure)?;
    let seq = places.first().copied().unwrap_or(Seq(0));
    let mut out = std::io::stdout().lock();
    if how.json {
        writeln!(out, "{}", json!({ "id": id, "event": event, "seq": seq }))?;
    } else {
        writeln!(out, "event {} is {event}", seq.0)?;
    }
    Ok(Exit::Done)
}
