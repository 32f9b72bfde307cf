//! The report of `fullsend runs show`: timeline, tools, refusals, findings, cost. Made from the events alone.

use std::collections::BTreeMap;

use model::ModelEvent;

use super::closing::last_words;
use super::console::step_name;
use super::diagnostics::clean_text;
use super::figures::{cost, duration};
use super::patch::{self, PatchedFile};
use super::refusal::{audited, refusal};
use crate::event::zone::TimeZone;
use crate::event::{EnforcementStatus, Envelope, FindingEvent, RunEvent};
use crate::record::{self, Record};

/// How many lines of one kind are shown; the rest is counted.
const MAX_LINES: usize = 20;

/// The whole report.
pub fn report(events: &[Envelope], zone: &TimeZone, changed: &[PatchedFile]) -> String {
    let record = record::fold(events);
    let mut out = headline(&record, zone);
    section(&mut out, "last words", &last_lines(events));
    section(&mut out, "changes", &if changed.is_empty() { Vec::new() } else { patch::table(changed) });
    section(&mut out, "timeline", &timeline(&record, zone));
    section(&mut out, "attempts", &attempts(&record));
    section(&mut out, "tools", &tools(events));
    section(&mut out, "refusals", &refusals(events));
    section(&mut out, "audited", &audited_requests(events));
    section(&mut out, "findings", &findings(events));
    section(&mut out, "counted", &counted(&record));
    section(&mut out, "models", &models(&record));
    section(&mut out, "weaker", &weakened_settings(&record));
    section(&mut out, "output", &output(&record));
    clean_text(&out)
}

fn headline(record: &Record, zone: &TimeZone) -> String {
    let outcome = record.outcome.map_or("not ended", |outcome| outcome.as_str());
    let mut text = format!("{} ({}) {}\n", record.harness, record.runtime, record.run_id);
    text.push_str(&format!("  {outcome}"));
    if let Some(code) = record.exit_code {
        text.push_str(&format!(", exit {code}"));
    }
    match record.reason.as_deref() {
        Some("") | None => text.push('\n'),
        Some(reason) => text.push_str(&format!(": {reason}\n")),
    }
    text.push_str(&format!("  {}", zone.show_text(&record.started)));
    let figures = [record.duration_ms().map(duration), cost(record)];
    figures.into_iter().flatten().for_each(|figure| text.push_str(&format!(", {figure}")));
    text.push('\n');
    text
}

fn section(out: &mut String, name: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    let more = lines.len().saturating_sub(MAX_LINES);
    out.push_str(&format!("\n{name}\n"));
    lines.iter().take(MAX_LINES).for_each(|line| out.push_str(&format!("  {line}\n")));
    if more > 0 {
        out.push_str(&format!("  and {more} more\n"));
    }
}

/// What the agent wrote last.
fn last_lines(events: &[Envelope]) -> Vec<String> {
    last_words(events).map(|text| text.trim().lines().map(str::to_owned).collect()).unwrap_or_default()
}

fn timeline(record: &Record, zone: &TimeZone) -> Vec<String> {
    let line = |step: &record::StepRecord| {
        let local = zone.show_text(&step.started);
        let clock = local.get(11..19).unwrap_or(&local);
        let took = step.duration_ms.map_or("not ended".to_owned(), |time| format!("{time} ms"));
        let failed = if step.ok == Some(false) { "  failed" } else { "" };
        format!("{clock}  {:10} {took}{failed}", step_name(step.step))
    };
    record.steps.iter().map(line).collect()
}

fn attempts(record: &Record) -> Vec<String> {
    let mut lines = Vec::new();
    for attempt in &record.attempts {
        let verdict = match (attempt.accepted, attempt.violations.is_empty()) {
            (true, _) => "accepted",
            (false, false) => "rejected",
            (false, true) => "not judged",
        };
        let ending = attempt.ending.as_ref().map_or_else(|| "not ended".to_owned(), ToString::to_string);
        lines.push(format!(
            "{}  {verdict}, {ending}; {} turns, {} calls, {} denied",
            attempt.iteration, attempt.turns, attempt.tool_calls, attempt.denied_calls
        ));
        for violation in &attempt.violations {
            let path = if violation.path.is_empty() { "" } else { &format!("at {}: ", violation.path) };
            lines.push(format!("     {path}{}", violation.message));
        }
        lines.extend(attempt.unseen_calls.iter().map(|call| format!("     unseen: {call}")));
    }
    lines
}

