//! `send`, `interrupt` and `terminate`. An event that is sent again with the same key is stored once.

use std::io::Write;

use clap::Args;
use serde_json::json;

use super::super::exit::{Exit, Failure};
use super::store::{SessionOptions, failure, text, time_seed};
use session::{EventId, Payload, Seq, SessionId, SessionInput, Sessions};

#[derive(Args, Debug)]
pub struct Send {
    #[command(flatten)]
    session: SessionOptions,
    /// The message; `-` reads standard input. With --outcome, the details of the goal
    text: String,
    /// Set a goal with this title; the agent works towards it until you set another one
    #[arg(long, value_name = "TITLE")]
    outcome: Option<String>,
    /// Add a success criterion of the goal; can be repeated
    #[arg(long, value_name = "TEXT", requires = "outcome")]
    criterion: Vec<String>,
    #[command(flatten)]
    options: SendOptions,
}

#[derive(Args, Debug)]
pub struct Interrupt {
    #[command(flatten)]
    session: SessionOptions,
    /// Tell the agent why
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    #[command(flatten)]
    options: SendOptions,
}

#[derive(Args, Debug)]
pub struct Terminate {
    #[command(flatten)]
    session: SessionOptions,
    /// Record why
    #[arg(long, value_name = "TEXT", default_value = "terminated by a person")]
    reason: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Options of every event that a person sends.
#[derive(Args, Debug)]
pub struct SendOptions {
    /// Give the event this key, such as a delivery id; an event with a key that the session already has is not stored again
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn send(arguments: &Send) -> Result<Exit, Failure> {
    let message = text(&arguments.text)?;
    let payload = match &arguments.outcome {
        None => Payload::UserMessage { message },
        Some(title) => Payload::UserDefineOutcome {
            title: title.clone(),
            detail: message,
            success_criteria: arguments.criterion.clone(),
        },
    };
    let (mut sessions, id) = arguments.session.open()?;
    append(&mut sessions, id, payload, &arguments.options)
}

pub fn interrupt(arguments: &Interrupt) -> Result<Exit, Failure> {
    let payload = Payload::UserInterrupt { note: arguments.note.clone() };
    let (mut sessions, id) = arguments.session.open()?;
    append(&mut sessions, id, payload, &arguments.options)
}

pub fn terminate(arguments: &Terminate) -> Result<Exit, Failure> {
    let (mut sessions, id) = arguments.session.open()?;
    let mut seed = time_seed(&mut sessions)?;
    let state = sessions.terminate(id, &arguments.reason, &mut seed).map_err(failure)?;
    let mut out = std::io::stdout().lock();
    if arguments.json {
        let line = json!({ "id": id, "status": state.status, "seq": state.head });
        writeln!(out, "{line}")?;
    } else {
        writeln!(out, "terminated")?;
    }
    Ok(Exit::Done)
}

/// Appends one event and prints its sequence number.
pub fn append(
    sessions: &mut Sessions,
    id: SessionId,
    payload: Payload,
    options: &SendOptions,
) -> Result<Exit, Failure> {
    let mut seed = time_seed(sessions)?;
    let event = match &options.key {
        Some(key) => EventId::from_key(id, key),
        None => EventId::generate(&mut seed),
    };
    let seqs = sessions.append(id, &[SessionInput { id: event, payload }], &mut seed).map_err(failure)?;
    let seq = seqs.first().copied().unwrap_or(Seq(0));
    let mut out = std::io::stdout().lock();
    if options.json {
        writeln!(out, "{}", json!({ "id": id, "event": event, "seq": seq }))?;
    } else {
        writeln!(out, "event {}: {event}", seq.0)?;
    }
    Ok(Exit::Done)
}
