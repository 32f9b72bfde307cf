//! Path B: everything an agent would read, scanned once more inside, as it was put together there. Our own program does
//! it, started in the sandbox; what it found is judged on the host.

use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use sandbox::{Command, Sandbox, Stdio};
use serde_json::Value as Json;

use crate::event;
use crate::guard::{Blocked, Guard};
use crate::harness::security::HostScanners;
use crate::runtime::paths::{PROGRAM, WORKSPACE};

/// `scan context` by a name that every program with runs in it answers to, whatever its own commands are.
pub const COMMAND: &str = "__scan";

const TIME: Duration = Duration::from_secs(60);
const MAX_ANSWER: u64 = 64 << 20;

/// What is looked at.
pub(super) struct Inside<'a> {
    /// The runtime's configuration directory.
    pub(super) config: &'a str,
    pub(super) repository: &'a str,
    /// Where in the repository something stands that is to be looked at; all of it was walked on the host.
    pub(super) points: &'a [PathBuf],
}

pub(super) fn scan(
    sandbox: &Sandbox,
    guard: &Guard,
    scanners: &HostScanners,
    inside: &Inside<'_>,
) -> Result<(), Blocked> {
    let said = match ask(sandbox, scanners, inside) {
        Ok(said) => said,
        Err(why) => return guard.report_unreadable("inside", &why),
    };
    let repository = inside.repository;
    for line in said.lines() {
        let Ok(file) = serde_json::from_str::<Json>(line) else {
            return guard.report_unreadable("inside", "the scan inside gave an answer that cannot be read");
        };
        let path = file["file"].as_str().unwrap_or_default();
        let place = path.strip_prefix(&format!("{repository}/")).unwrap_or(path);
        if let Some(problem) = file["problem"].as_str() {
            guard.report_unreadable(place, problem)?;
        }
        let rows = file["findings"].as_array().map_or(&[][..], Vec::as_slice);
        let findings = rows.iter().map(|row| finding(place, &file, row)).collect();
        guard.ingest_findings(findings)?;
    }
    Ok(())
}

fn ask(sandbox: &Sandbox, scanners: &HostScanners, inside: &Inside<'_>) -> Result<String, String> {
    let mut words = vec![PROGRAM, COMMAND, "--format", "json"];
    let switches = [
        ("unicode_normalizer", scanners.unicode_normalizer.value),
        ("context_injection", scanners.context_injection.value),
        ("ssrf_validator", scanners.ssrf_validator.value),
        ("secret_redactor", scanners.secret_redactor.value),
    ];
    for (name, _) in switches.iter().filter(|(_, on)| !on) {
        words.extend(["--without", name]);
    }
    words.extend(["--points-of", inside.repository, WORKSPACE, inside.config]);
    let mut command = Command::new(words);
    (command.stdin, command.stdout) = (Stdio::Pipe, Stdio::Pipe);
    let mut process = sandbox.exec(command).map_err(|error| error.to_string())?;
    if let Some(mut stdin) = process.stdin.take() {
        let points: Vec<u8> = inside
            .points
            .iter()
            .flat_map(|path| path.as_os_str().as_bytes().iter().copied().chain([0]))
            .collect();
        stdin.write_all(&points).map_err(|error| error.to_string())?;
    }
    let mut said = String::new();
    if let Some(stdout) = process.stdout.take() {
        stdout.take(MAX_ANSWER).read_to_string(&mut said).map_err(|error| error.to_string())?;
    }
    let exit = process.wait(TIME).map_err(|error| error.to_string())?;
    match exit {
        sandbox::CommandExit::Code(0 | 6) => Ok(said),
        other => Err(format!("the scan inside ended with {other:?}")),
    }
}

fn finding(place: &str, file: &Json, row: &Json) -> event::Finding {
    let word = |value: &Json| value.as_str().unwrap_or_default().to_owned();
    let number = |value: &Json| value.as_u64().unwrap_or_default();
    event::Finding {
        place: place.to_owned(),
        origin: word(&file["origin"]),
        rule: word(&row["rule"]),
        category: word(&row["category"]),
        severity: word(&row["severity"]),
        line: u32::try_from(number(&row["line"])).unwrap_or(u32::MAX),
        column: u32::try_from(number(&row["column"])).unwrap_or(u32::MAX),
        start: usize::try_from(number(&row["start"])).unwrap_or(usize::MAX),
        end: usize::try_from(number(&row["end"])).unwrap_or(usize::MAX),
        excerpt: word(&row["excerpt"]),
        advice: word(&row["advice"]),
        action: String::new(),
        suppressed: None,
    }
}
