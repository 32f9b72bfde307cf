//! The questions of a first user are answered one click away from README: the link leads to a section that exists and has the
//! answer in it.

use std::fs;

use crate::support::root;

/// The start of a question in README, and what its section must have.
const ANSWERS: &[(&str, &str)] = &[
    ("How do I allow npm", "network: [npm, pip]"),
    ("Why was a request refused?", "fullsend policy suggest --write"),
    ("How do I use models at Vertex AI?", "a service account's key"),
    ("What does a model cost", "fullsend models show"),
    ("How do I start 50 runs in parallel?", "fullsend dispatch send"),
    ("How does the agent get the text of an issue?", "fullsend issues get"),
    ("How does a diff become a pull request?", "fullsend runs apply"),
    ("How do I update Claude Code?", "fullsend runtimes install claude"),
    ("How do I turn off a noisy rule?", "security:\n  rules:"),
    ("How do I look inside?", "fullsend enter"),
    ("Does it run on my platform?", "WSL 2"),
    ("How do I uninstall it?", "apt remove fullsend"),
];

/// A heading as the forges make an anchor of it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.collect::<String>().trim().to_lowercase().replace(' ', "-")
}

/// The text below a heading, up to the next of its kind or above.
fn section(page: &str, wanted: &str) -> Option<String> {
    let level = |line: &str| line.chars().take_while(|letter| *letter == '#').count();
    let is_heading = |line: &str| matches!(level(line), 1..=6) && !line.starts_with("    ");
    let mut lines = page.lines().skip_while(|line| !is_heading(line) || anchor(line) != wanted);
    let first = lines.next()?;
    let deeper = |line: &&str| !is_heading(line) || (level(line) > level(first) && level(first) > 1);
    Some(lines.take_while(deeper).collect::<Vec<_>>().join("\n"))
}

#[test]
fn every_question_is_answered_one_click_away() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let rows = readme.lines().skip_while(|line| *line != "| question | answer |").skip(2);
    let rows: Vec<&str> = rows.take_while(|line| line.starts_with('|')).collect();
    assert_eq!(rows.len(), ANSWERS.len(), "{rows:?}");
    for (question, answer) in ANSWERS {
        let row = rows.iter().find(|row| row.starts_with(&format!("| {question}")));
        let row = row.unwrap_or_else(|| panic!("README does not ask: {question}"));
        let link = row.split("](").nth(1).and_then(|rest| rest.split(')').next()).unwrap();
        let (file, anchor) = link.split_once('#').unwrap();
        let page = fs::read_to_string(root().join(file)).unwrap();
        let section = section(&page, anchor).unwrap_or_else(|| panic!("{link} leads nowhere"));
        assert!(section.contains(answer), "{link} does not say `{answer}`: {section}");
    }
}
