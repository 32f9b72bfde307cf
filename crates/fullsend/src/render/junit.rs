//! A run as JUnit XML, for CI services that list tests: one case for the run, one for each step, attempt and script.

use super::console::step_name;
use crate::event::outcome::OutcomeKind;
use crate::event::{Envelope, RunEvent};
use crate::record::{self, AttemptRecord, Record};

/// One test case. Its name and its texts come from a run and are escaped when they are written.
struct Case {
    name: String,
    millis: u64,
    result: CaseResult,
}

enum CaseResult {
    Passed,
    /// Rejected, but another attempt followed.
    Skipped(String),
    Failed {
        kind: &'static str,
        message: String,
    },
}

/// The whole document.
pub fn document(events: &[Envelope]) -> String {
    let record = record::fold(events);
    let cases = cases(&record);
    let failures = cases.iter().filter(|case| matches!(case.result, CaseResult::Failed { .. })).count();
    let skipped = cases.iter().filter(|case| matches!(case.result, CaseResult::Skipped(_))).count();
    let suite = format!(
        "name=\"{}\" tests=\"{}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\" time=\"{}\"",
        escaped(&record.harness),
        cases.len(),
        seconds(record.duration_ms().unwrap_or(0)),
    );
    let started = record.started.get(..19).unwrap_or("1970-01-01T00:00:00");
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite package=\"fullsend\" id=\"0\" {suite} \
         timestamp=\"{started}\" hostname=\"localhost\">\n    <properties>\n"
    );
    for (name, value) in properties(&record) {
        text.push_str(&format!("      <property name=\"{name}\" value=\"{}\"/>\n", escaped(&value)));
    }
    text.push_str("    </properties>\n");
    cases.iter().for_each(|case| text.push_str(&element(case, &record.harness)));
    text.push_str(&format!("    <system-out>{}</system-out>\n", escaped(&refusals(events).join("\n"))));
    text.push_str("    <system-err></system-err>\n  </testsuite>\n</testsuites>\n");
    text
}

fn properties(record: &Record) -> Vec<(&'static str, String)> {
    let mut found = vec![
        ("run_id", record.run_id.clone()),
        ("runtime", record.runtime.clone()),
        ("commit", record.commit.clone()),
        ("outcome", record.outcome.map_or("running", OutcomeKind::as_str).to_owned()),
    ];
    found.extend(record.usd().map(|usd| ("usd", format!("{usd:.4}"))));
    found
}

fn cases(record: &Record) -> Vec<Case> {
    let ended = matches!(record.outcome, Some(OutcomeKind::Completed | OutcomeKind::Skipped));
    let reason = record.reason.clone().filter(|reason| !reason.is_empty());
    let run = match (ended, record.outcome) {
        (true, _) => CaseResult::Passed,
        (false, outcome) => CaseResult::Failed {
            kind: outcome.map_or("not_ended", OutcomeKind::as_str),
            message: reason.unwrap_or_else(|| "the run has not ended".to_owned()),
        },
    };
    let mut cases =
        vec![Case { name: "run".to_owned(), millis: record.duration_ms().unwrap_or(0), result: run }];
    for step in &record.steps {
        let result = match step.ok {
            Some(false) => CaseResult::Failed { kind: "step", message: "the step failed".to_owned() },
            _ => CaseResult::Passed,
        };
        let name = format!("step {}", step_name(step.step));
        cases.push(Case { name, millis: step.duration_ms.unwrap_or(0), result });
    }
    let last = record.attempts.len();
    for (index, attempt) in record.attempts.iter().enumerate() {
        let name = format!("output of attempt {}", attempt.iteration);
        cases.push(Case { name, millis: 0, result: judged(attempt, index + 1 == last) });
    }
    for script in &record.scripts {
        let result = match script.exit {
            0 => CaseResult::Passed,
            code => {
                CaseResult::Failed { kind: "exit_code", message: format!("it ended with exit code {code}") }
            }
        };
        cases.push(Case { name: format!("script {}", script.script), millis: script.duration_ms, result });
    }
    cases
}

fn judged(attempt: &AttemptRecord, is_last: bool) -> CaseResult {
    let place = |path: &str| if path.is_empty() { String::new() } else { format!("at {path}: ") };
    let lines: Vec<String> =
        attempt.violations.iter().map(|one| format!("{}{}", place(&one.path), one.message)).collect();
    match (lines.is_empty(), is_last) {
        (true, _) => CaseResult::Passed,
        (false, true) => CaseResult::Failed { kind: "schema", message: lines.join("\n") },
        (false, false) => CaseResult::Skipped(format!("rejected, and tried again: {}", lines.join("; "))),
    }
}

fn element(case: &Case, harness: &str) -> String {
    let head = format!(
        "    <testcase classname=\"{}\" name=\"{}\" time=\"{}\"",
        escaped(harness),
        escaped(&case.name),
        seconds(case.millis)
    );
    match &case.result {
        CaseResult::Passed => format!("{head}/>\n"),
        CaseResult::Skipped(why) => {
            format!("{head}>\n      <skipped message=\"{}\"/>\n    </testcase>\n", escaped(why))
        }
        CaseResult::Failed { kind, message } => {
            let first = message.lines().next().unwrap_or_default();
            format!(
                "{head}>\n      <failure type=\"{kind}\" message=\"{}\">{}</failure>\n    </testcase>\n",
                escaped(first),
                escaped(message)
            )
        }
    }
}

/// The denied calls, for the reader of the report.
fn refusals(events: &[Envelope]) -> Vec<String> {
    let line = |envelope: &Envelope| match &envelope.event {
        RunEvent::ToolDenied { tool, reason, .. } => Some(format!("denied {tool}: {reason}")),
        RunEvent::Egress { event } => super::refusal::refusal(event),
        _ => None,
    };
    events.iter().filter_map(line).collect()
}

fn seconds(millis: u64) -> String {
    format!("{}.{:03}", millis / 1000, millis % 1000)
}

/// XML has no way to write most control characters: they become U+FFFD.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            '\n' => safe.push_str("&#10;"),
            '\t' => safe.push(' '),
            '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            other if other.is_control() => safe.push('\u{fffd}'),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Violation;

    #[test]
    fn text_of_a_run_cannot_end_its_element() {
        assert_eq!(escaped("a<b>&\"\u{0}\u{1b}\n"), "a&lt;b&gt;&amp;&quot;\u{fffd}\u{fffd}&#10;");
    }

    #[test]
    fn only_the_last_attempt_can_fail() {
        let violations = vec![Violation { path: "/a".to_owned(), message: "wrong".to_owned() }];
        let attempt = AttemptRecord { violations, ..AttemptRecord::default() };
        assert!(matches!(judged(&attempt, false), CaseResult::Skipped(why) if why.ends_with("at /a: wrong")));
        assert!(
            matches!(judged(&attempt, true), CaseResult::Failed { message, .. } if message == "at /a: wrong")
        );
        assert!(matches!(judged(&AttemptRecord::default(), true), CaseResult::Passed));
    }
}
