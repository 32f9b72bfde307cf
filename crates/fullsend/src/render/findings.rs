//! Findings of files, for people, programs and CI. Excerpts are masked and escaped already; names of files are not.

use redact::{Finding, Severity};
use scan::Origin;
use serde_json::{Value as Json, json};

use super::diagnostics::clean_text;
use super::{github, sarif};

/// One file, and what was found in it.
#[derive(Debug)]
pub struct Scanned {
    pub file: String,
    pub origin: Origin,
    pub findings: Vec<Finding>,
    /// Accepted by the organisation, and why.
    pub waived: Vec<(Finding, String)>,
    pub verdict: FileVerdict,
}

/// What the findings of a file mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileVerdict {
    Clean,
    Reported,
    Blocked,
    /// It could not be read or a scanner failed, so its contents are unknown.
    Unread(String),
}

impl FileVerdict {
    pub fn word(&self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Reported => "reported",
            Self::Blocked => "blocked",
            Self::Unread(_) => "unread",
        }
    }
}

/// One object for each file.
pub fn json(scanned: &Scanned) -> Json {
    let Scanned { file, origin, findings, waived, verdict } = scanned;
    let accepted = |(finding, reason): &(Finding, String)| {
        let mut object = serde_json::to_value(finding).unwrap_or_default();
        object["suppressed"] = reason.as_str().into();
        object
    };
    let mut object = json!({
        "file": file,
        "origin": origin.as_str(),
        "verdict": verdict.word(),
        "findings": serde_json::to_value(findings).unwrap_or_default(),
        "suppressed": waived.iter().map(accepted).collect::<Vec<_>>(),
    });
    if let FileVerdict::Unread(why) = verdict {
        object["problem"] = why.as_str().into();
    }
    object
}

/// One line for each finding, and what to do about it or why it is accepted.
pub fn human(scanned: &Scanned) -> String {
    let file = clean_text(&scanned.file);
    if let FileVerdict::Unread(why) = &scanned.verdict {
        return format!("{file}: cannot be scanned: {}\n", clean_text(why));
    }
    let line = |finding: &Finding, note: &str, below: &str| {
        let Finding { rule, severity, span, excerpt, .. } = finding;
        let severity = severity.as_str();
        format!("{file}:{}:{}: {note}{severity} {rule}: {excerpt}\n    {below}\n", span.line, span.column)
    };
    let open = scanned.findings.iter().map(|finding| line(finding, "", finding.advice));
    let accepted = scanned.waived.iter().map(|(finding, why)| line(finding, "suppressed ", &clean_text(why)));
    open.chain(accepted).collect()
}

/// A mark on the line for each finding.
pub fn annotations(scanned: &Scanned) -> String {
    if let FileVerdict::Unread(why) = &scanned.verdict {
        return format!("{}\n", github::mark("error", &scanned.file, (1, 1), "unread", &clean_text(why)));
    }
    let line = |finding: &Finding, level: &str, below: &str| {
        let Finding { rule, span, excerpt, .. } = finding;
        let place = (span.line as usize, span.column as usize);
        format!("{}\n", github::mark(level, &scanned.file, place, rule, &format!("{excerpt}; {below}")))
    };
    let open = scanned.findings.iter().map(|finding| line(finding, level(finding.severity), finding.advice));
    let accepted = scanned
        .waived
        .iter()
        .map(|(finding, why)| line(finding, "notice", &format!("suppressed: {}", clean_text(why))));
    open.chain(accepted).collect()
}

/// One log with everything. A file that could not be read is not a result; it is a notification of the tool's run.
pub fn log(all: &[Scanned]) -> Json {
    let found = || {
        all.iter().flat_map(|file| {
            let open = file.findings.iter().map(|finding| (finding, None));
            let accepted = file.waived.iter().map(|(finding, why)| (finding, Some(why.as_str())));
            open.chain(accepted).map(move |(finding, why)| (file, finding, why))
        })
    };
    let mut rules: Vec<&str> = found().map(|(_, finding, _)| finding.rule).collect();
    rules.sort_unstable();
    rules.dedup();
    let results: Vec<Json> =
        found().map(|(file, finding, why)| result(&file.file, finding, why, &rules)).collect();
    let unread: Vec<Json> = all.iter().filter_map(notification).collect();
    let mut log = sarif::wrap(&rules, &results);
    log["runs"][0]["invocations"] =
        json!([{ "executionSuccessful": unread.is_empty(), "toolExecutionNotifications": unread }]);
    log
}

fn notification(scanned: &Scanned) -> Option<Json> {
    let FileVerdict::Unread(why) = &scanned.verdict else { return None };
    Some(json!({
        "level": "error",
        "message": { "text": format!("cannot be scanned: {}", clean_text(why)) },
        "locations": [{ "physicalLocation": { "artifactLocation": { "uri": sarif::uri(&scanned.file) } } }],
    }))
}

fn result(file: &str, finding: &Finding, accepted: Option<&str>, rules: &[&str]) -> Json {
    let Finding { rule, severity, score, category, span, excerpt, advice, passage: _ } = finding;
    let mut result = json!({
        "ruleId": rule,
        "ruleIndex": rules.iter().position(|known| known == rule),
        "level": level(*severity),
        "rank": score.value() * 100.0,
        "message": { "text": format!("{excerpt}; {advice}") },
        "locations": [{ "physicalLocation": {
            "artifactLocation": { "uri": sarif::uri(file) },
            "region": {
                "startLine": span.line,
                "startColumn": span.column,
                "byteOffset": span.start,
                "byteLength": span.end.saturating_sub(span.start),
            },
        }}],
        "properties": { "severity": severity.as_str(), "category": category.as_str() },
    });
    if let Some(why) = accepted {
        result["suppressions"] =
            json!([{ "kind": "external", "status": "accepted", "justification": clean_text(why) }]);
    }
    result
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical | Severity::High => "error",
        Severity::Medium => "warning",
        Severity::Low => "note",
    }
}
