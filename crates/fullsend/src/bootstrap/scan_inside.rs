//! Path B: scans everything an agent would read once more, inside, as it was assembled there. Our own program does it in
//! the sandbox; the host decides about its findings.

use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use sandbox::{Command, Stdio};
use serde::Deserialize;

use crate::backend::AgentSandbox;
use crate::event::finding::{
    FindingAction, FindingEvent, FindingFamily, FindingOrigin, FindingScore, FindingSeverity,
};
use crate::guard::{Blocked, Guard};
use crate::harness::security::HostScanners;
use crate::runtime::paths::{PROGRAM, WORKSPACE};

/// `scan context` as a hidden command, which every program that embeds fullsend answers, whatever its own commands are.
pub const COMMAND: &str = "__scan";

const TIME: Duration = Duration::from_secs(60);
const MAX_ANSWER: u64 = 64 << 20;

/// What the scan inside reads.
pub(super) struct ScanTargets<'a> {
    /// The runtime's configuration directory.
    pub(super) config: &'a str,
    pub(super) repository: &'a str,
    /// Paths in the repository that an agent would read; the host has listed them.
    pub(super) paths_to_scan: &'a [PathBuf],
}

pub(super) fn scan(
    sandbox: &AgentSandbox,
    guard: &Guard,
    scanners: &HostScanners,
    inside: &ScanTargets<'_>,
) -> Result<(), Blocked> {
    let output = match ask(sandbox, scanners, inside) {
        Ok(output) => output,
        Err(why) => return guard.report_unreadable("inside", &why),
    };
    let repository = inside.repository;
    for line in output.lines() {
        let Ok(scanned) = serde_json::from_str::<ScannedFile>(line) else {
            return guard.report_unreadable("inside", "the scan inside gave an answer that cannot be read");
        };
        let ScannedFile { file, origin, findings, problem } = scanned;
        let place = file.strip_prefix(&format!("{repository}/")).unwrap_or(&file);
        if let Some(problem) = problem {
            guard.report_unreadable(place, &problem)?;
        }
        let findings = findings.into_iter().map(|found| finding(place, origin, found)).collect();
        guard.ingest_findings(findings)?;
    }
    Ok(())
}

fn ask(sandbox: &AgentSandbox, scanners: &HostScanners, inside: &ScanTargets<'_>) -> Result<String, String> {
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
    words.extend(["--own", inside.config, "--points-of", inside.repository, WORKSPACE, inside.config]);
    let mut command = Command::new(words);
    (command.stdin, command.stdout) = (Stdio::Pipe, Stdio::Pipe);
    let mut process = sandbox.exec(command).map_err(|error| error.to_string())?;
    if let Some(mut stdin) = process.stdin.take() {
        let paths_to_scan: Vec<u8> = inside
            .paths_to_scan
            .iter()
            .flat_map(|path| path.as_os_str().as_bytes().iter().copied().chain([0]))
            .collect();
        stdin.write_all(&paths_to_scan).map_err(|error| error.to_string())?;
    }
    let mut output = String::new();
    if let Some(stdout) = process.stdout.take() {
        stdout.take(MAX_ANSWER).read_to_string(&mut output).map_err(|error| error.to_string())?;
    }
    let exit = process.wait(TIME).map_err(|error| error.to_string())?;
    match exit {
        sandbox::CommandExit::Code(0 | 6) => Ok(output),
        other => Err(format!("the scan inside ended with {other:?}")),
    }
}

/// One line of `scan context --format json`.
#[derive(Deserialize)]
struct ScannedFile {
    file: String,
    origin: FindingOrigin,
    #[serde(default)]
    findings: Vec<ScannedFinding>,
    /// Why the file could not be scanned.
    problem: Option<String>,
}

#[derive(Deserialize)]
struct ScannedFinding {
    rule: String,
    category: FindingFamily,
    severity: FindingSeverity,
    score: Option<FindingScore>,
    line: u32,
    column: u32,
    start: usize,
    end: usize,
    excerpt: String,
    advice: String,
}

fn finding(place: &str, origin: FindingOrigin, found: ScannedFinding) -> FindingEvent {
    let ScannedFinding { rule, category, severity, score, line, column, start, end, excerpt, advice } = found;
    let action = FindingAction::None;
    let place = place.to_owned();
    let waiver = None;
    FindingEvent {
        place,
        origin,
        rule,
        category,
        severity,
        score,
        line,
        column,
        start,
        end,
        excerpt,
        advice,
        action,
        waiver,
        kept: None,
    }
}
