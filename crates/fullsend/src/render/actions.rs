//! A run in GitHub Actions: a group for each step, annotations for the most important events, a summary for the page. Text
//! that an agent wrote is escaped, so that it does not become a workflow command.

use super::console::{self, Console};
use super::diagnostics::clean_text;
use super::patch::PatchedFile;
use super::refusal::{audited, refusal};
use super::report;
use crate::event::finding::FindingSeverity;
use crate::event::outcome::OutcomeKind;
use crate::event::zone::TimeZone;
use crate::event::{Envelope, FindingEvent, RunEvent};

/// GitHub shows no more than ten of each kind for a step.
const MAX_ANNOTATIONS: usize = 10;

/// GitHub takes a summary of at most 1 MiB.
const MAX_SUMMARY: usize = 900_000;

/// The same for the result and for the diff.
const MAX_FILE: usize = 60_000;

/// The lines for an event: groups around steps, plain text in them.
pub fn lines(console: &mut Console, envelope: &Envelope) -> Option<String> {
    match &envelope.event {
        RunEvent::StepStarted { step } => Some(format!("::group::{}", console::step_name(*step))),
        RunEvent::StepFinished { .. } => {
            console.line(envelope).map(|line| format!("{}\n::endgroup::", clean_text(&line)))
        }
        _ => console.line(envelope).map(|line| clean_text(&line)),
    }
}

/// Untrusted text, with CI commands escaped.
pub fn harmless(text: &str) -> String {
    clean_text(text)
}

/// The most important first, errors apart from warnings, as many as GitHub shows.
pub fn annotations(events: &[Envelope]) -> Vec<String> {
    let mut errors: Vec<(u8, String)> = Vec::new();
    let mut warnings: Vec<(u8, String)> = Vec::new();
    for envelope in events {
        match &envelope.event {
            RunEvent::RunFinished { outcome, reason, .. }
                if !matches!(outcome, OutcomeKind::Completed | OutcomeKind::Skipped) =>
            {
                errors.push((0, format!("{}: {reason}", outcome.as_str())));
            }
            RunEvent::Finding(FindingEvent { place, rule, severity, line, excerpt, .. }) => {
                let text = format!("{} {rule} in {place}, line {line}: {excerpt}", severity.as_str());
                match severity {
                    FindingSeverity::Critical => errors.push((1, text)),
                    FindingSeverity::High => warnings.push((1, text)),
                    FindingSeverity::Medium | FindingSeverity::Low => {}
                }
            }
            RunEvent::OutputRejected { iteration, violations } => {
                let first = violations.first().map(|one| one.message.as_str()).unwrap_or_default();
                warnings.push((2, format!("the output of attempt {iteration} was rejected: {first}")));
            }
            RunEvent::ToolDenied { tool, reason, .. } => warnings.push((3, format!("{tool}: {reason}"))),
            RunEvent::Egress { event } => {
                warnings.extend(refusal(event).map(|text| (3, text)));
                warnings.extend(audited(event).map(|text| (5, format!("audited only: {text}"))));
            }
            RunEvent::SkillShadowed { skill, place } => {
                warnings.push((4, format!("{place}: the harness has a skill `{skill}` of its own")));
            }
            RunEvent::Exception { field, what, .. } => warnings.push((4, format!("{field} {what}"))),
            _ => {}
        }
    }
    let shown = |word: &str, mut all: Vec<(u8, String)>| -> Vec<String> {
        all.sort_by_key(|(rank, _)| *rank);
        let all = all.into_iter().take(MAX_ANNOTATIONS);
        all.map(|(_, text)| format!("::{word} title=fullsend::{}", data(&text))).collect()
    };
    let mut all = shown("error", errors);
    all.extend(shown("warning", warnings));
    all
}

