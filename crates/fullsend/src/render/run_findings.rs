//! The findings of a run in the formats of code scanning services: SARIF 2.1.0 and GitLab's code quality.

use serde_json::{Value as Json, json};

use super::sarif;
use crate::event::finding::{FindingOrigin, FindingSeverity};
use crate::event::log::sha256;
use crate::event::{Envelope, FindingEvent, RunEvent};

fn findings(events: &[Envelope]) -> impl Iterator<Item = &FindingEvent> {
    events.iter().filter_map(|envelope| match &envelope.event {
        RunEvent::Finding(finding) => Some(finding),
        _ => None,
    })
}

/// One log with one result for each finding. What a waiver accepts is suppressed.
pub fn sarif_log(events: &[Envelope]) -> Json {
    let mut rules: Vec<&str> = findings(events).map(|finding| finding.rule.as_str()).collect();
    rules.sort_unstable();
    rules.dedup();
    let results: Vec<Json> = findings(events).map(|finding| result(finding, &rules)).collect();
    sarif::wrap(&rules, &results)
}

fn result(finding: &FindingEvent, rules: &[&str]) -> Json {
    let level = match finding.severity {
        FindingSeverity::Critical | FindingSeverity::High => "error",
        FindingSeverity::Medium => "warning",
        FindingSeverity::Low => "note",
    };
    let mut result = json!({
        "ruleId": finding.rule,
        "ruleIndex": rules.iter().position(|rule| *rule == finding.rule),
        "level": level,
        "message": { "text": format!("{}: {}", finding.excerpt, finding.advice) },
        "locations": [location(finding)],
        "partialFingerprints": { "fullsend/v1": fingerprint(finding) },
        "properties": {
            "severity": finding.severity.as_str(),
            "action": finding.action.as_str(),
            "score": finding.score,
            "bytes": [finding.start, finding.end],
        },
    });
    if let Some(reason) = &finding.waiver {
        result["suppressions"] = json!([{ "kind": "external", "justification": reason }]);
    }
    result
}

/// The file that the text came from; otherwise what the agent did.
fn location(finding: &FindingEvent) -> Json {
    if !is_file(finding) {
        return json!({ "logicalLocations": [{ "fullyQualifiedName": finding.place }] });
    }
    let mut region = json!({ "startLine": finding.line.max(1) });
    if finding.column > 0 {
        region["startColumn"] = finding.column.into();
    }
    json!({ "physicalLocation": { "artifactLocation": { "uri": sarif::uri(&finding.place) }, "region": region } })
}

fn is_file(finding: &FindingEvent) -> bool {
    let from_file = [FindingOrigin::Harness, FindingOrigin::Instruction, FindingOrigin::Configuration];
    from_file.contains(&finding.origin)
}

/// The same finding is the same alert, also when the lines above it change.
fn fingerprint(finding: &FindingEvent) -> String {
    sha256(format!("{}\n{}\n{}", finding.rule, finding.place, finding.excerpt).as_bytes())
}

/// GitLab's report: a list of problems with a fingerprint each.
pub fn code_quality(events: &[Envelope]) -> Json {
    let open = findings(events).filter(|finding| finding.waiver.is_none());
    open.map(|finding| {
        let severity = match finding.severity {
            FindingSeverity::Critical => "blocker",
            FindingSeverity::High => "critical",
            FindingSeverity::Medium => "major",
            FindingSeverity::Low => "minor",
        };
        json!({
            "description": format!("{}: {}", finding.rule, finding.excerpt),
            "check_name": finding.rule,
            "fingerprint": fingerprint(finding),
            "severity": severity,
            "location": { "path": finding.place, "lines": { "begin": finding.line.max(1) } },
        })
    })
    .collect()
}
