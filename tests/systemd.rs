//! The systemd unit of a worker: it names a variable and options that the program has, and systemd accepts it where it is installed.

use std::fs;
use std::process::Command;

use crate::support::{World, has_program, program, root};

fn unit() -> String {
    fs::read_to_string(root().join("packaging/systemd/fullsend-worker.service")).unwrap()
}

#[test]
fn the_unit_names_what_the_program_has() {
    let unit = unit();
    let help = World::new().run(&["worker", "--help"]).out;
    let is_variable = |word: &&str| word.starts_with("FULLSEND_");
    let words = unit.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let variables: Vec<&str> = words.filter(is_variable).collect();
    assert!(!variables.is_empty());
    assert!(variables.iter().all(|name| help.contains(name)), "{variables:?}");
    assert!(unit.contains("`--checkout ") && help.contains("--checkout <URL>"), "{unit}");
}

#[test]
fn systemd_accepts_the_unit() {
    if !has_program("systemd-analyze", "systemd") {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("fullsend-worker.service");
    // Where the package puts the program, there may be none.
    let unit = unit().replace("/usr/bin/fullsend", &program().to_string_lossy());
    fs::write(&path, unit).unwrap();
    let verified = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&path).output().unwrap();
    let said = String::from_utf8_lossy(&verified.stderr);
    assert!(verified.status.success() && said.is_empty(), "{said}");
}
