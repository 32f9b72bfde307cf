//! `runs transcript`: what the agent said and did, in order. Made from the events, so that it is the same for every
//! runtime; the runtime's own transcript is a file of the run.

use std::io::Write;
use std::path::Path;

use clap::Args;

use super::super::exit::{Exit, Failure};
use super::{Named, find, unreadable};
use crate::event::{Envelope, RunEvent, log};
use crate::render::console::{Console, words};
use crate::render::diagnostics::clean_text;
use crate::render::workflow_commands::neutralise_json;

#[derive(Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    run: Named,
    /// Print the events as JSON, one object per line
    #[arg(long)]
    json: bool,
}

pub fn run(runs: &Path, arguments: &Arguments) -> Result<Exit, Failure> {
    let run = find(runs, &arguments.run.run)?;
    let events = log::read(&run.log()).map_err(|error| unreadable(&error))?;
    let mut out = std::io::stdout().lock();
    let mut console = Console::default();
    for envelope in events.iter().filter(|envelope| is_part(&envelope.event)) {
        if arguments.json {
            let line = serde_json::to_string(envelope).unwrap_or_default();
            writeln!(out, "{}", neutralise_json(&line))?;
        } else if let Some(text) = line(&mut console, envelope) {
            writeln!(out, "{}", clean_text(&text))?;
        }
    }
    Ok(Exit::Done)
}

fn is_part(event: &RunEvent) -> bool {
    matches!(
        event,
        RunEvent::AgentStarted { .. }
            | RunEvent::AgentText { .. }
            | RunEvent::ToolStarted { .. }
            | RunEvent::ToolDenied { .. }
            | RunEvent::ToolFinished { .. }
            | RunEvent::AgentFinished { .. }
            | RunEvent::OutputRejected { .. }
            | RunEvent::OutputAccepted { .. }
    )
}

/// All words, and the lines of the live view for the rest.
fn line(console: &mut Console, envelope: &Envelope) -> Option<String> {
    match &envelope.event {
        RunEvent::AgentStarted { iteration } => Some(format!("attempt {iteration}")),
        RunEvent::AgentText { text, .. } => Some(words(text, usize::MAX)),
        RunEvent::AgentFinished { ending, turns, .. } => Some(format!("  ended     {ending}, {turns} turns")),
        _ => console.line(envelope),
    }
}
