//! Every diagnostic that a person can see, as a snapshot. A code in the sources without a case fails.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::message_cases::cases;
use crate::support::root;

/// Codes that no command shows, and why.
const UNSEEN: &[(&str, &str)] = &[
    ("too-large", "a layer reads no file that is larger than the parser takes"),
    ("not-inherited", "needs a server; `tests/remote` has it"),
    ("remote-cache", "needs a cache that cannot be used"),
    ("remote-digest", "needs a server; `tests/remote` has it"),
    ("remote-files", "needs a server; `tests/remote` has it"),
    ("remote-lock", "needs a server; `tests/remote` has it"),
    ("remote-unreachable", "needs a server; `tests/remote` has it"),
    ("host-socket", "it depends on the sockets of the host; `check/host_sockets.rs` tests it"),
];

/// Where diagnostics about configuration are made.
const SOURCES: &[&str] = &[
    "crates/yaml/src",
    "crates/fullsend/src/harness",
    "crates/fullsend/src/resolve",
    "crates/fullsend/src/check",
    "crates/fullsend/src/runtime",
    "crates/fullsend/src/cli",
];

#[test]
fn every_code_has_a_case() {
    let seen: BTreeSet<String> = cases().iter().map(|case| case.code.to_owned()).collect();
    let unseen: BTreeSet<String> = UNSEEN.iter().map(|(code, _)| (*code).to_owned()).collect();
    let made = codes();
    assert!(made.len() > 50, "{made:?}");
    let missing: Vec<_> =
        made.iter().filter(|code| !seen.contains(*code) && !unseen.contains(*code)).collect();
    assert!(missing.is_empty(), "no case shows these codes: {missing:?}");
    let gone: Vec<_> = seen.iter().chain(&unseen).filter(|code| !made.contains(*code)).collect();
    assert!(gone.is_empty(), "nothing makes these codes any more: {gone:?}");
}

#[test]
fn every_case_shows_its_code() {
    let mut names = BTreeSet::new();
    for case in cases() {
        let shown = case.run();
        assert!(shown.contains(&format!("[{}]", case.code)), "{}: {shown}", case.name());
        assert!(!shown.contains("panicked"), "{shown}");
        assert!(names.insert(case.name()), "{} is there twice", case.name());
        insta::assert_snapshot!(case.name(), shown);
    }
}

/// The first literal after each place that makes a diagnostic.
fn codes() -> BTreeSet<String> {
    let mut codes = BTreeSet::new();
    for file in SOURCES.iter().flat_map(|directory| rust_files(&root().join(directory))) {
        let text = fs::read_to_string(&file).unwrap();
        for maker in ["Diagnostic::error(", "Diagnostic::warning(", "of_strictness(how,"] {
            for (index, _) in text.match_indices(maker) {
                let rest = text[index + maker.len()..].trim_start();
                let literal = rest.strip_prefix('"').and_then(|rest| rest.split_once('"'));
                codes.extend(literal.map(|(code, _)| code.to_owned()));
            }
        }
    }
    codes
}

fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let (directories, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let below = directories.iter().flat_map(|directory| rust_files(directory));
    let own = files.into_iter().filter(|path| path.extension().is_some_and(|end| end == "rs"));
    own.chain(below).filter(|path| path.file_name().is_some_and(|name| name != "tests.rs")).collect()
}
