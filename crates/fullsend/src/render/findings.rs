//! Findings of files, for people, programs and CI. Excerpts are masked and visible already; names of files are not.

use scan::{Finding, Origin, Severity};
use serde_json::{Value as Json, json};

use super::diagnostics::clean_text;
use super::{github, sarif};

/// One file, and what was found in it.
#[derive(Debug)]
pub struct Scanned {
    pub file: String,
    pub origin: Origin,
    pub findings: Vec<Finding>,
    pub verdict: Verdict,
}

/// What the findings of a file mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Clean,
    Reported,
    Blocked,
    /// It could not be read or a scanner broke: nobody knows what is in it.
    Unread(String),
}

impl Verdict {
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
    let Scanned { file, origin, findings, verdict } = scanned;
    let mut object = json!({
        "file": file,
        "origin": origin.as_str(),
        "verdict": verdict.word(),
        "findings": serde_json::to_value(findings).unwrap_or_default(),
    });
    if let Verdict::Unread(why) = verdict {
        object["problem"] = why.as_str().into();
    }
    object
}

/// One line for each finding, and what to do about it.
pub fn human(scanned: &Scanned) -> String {
    let file = clean_text(&scanned.file);
    if let Verdict::Unread(why) = &scanned.verdict {
        return format!("{file}: cannot be scanned: {}\n", clean_text(why));
    }
    let lines = scanned.findings.iter().map(|finding| {
        let Finding { rule, severity, span, excerpt, advice, .. } = finding;
        let (line, column, severity) = (span.line, span.column, severity.as_str());
        format!("{file}:{line}:{column}: {severity} {rule}: {excerpt}\n    {advice}\n")
    });
    lines.collect()
}

/// A mark on the line for each finding.
pub fn annotations(scanned: &Scanned) -> String {
    if let Verdict::Unread(why) = &scanned.verdict {
        return format!("{}\n", github::mark("error", &scanned.file, (1, 1), "unread", &clean_text(why)));
    }
    let lines = scanned.findings.iter().map(|finding| {
        let Finding { rule, severity, span, excerpt, advice, .. } = finding;
        let text = format!("{excerpt}; {advice}");
        let place = (span.line as usize, span.column as usize);
        format!("{}\n", github::mark(level(*severity), &scanned.file, place, rule, &text))
    });
    lines.collect()
}

/// One log with everything.
pub fn log(all: &[Scanned]) -> Json {
    let found = || all.iter().flat_map(|file| file.findings.iter().map(move |finding| (file, finding)));
    let mut rules: Vec<&str> = found().map(|(_, finding)| finding.rule).collect();
    rules.sort_unstable();
    rules.dedup();
    let results: Vec<Json> = found().map(|(file, finding)| result(&file.file, finding, &rules)).collect();
    sarif::wrap(&rules, &results)
}

fn result(file: &str, finding: &Finding, rules: &[&str]) -> Json {
    let Finding { rule, severity, category, span, excerpt, advice } = finding;
    json!({
        "ruleId": rule,
        "ruleIndex": rules.iter().position(|known| known == rule),
        "level": level(*severity),
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
    })
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical | Severity::High => "error",
        Severity::Medium => "warning",
        Severity::Low => "note",
    }
}
