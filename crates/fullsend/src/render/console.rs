//! A run for people: one line for each important event.

use super::refusal::refusal;
use crate::event::{Envelope, FindingEvent, RunEvent, ServerState, Step};

/// The line for an event. Most events have none.
pub fn line(envelope: &Envelope) -> Option<String> {
    match &envelope.event {
        RunEvent::RunStarted { harness, runtime, run_id, .. } => {
            Some(format!("run {harness} ({runtime}) {run_id}"))
        }
        RunEvent::SkillShadowed { skill, place } => {
            Some(format!("  shadowed  {place}: the harness has a skill `{skill}` of its own"))
        }
        RunEvent::Toggle { field, value, place } => Some(format!("  weaker   {field} is {value} ({place})")),
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
        RunEvent::ScannerBroke { place, scanner, reason, .. } => {
            Some(format!("  broken    the scanner {scanner} on {place}: {reason}"))
        }
        RunEvent::Scanner { family, by } => Some(format!("  guard     {} by {by}", family.as_str())),
        RunEvent::ReviewRequested { label } => Some(format!("  review    set the label {label}")),
        RunEvent::ToolStarted { tool, summary, .. } => {
            Some(format!("    {tool} {summary}").trim_end().to_owned())
        }
        RunEvent::ToolDenied { tool, reason, .. } => Some(format!("  denied    {tool}: {reason}")),
        RunEvent::Egress { event } => refusal(event).map(|text| format!("  refused   {text}")),
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
