//! The program `tirith`, if the host has it: a second scanner for commands. It gets the command and never runs it. An
//! answer that cannot be read is a scanner error.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use redact::{Category, Finding, Score, Severity, TextSpan};
use serde_json::Value as Json;

use super::scanner_error::ScannerError;
use crate::cancel::Cancel;
use crate::scripts::{self, Script};

const TIME: Duration = Duration::from_secs(5);
/// A little less than the kernel's limit for an argument.
const MAX_COMMAND: usize = 100 << 10;

#[derive(Clone, Debug)]
pub struct Tirith {
    program: PathBuf,
}

impl Tirith {
    /// Finds it in the directories of a `PATH`.
    pub fn find(path: &str) -> Option<Self> {
        let candidates = std::env::split_paths(path).filter(|place| place.is_absolute());
        let mut programs = candidates.map(|place| place.join("tirith"));
        programs.find(|program| is_program(program)).map(|program| Self { program })
    }

    /// Its findings about a command.
    pub fn check(&self, command: &str) -> Result<Vec<Finding>, ScannerError> {
        let broke = |why: String| ScannerError { scanner: "tirith", why };
        if command.len() > MAX_COMMAND {
            return Err(broke(format!("the command is longer than {MAX_COMMAND} bytes")));
        }
        let words = ["check", "--json", "--non-interactive", "--shell", "posix", "--", command];
        let ended = scripts::run(&Script {
            program: &self.program,
            arguments: &words.map(str::to_owned),
            working_directory: Path::new("/"),
            environment: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
            time: TIME,
            cancel: &Cancel::default(),
        })
        .map_err(|error| broke(error.to_string()))?;
        let report = serde_json::Deserializer::from_str(&ended.output).into_iter::<Json>().next();
        match (report, ended.code()) {
            (Some(Ok(report)), 0..=2) => {
                read(&report).ok_or_else(|| broke("its answer has no findings".to_owned()))
            }
            (_, code) => Err(broke(format!("it ended with {code} and an answer that cannot be read"))),
        }
    }
}

fn is_program(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

/// Up to version 0.2 a list of findings, since then an object with them and an action.
fn read(report: &Json) -> Option<Vec<Finding>> {
    let rows = report.as_array().or_else(|| report["findings"].as_array())?;
    let mut findings: Vec<Finding> = rows.iter().map(finding).collect();
    if findings.is_empty() && report["action"] == "block" {
        findings.push(finding(&Json::Null));
    }
    Some(findings)
}

fn finding(row: &Json) -> Finding {
    let word = |key: &str| row[key].as_str().unwrap_or_default();
    // An unknown severity counts as high.
    let severity = Severity::parse(&word("severity").to_lowercase()).unwrap_or(Severity::High);
    let excerpt = format!("{} {}", word("rule_id"), word("title"));
    Finding {
        rule: "tirith",
        severity,
        score: Score::of(severity),
        category: Category::Commands,
        span: TextSpan { start: 0, end: 0, line: 1, column: 1 },
        passage: 0..0,
        excerpt: excerpt
            .chars()
            .filter(|letter| !letter.is_control())
            .take(200)
            .collect::<String>()
            .trim()
            .to_owned(),
        advice: "Do it another way. Only the operator can allow it (`tirith.fail_on`).",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn severities(report: &Json) -> Option<Vec<Severity>> {
        Some(read(report)?.iter().map(|finding| finding.severity).collect())
    }

    #[test]
    fn both_shapes_of_answers_are_read() {
        let rows = json!([{ "rule_id": "a", "severity": "MEDIUM" }, { "rule_id": "b", "severity": "odd" }]);
        assert_eq!(severities(&rows), Some(vec![Severity::Medium, Severity::High]));
        assert_eq!(
            severities(&json!({ "action": "block", "findings": rows })).map(|found| found.len()),
            Some(2)
        );
        assert_eq!(severities(&json!({ "action": "allow", "findings": [] })), Some(vec![]));
        assert_eq!(severities(&json!({ "action": "block", "findings": [] })), Some(vec![Severity::High]));
        assert_eq!(severities(&json!({ "action": "allow" })), None);
    }

    fn stub(directory: &Path, text: &str) -> Tirith {
        let program = directory.join("tirith");
        std::fs::write(&program, format!("#!/bin/sh\n{text}\n")).expect("a script");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("a program");
        Tirith::find(&directory.to_string_lossy()).expect("found")
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_a_broken_scanner() {
        let directory = tempfile::tempdir().expect("a directory");
        assert!(Tirith::find(&directory.path().to_string_lossy()).is_none());
        for text in ["exit 0", "echo nonsense; exit 1", "echo '{\"findings\":[]}'; exit 9", "kill -9 $$"] {
            assert!(stub(directory.path(), text).check("ls").is_err(), "{text}");
        }
        let fine = stub(
            directory.path(),
            "echo '{\"action\":\"warn\",\"findings\":[{\"severity\":\"LOW\"}]}'; exit 2",
        );
        assert_eq!(fine.check("ls").map(|found| found.len()), Ok(1));
        assert!(fine.check(&"x".repeat(MAX_COMMAND + 1)).is_err());
    }
}
