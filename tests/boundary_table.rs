//! The table of closed weaknesses in docs/threat-model.md: every row names tests that exist, who runs them, and what was
//! broken once to see them fail.

use std::fs;

use crate::support::root;

/// Below this heading.
const HEADING: &str = "## Weaknesses that are closed";

/// Who runs the tests of a row.
const WHO: &[&str] = &["root and user", "any user"];

struct Row {
    number: usize,
    tests: Vec<(String, String)>,
    who: String,
    mutation: String,
}

fn rows() -> Vec<Row> {
    let text = fs::read_to_string(root().join("docs/threat-model.md")).unwrap();
    let (_, section) = text.split_once(HEADING).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let lines = section.lines().filter(|line| line.starts_with("| ")).skip(1);
    lines.map(row).collect()
}

fn row(line: &str) -> Row {
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let [number, _weakness, tests, who, mutation] = cells[..] else { panic!("not five cells: {line}") };
    let named = tests.split('`').skip(1).step_by(2).map(|test| {
        let (file, name) = test.split_once("::").unwrap_or_else(|| panic!("no FILE::TEST: {test}"));
        (file.to_owned(), name.to_owned())
    });
    Row {
        number: number.parse().unwrap(),
        tests: named.collect(),
        who: who.to_owned(),
        mutation: mutation.to_owned(),
    }
}

#[test]
fn every_closed_weakness_has_its_tests() {
    let rows = rows();
    let numbers: Vec<usize> = rows.iter().map(|row| row.number).collect();
    assert_eq!(numbers, (1..=26).collect::<Vec<_>>());
    for Row { number, tests, who, mutation } in &rows {
        assert!(!tests.is_empty(), "{number} names no test");
        assert!(WHO.contains(&who.as_str()), "{number}: `{who}`");
        assert!(mutation.len() > 10, "{number}: `{mutation}` does not say what was broken");
        for (file, name) in tests {
            let text =
                fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
            assert!(text.contains(&format!("fn {name}(")), "{number}: there is no `{name}` in {file}");
        }
    }
}
