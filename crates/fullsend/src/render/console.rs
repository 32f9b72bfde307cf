//! A run for people: one line for each important event.

use std::collections::BTreeMap;

use model::{AnswerEnding, ModelEvent};

use super::figures::duration;
use super::refusal::{audited, refusal};
use crate::event::{Envelope, FindingEvent, RunEvent, ServerState, SkillFetchEvent, Step};

/// The most lines of one text of the agent that are shown. `fullsend runs transcript` shows all.
const MAX_TEXT_LINES: usize = 8;

/// Turns events into lines. It remembers what a later event refers to: the call that fails, the request that is repeated.
#[derive(Debug, Default)]
pub struct Console {
    calls: BTreeMap<String, String>,
    model_failed: bool,
}

impl Console {
    /// The line for an event. Most events have none.
    pub fn line(&mut self, envelope: &Envelope) -> Option<String> {
        match &envelope.event {
            RunEvent::ToolStarted { call, tool, summary, .. } => {
                let shown = format!("{tool} {summary}").trim_end().to_owned();
                self.calls.insert(call.clone(), shown.clone());
                Some(format!("    {shown}"))
            }
            RunEvent::ToolDenied { call, tool, reason } => {
                self.calls.remove(call);
                Some(format!("  denied    {tool}: {reason}"))
            }
            RunEvent::ToolFinished { call, is_error, .. } => {
                let shown = self.calls.remove(call)?;
                is_error.then(|| format!("  failed    {shown}"))
            }
            RunEvent::AgentText { text, .. } => Some(words(text, MAX_TEXT_LINES)),
            RunEvent::Model { event } => self.model(event),
            event => line(event),
        }
    }

    fn model(&mut self, event: &ModelEvent) -> Option<String> {
        let failed_before = self.model_failed;
        match event {
            ModelEvent::ModelRequest { turn, .. } => {
                self.model_failed = false;
                failed_before.then(|| format!("  retry     the model is asked again, turn {turn}"))
            }
            ModelEvent::ModelAnswer { status, ending: AnswerEnding::Fault | AnswerEnding::Cut, .. } => {
                self.model_failed = true;
                let how =
                    if *status < 400 { "broke off".to_owned() } else { format!("failed with {status}") };
                Some(format!("  model     the answer {how}"))
            }
            ModelEvent::ModelRefused { reason, .. } => {
                self.model_failed = true;
                Some(format!("  refused   model: {reason}"))
            }
            ModelEvent::UpstreamResting { retry_after_ms } => {
                Some(format!("  model     is busy; the next request waits {}", duration(*retry_after_ms)))
            }
            ModelEvent::ModelFallback { from, to, reason, .. } => {
                Some(format!("  model     {from} is busy ({reason}); {to} is asked instead"))
            }
            ModelEvent::BudgetWarning { spent } => {
                Some(format!("  budget    four fifths are spent: {spent}"))
            }
            _ => None,
        }
    }
}

/// Text of the agent, at most so many lines of it.
pub fn words(text: &str, most: usize) -> String {
    let lines: Vec<&str> = text.trim().lines().collect();
    let mut shown = lines.iter().take(most).copied().collect::<Vec<_>>().join("\n            ");
    if lines.len() > most {
        shown.push_str(&format!("\n            … and {} more lines", lines.len() - most));
    }
    format!("  says      {shown}")
}

