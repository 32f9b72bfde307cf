//! What was tried with which version of a runtime: a file that the tests of the matrix write with UPDATE_DOCS=1 when they have
//! passed. The table in `docs/models.md` is made from it, so that a test that was skipped puts nothing there.

use std::fs::{self, File};
use std::path::PathBuf;

use serde_json::Value as Json;

use crate::support::root;

/// One run of the matrix.
#[derive(Debug)]
pub struct Tried<'a> {
    pub runtime: &'a str,
    pub service: &'a str,
    /// `-`: the provider sets none.
    pub wire: &'a str,
    pub part: &'a str,
}

impl Tried<'_> {
    fn key(&self) -> String {
        let Self { runtime, service, wire, part } = self;
        format!("{runtime} {service} {wire} {part} ")
    }
}

fn path() -> PathBuf {
    root().join("tests/data/runtimes/tried.txt")
}

fn lines() -> Vec<String> {
    fs::read_to_string(path()).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// The version with which the run last passed.
pub fn noted_version(tried: &Tried<'_>) -> Option<String> {
    let key = tried.key();
    lines().iter().find_map(|line| line.strip_prefix(&key).map(str::to_owned))
}

/// The run has passed now, with the program that its record names.
pub fn note(tried: &Tried<'_>, record: &Json) {
    let version = record["program"]["version"].as_str().unwrap_or("-");
    if noted_version(tried).as_deref() == Some(version) {
        return;
    }
    assert!(
        std::env::var_os("UPDATE_DOCS").is_some(),
        "{tried:?} passed with {version}: note it by UPDATE_DOCS=1"
    );
    let lock = File::create(root().join("target/tried.lock")).unwrap();
    lock.lock().unwrap();
    let key = tried.key();
    let mut all: Vec<String> = lines().into_iter().filter(|line| !line.starts_with(&key)).collect();
    all.push(format!("{key}{version}"));
    all.sort();
    fs::write(path(), all.join("\n") + "\n").unwrap();
}

/// The version that this program is tested with, as `docs/runtimes.md` names it; `-` for our own runtime.
pub fn tested_version(runtime: &str) -> String {
    let page = fs::read_to_string(root().join("docs/runtimes.md")).unwrap();
    let cells = |start: &str| -> Vec<String> {
        let line = page.lines().find(|line| line.starts_with(start)).unwrap();
        line.split('|').map(|cell| cell.trim().trim_matches('`').to_owned()).collect()
    };
    let place = cells("| | claude |").iter().position(|name| name == runtime).unwrap();
    cells("| tested with |")[place].replace('–', "-")
}