fn tools(events: &[Envelope]) -> Vec<String> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for envelope in events {
        if let RunEvent::ToolStarted { tool, .. } = &envelope.event {
            *counts.entry(tool).or_default() += 1;
        }
    }
    counts.into_iter().map(|(tool, count)| format!("{tool} {count}")).collect()
}

fn refusals(events: &[Envelope]) -> Vec<String> {
    events
        .iter()
        .filter_map(|envelope| match &envelope.event {
            RunEvent::ToolDenied { tool, reason, .. } => Some(format!("{tool}: {reason}")),
            RunEvent::Egress { event } => refusal(event),
            RunEvent::Model { event: ModelEvent::ModelRefused { reason, .. } } => {
                Some(format!("model: {reason}"))
            }
            _ => None,
        })
        .collect()
}

/// Requests that passed because of `enforcement: audit`.
fn audited_requests(events: &[Envelope]) -> Vec<String> {
    let passed = |envelope: &Envelope| match &envelope.event {
        RunEvent::Egress { event } => audited(event),
        _ => None,
    };
    events.iter().filter_map(passed).collect()
}

fn findings(events: &[Envelope]) -> Vec<String> {
    events
        .iter()
        .filter_map(|envelope| match &envelope.event {
            RunEvent::Finding(FindingEvent { place, rule, severity, line, excerpt, .. }) => {
                Some(format!("{:8} {rule} in {place}, line {line}: {excerpt}", severity.as_str()))
            }
            _ => None,
        })
        .collect()
}

/// Events that happened too often to be written.
fn counted(record: &Record) -> Vec<String> {
    let line = |(kind, count): (&String, &u64)| format!("{count} more events of the kind {kind}");
    record.counted_events.iter().map(line).collect()
}

fn models(record: &Record) -> Vec<String> {
    let line = |(model, used): (&String, &record::ModelUsage)| {
        let cost = used.usd.map_or("unpriced".to_owned(), |usd| format!("${usd:.4}"));
        format!(
            "{model}: {} requests, {} tokens in ({} from the cache), {} out, {cost}",
            used.requests, used.input, used.cache_read, used.output
        )
    };
    record.usage.iter().map(line).collect()
}

/// What the sandbox did not enforce, and which settings were weaker than the defaults.
fn weakened_settings(record: &Record) -> Vec<String> {
    let parts = record.sandbox.iter().filter(|part| part.status != EnforcementStatus::Enforced);
    let parts = parts.map(|part| format!("{} is {}: {}", part.part, part.status.as_str(), part.reason));
    let toggles = record.toggles.iter().map(|one| format!("{} is {} ({})", one.field, one.value, one.place));
    let exceptions =
        record.exceptions.iter().map(|one| format!("{} {}: {}", one.field, one.what, one.reason));
    parts.chain(toggles).chain(exceptions).collect()
}

fn output(record: &Record) -> Vec<String> {
    let short = |digest: &str| digest.get(..12).unwrap_or(digest).to_owned();
    let line =
        |one: &record::Artifact| format!("{} ({} bytes, sha256 {})", one.path, one.bytes, short(&one.sha256));
    record.artifacts.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audited_requests_are_listed_and_allowed_ones_are_not() {
        let request = |decision: &str| -> Envelope {
            serde_json::from_value(serde_json::json!({
                "v": 1, "seq": 1, "time": "2030-01-31T12:00:00Z", "previous": "", "hash": "", "type": "egress",
                "event": {
                    "type": "attempt", "via": "connect", "host": "api.example.com", "port": 443, "method": "DELETE",
                    "path": "/v1/x", "decision": decision, "reason": "no rule allows DELETE", "bytes_out": 0,
                    "bytes_in": 0, "duration_ms": 1,
                },
            }))
            .unwrap()
        };
        let shown = report(&[request("audited"), request("allowed")], &TimeZone::default(), &[]);
        let line = "\naudited\n  DELETE api.example.com:443/v1/x: no rule allows DELETE\n";
        assert!(shown.contains(line), "{shown}");
        assert_eq!(shown.matches("DELETE api").count(), 1, "{shown}");
    }
}
