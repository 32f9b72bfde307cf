//! Policy files in, diagnostics out, from a file of cases. After an intended change, copy what the test wrote.

use std::fs;
use std::path::Path;

use yaml::{Diagnostic, Sources};

use crate::Policy;

/// All diagnostics of a text: `line:column severity code: message`, then label, related places and help.
fn said(text: &str) -> String {
    let mut sources = Sources::default();
    let id = sources.add("p", text);
    let found = match Policy::parse(&sources, id) {
        Ok(parsed) => parsed.warnings,
        Err(problems) => {
            assert!(problems.iter().any(Diagnostic::is_error), "refused without an error: {text}");
            problems
        }
    };
    let mut lines = String::new();
    for problem in &found {
        let place = sources.locate(problem.at);
        let severity = if problem.is_error() { "error" } else { "warning" };
        lines.push_str(&format!(
            "{}:{} {severity} {}: {}\n",
            place.line, place.column, problem.code, problem.message
        ));
        if !problem.label.is_empty() {
            lines.push_str(&format!("  label: {}\n", problem.label));
        }
        for (at, what) in &problem.related {
            let place = sources.locate(*at);
            lines.push_str(&format!("  {}:{} {what}\n", place.line, place.column));
        }
        if let Some(help) = &problem.help {
            lines.push_str(&format!("  help: {help}\n"));
        }
    }
    lines
}

/// A case that begins with `endpoint:` becomes line 4 of an otherwise valid policy.
fn whole(case: &str) -> String {
    match case.strip_prefix("endpoint: ") {
        Some(keys) => format!(
            "version: 1\nnetwork_policies:\n  n: {{binaries: [{{path: /bin/c}}], endpoints: [\n    {{{}}}]}}\n",
            keys.trim_end()
        ),
        None => case.to_owned(),
    }
}

#[test]
fn every_problem_has_its_sentence_and_its_place() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let expected = fs::read_to_string(root.join("tests/data/policy/diagnostics.txt")).unwrap();
    let mut found = String::new();
    let mut cases = 0;
    for block in expected.split("====\n").skip(1) {
        let (case, _) = block.split_once("----\n").unwrap();
        found.push_str(&format!("====\n{case}----\n{}", said(&whole(case))));
        cases += 1;
    }
    if found != expected {
        let written = root.join("target/diagnostics.txt");
        fs::create_dir_all(written.parent().unwrap()).unwrap();
        fs::write(&written, &found).unwrap();
        let differing = found.lines().zip(expected.lines()).find(|(new, old)| new != old);
        panic!("first difference: {differing:?}; all of it is in {}", written.display());
    }
    assert!(cases > 150, "{cases} cases");
}

#[test]
fn large_lists_are_refused() {
    let paths: Vec<String> = (0..257).map(|index| format!("/p{index}")).collect();
    let text = format!("version: 1\nfilesystem_policy: {{read_only: [{}]}}\n", paths.join(", "));
    assert!(said(&text).contains("`filesystem_policy` lists 257 paths; at most 256 are allowed"));
    let long = format!("version: 1\nfilesystem_policy: {{read_only: [/{}]}}\n", "a".repeat(4096));
    assert!(said(&long).contains("must not be longer than 4096 bytes"));
    let rules = vec!["{allow: {method: GET, path: /}}"; 4097].join(", ");
    let text = whole(&format!("endpoint: host: a.test, port: 1, protocol: rest, rules: [{rules}]"));
    assert!(said(&text).contains("has 4097 rules; at most 4096 are allowed"));
    let endpoints = vec!["{host: a.test, port: 1}"; 4097].join(", ");
    let text = format!("version: 1\nnetwork_policies: {{n: {{endpoints: [{endpoints}]}}}}\n");
    assert!(said(&text).contains("4097 endpoints; at most 4096 are allowed"));
}