fn data(text: &str) -> String {
    clean_text(text).replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// The files of the run, for its summary.
#[derive(Debug, Default)]
pub struct SummaryFiles {
    /// The accepted result.
    pub result: Option<String>,
    /// What the agent changed in the repository.
    pub patch: Option<String>,
    pub changed: Vec<PatchedFile>,
}

/// The report, the result and the diff as code blocks, so that an agent's text is not read as Markdown.
pub fn summary(events: &[Envelope], files: &SummaryFiles) -> String {
    let SummaryFiles { result, patch, changed } = files;
    let record = crate::record::fold(events);
    let outcome = record.outcome.map_or("not ended", |outcome| outcome.as_str());
    let report = report::report(events, &TimeZone::default(), changed);
    let mut text =
        format!("### fullsend run {}: {outcome}\n\n{}", record.harness, block("text", &report, MAX_SUMMARY));
    for (name, language, content) in [("Result", "json", result), ("Changes", "diff", patch)] {
        let content = content.as_deref().unwrap_or_default().trim_end();
        if !content.is_empty() {
            text += &format!("\n#### {name}\n\n{}", block(language, &clean_text(content), MAX_FILE));
        }
    }
    text
}

fn block(language: &str, content: &str, most: usize) -> String {
    let mut content = content.replace("```", "'''");
    if content.len() > most {
        content.truncate(content.floor_char_boundary(most));
        content.push_str("\n(cut off)");
    }
    format!("```{language}\n{content}\n```\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::log::Emitter;
    use std::sync::{Arc, Mutex};

    fn events(all: Vec<RunEvent>) -> Vec<Envelope> {
        let directory = tempfile::tempdir().unwrap();
        let events: Arc<Mutex<Vec<Envelope>>> = Arc::default();
        let collected = Arc::clone(&events);
        let emit =
            Emitter::create(&directory.path().join("e"), move |e| collected.lock().unwrap().push(e.clone()))
                .unwrap();
        all.into_iter().for_each(|event| emit.emit(event));
        drop(emit);
        Arc::try_unwrap(events).unwrap().into_inner().unwrap()
    }

    fn denied(number: usize) -> RunEvent {
        let reason = format!("number {number}\n::error::mine");
        RunEvent::ToolDenied { call: String::new(), tool: "Bash".to_owned(), reason }
    }

    #[test]
    fn annotations_are_ranked_and_bounded_and_hold_no_commands() {
        let mut all: Vec<RunEvent> = (0..30).map(denied).collect();
        all.push(RunEvent::RunFinished {
            outcome: OutcomeKind::Timeout,
            exit_code: crate::event::outcome::EndCause::Timeout.exit().code(),
            reason: "out of time".to_owned(),
        });
        let made = annotations(&events(all));
        assert_eq!(made.len(), 11);
        assert_eq!(made[0], "::error title=fullsend::timeout: out of time");
        assert!(made.iter().all(|line| !line.contains('\n') && line.matches("::error").count() <= 2));
    }

    /// Requests that passed only because their endpoint audits are shown everywhere.
    #[test]
    fn audited_requests_are_shown() {
        let connection = serde_json::json!({
            "type": "attempt", "via": "connect", "pid": 7, "binary": "/usr/bin/curl", "sha256": null,
            "host": "api.test", "port": 443, "method": "POST", "path": "/a", "decision": "audited",
            "rule": null, "code": null, "reason": "no rule allows this request", "fix": null, "status": 200,
            "bytes_out": 1, "bytes_in": 1, "duration_ms": 1,
        });
        let event = serde_json::from_value(connection).unwrap();
        let all = events(vec![RunEvent::Egress { event }]);
        let request = "POST api.test:443/a by /usr/bin/curl (pid 7): no rule allows this request";
        assert_eq!(Console::default().line(&all[0]).unwrap(), format!("  audited   {request}"));
        assert_eq!(annotations(&all), [format!("::warning title=fullsend::audited only: {request}")]);
    }

    #[test]
    fn text_of_an_agent_does_not_become_a_command() {
        assert_eq!(
            clean_text("a\n  ::set-env name=x::y\n##[error]z\r::x"),
            "a\n|   ::set-env name=x::y\n## [error]z\u{fffd}::x"
        );
    }

    #[test]
    fn a_summary_has_the_result_and_the_diff() {
        let files = SummaryFiles {
            result: Some("{\"label\": \"```bug\"}\n".to_owned()),
            patch: Some("+::error::mine\n".repeat(20_000)),
            changed: Vec::new(),
        };
        let text = summary(&events(Vec::new()), &files);
        assert!(text.contains("#### Result\n\n```json\n{\"label\": \"'''bug\"}\n```\n"), "{text}");
        assert!(
            text.contains("#### Changes\n\n```diff\n+::error::mine\n") && text.ends_with("(cut off)\n```\n")
        );
        assert!(text.len() < 2 * MAX_FILE, "{}", text.len());
    }

    #[test]
    fn a_summary_stays_below_the_limit() {
        let excerpt = "x".repeat(200_000);
        let finding =
            |_| RunEvent::Finding(FindingEvent { excerpt: excerpt.clone(), ..FindingEvent::default() });
        let text = summary(&events((0..20).map(finding).collect()), &SummaryFiles::default());
        assert!(text.len() < 1 << 20 && text.ends_with("(cut off)\n```\n"));
    }
}
