//! The last lines of a run: what the agent said last, what it changed, what was found and refused, what is kept, what it
//! cost. Each names the command that shows more.

use std::collections::BTreeSet;

use egress::event::{ConnectionDecision, EgressEvent};
use model::ModelEvent;

use super::console::words;
use super::figures::{cost, count, duration};
use super::patch::{PatchedFile, total};
use super::refusal::refusal;
use crate::event::outcome::OutcomeKind;
use crate::event::{Envelope, RunEvent};
use crate::record::Record;

/// The most lines of the agent's last words.
const MAX_TEXT_LINES: usize = 12;

/// The most lines of advice for one file.
const MAX_ADVICE_LINES: usize = 30;

/// What the run's directory holds beside the events.
#[derive(Debug, Default)]
pub struct RunFiles {
    /// The files that the accepted patch changes.
    pub changed: Vec<PatchedFile>,
    /// Output that was not accepted, and a saved workspace: paths below the run's directory.
    pub kept: Vec<String>,
    /// Whether `fullsend enter` can open the workspace.
    pub can_enter: bool,
    /// What would have allowed the refused requests: files, and the lines to add to them.
    pub advice: Vec<(String, String)>,
}

/// The lines, in order.
pub fn lines(events: &[Envelope], record: &Record, left: &RunFiles) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(last_words(events).map(|text| words(text, MAX_TEXT_LINES)));
    if !left.changed.is_empty() {
        lines.push(format!(
            "  changes   {}; `fullsend runs diff` shows them, `fullsend runs apply` takes them over",
            total(&left.changed)
        ));
    }
    lines.extend(findings(record));
    lines.extend(denied(events));
    lines.extend(refused(events, left));
    if !matches!(record.outcome, Some(OutcomeKind::Completed | OutcomeKind::Skipped)) {
        lines.extend(kept(left));
    }
    lines.push(total_line(record));
    lines
}

/// What the agent wrote last.
pub fn last_words(events: &[Envelope]) -> Option<&str> {
    events.iter().rev().find_map(|envelope| match &envelope.event {
        RunEvent::AgentText { text, .. } => Some(text.as_str()),
        _ => None,
    })
}

fn findings(record: &Record) -> Option<String> {
    let by_severity = ["critical", "high", "medium", "low"]
        .iter()
        .filter_map(|severity| Some(format!("{} {severity}", record.findings.get(*severity)?)));
    let text = by_severity.collect::<Vec<_>>().join(", ");
    (!text.is_empty()).then(|| format!("  finding   {text}; `fullsend runs show` lists them"))
}

fn denied(events: &[Envelope]) -> Option<String> {
    let reasons: Vec<&str> = events
        .iter()
        .filter_map(|envelope| match &envelope.event {
            RunEvent::ToolDenied { reason, .. } => Some(reason.as_str()),
            RunEvent::Model { event: ModelEvent::ModelRefused { reason, .. } } => Some(reason.as_str()),
            _ => None,
        })
        .collect();
    let first = reasons.first()?.lines().next().unwrap_or_default();
    let number = count(reasons.len() as u64, "call");
    Some(format!("  denied    {number}, first: {first}; `fullsend runs show` lists them"))
}

fn refused(events: &[Envelope], left: &RunFiles) -> Option<String> {
    let refused: Vec<&EgressEvent> = events
        .iter()
        .filter_map(|envelope| match &envelope.event {
            RunEvent::Egress { event } if refusal(event).is_some() => Some(event),
            _ => None,
        })
        .collect();
    let host = |event: &&EgressEvent| match event {
        EgressEvent::Connection(attempt) if attempt.decision == ConnectionDecision::Denied => {
            attempt.host.clone()
        }
        EgressEvent::NameRefused { name, .. } => name.trim_end_matches('.').to_owned(),
        EgressEvent::Connection(_) => String::new(),
    };
    let hosts: BTreeSet<String> = refused.iter().map(host).collect();
    let hosts = hosts.into_iter().take(5).collect::<Vec<_>>().join(", ");
    let number = count(refused.len() as u64, "request");
    if refused.is_empty() {
        return None;
    }
    if left.advice.is_empty() {
        return Some(format!(
            "  refused   {number} to {hosts}; `fullsend policy suggest` says what could allow them"
        ));
    }
    let wanted = if refused.len() == 1 { "it is wanted" } else { "they are wanted" };
    let mut text =
        format!("  refused   {number} to {hosts}; if {wanted}, `fullsend policy suggest --write` adds");
    for (file, lines) in &left.advice {
        text.push_str(&format!("\n            to {file}:"));
        let all: Vec<&str> = lines.lines().collect();
        all.iter().take(MAX_ADVICE_LINES).for_each(|line| text.push_str(&format!("\n              {line}")));
        if all.len() > MAX_ADVICE_LINES {
            text.push_str("\n              …");
        }
    }
    Some(text)
}

fn kept(left: &RunFiles) -> Option<String> {
    let enter = if left.can_enter { "; `fullsend enter` opens the workspace" } else { "" };
    (!left.kept.is_empty()).then(|| format!("  kept      {}{enter}", left.kept.join(", ")))
}

fn total_line(record: &Record) -> String {
    let tokens: u64 = record.usage.values().map(|used| used.input + used.output).sum();
    let parts = [
        record.duration_ms().map(duration),
        cost(record),
        (tokens > 0).then(|| count(tokens, "token")),
        (record.attempts.len() > 1).then(|| count(record.attempts.len() as u64, "attempt")),
    ];
    format!("  total     {}", parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
}