/// The line for an event that needs no other.
fn line(event: &RunEvent) -> Option<String> {
    match event {
        RunEvent::RunStarted { harness, runtime, run_id, .. } => {
            Some(format!("run {harness} ({runtime}) {run_id}"))
        }
        RunEvent::SkillShadowed { skill, place } => {
            Some(format!("  shadowed  {place}: the harness has a skill `{skill}` of its own"))
        }
        RunEvent::SkillFetch(SkillFetchEvent { url, name, refused, .. }) if refused.is_empty() => {
            Some(format!("  skill     {name}: fetched from {url}"))
        }
        RunEvent::SkillFetch(SkillFetchEvent { url, refused, .. }) => {
            Some(format!("  skill     {url}: refused: {refused}"))
        }
        RunEvent::OperatorAction { by, action } => Some(format!("  operator  {by}: {}", action.as_str())),
        RunEvent::Override { field, value } => {
            Some(format!("  override  {field} is {value} (the command line)"))
        }
        RunEvent::AgentStarted { iteration } if *iteration > 1 => {
            Some(format!("  retry     attempt {iteration}: the agent gets the reasons"))
        }
        RunEvent::Toggle { field, value, place } => Some(format!("  weaker    {field} is {value} ({place})")),
        RunEvent::Exception { field, what, reason, until } => {
            let until = if until.is_empty() { String::new() } else { format!(", until {until}") };
            Some(format!("  exception {field} {what}{until}: {reason}"))
        }
        RunEvent::StepFinished { step, duration_ms, ok } => {
            Some(format!("  {:9} {duration_ms} ms{}", step_name(*step), if *ok { "" } else { "  failed" }))
        }
        RunEvent::Finding(FindingEvent { place, rule, severity, line, action, .. }) => {
            let severity = severity.as_str();
            let action = action.as_str();
            Some(format!("  finding   {severity} {rule} in {place}, line {line}: {action}"))
        }
        RunEvent::ScannerFailed { place, scanner, reason, .. } => {
            Some(format!("  broken    the scanner {scanner} on {place}: {reason}"))
        }
        RunEvent::ReviewRequested { label } => Some(format!("  review    set the label {label}")),
        RunEvent::Egress { event } => {
            let refused = refusal(event).map(|text| format!("  refused   {text}"));
            refused.or_else(|| audited(event).map(|text| format!("  audited   {text}")))
        }
        RunEvent::EventsCounted { kind, count: 1 } => {
            Some(format!("  counted   further events of the kind {kind} are counted and not shown"))
        }
        RunEvent::HookMissing { reason, .. } => Some(format!("  guard     {reason}")),
        RunEvent::OutputRejected { iteration, violations } => {
            let mut text = format!("  rejected  the output of attempt {iteration}:");
            for violation in violations {
                let path = if violation.path.is_empty() { "" } else { &format!("at {}: ", violation.path) };
                text.push_str(&format!("\n            {path}{}", violation.message));
            }
            Some(text)
        }
        RunEvent::OutputAccepted { iteration, schema } => {
            Some(format!("  accepted  attempt {iteration}, by {schema}"))
        }
        RunEvent::ImagePull { name, bytes, total_bytes } => {
            Some(format!("  image     {name}: {}", pulled(*bytes, *total_bytes)))
        }
        RunEvent::ApiServer { name, state: ServerState::Ended, detail } => {
            Some(format!("  server    {name} {detail}"))
        }
        RunEvent::WorkspaceSaved { files, problem, .. } if problem.is_empty() => {
            Some(format!("  kept      {files} files of the workspace; `fullsend enter` opens them"))
        }
        RunEvent::WorkspaceSaved { problem, .. } => Some(format!("  kept      nothing: {problem}")),
        RunEvent::Artifact { path, bytes, .. } => Some(format!("  output    {path} ({bytes} bytes)")),
        _ => None,
    }
}

/// How much of an image has been pulled.
pub fn pulled(bytes: u64, total_bytes: u64) -> String {
    let tenths = |bytes: u64| {
        let tenths = bytes.saturating_mul(10) >> 20;
        format!("{}.{}", tenths / 10, tenths % 10)
    };
    format!("pulled {} of {} MiB", tenths(bytes), tenths(total_bytes))
}

pub fn step_name(step: Step) -> &'static str {
    match step {
        Step::PreScript => "before",
        Step::Inputs => "inputs",
        Step::Provision => "sandbox",
        Step::Bootstrap => "bootstrap",
        Step::Agent => "agent",
        Step::Quarantine => "collect",
        Step::Validate => "validate",
        Step::Publish => "publish",
        Step::Teardown => "teardown",
        Step::PostScript => "after",
    }
}
