//! What a run costs beside its agent: everything but the agent's own time for the bundled example, and the time from the
//! command's start to the agent's, in a small repository and in one of 50,000 files. The peer is `git status` there: one
//! walk over the tree, which every tool that looks at a repository makes.
//!
//!     cargo bench -p fullsend --bench overhead
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench prints, and stops where it cannot go on"
)]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fullsend::event::{Envelope, RunEvent, Step};

const ROUNDS: usize = 9;

fn main() {
    println!("name ours_ms peer_ms ratio");
    for (name, files) in [("small", 0), ("50000-files", 50_000)] {
        let place = tempfile::tempdir().unwrap();
        lay_out(place.path(), files);
        let peer = middle((0..ROUNDS).map(|_| git_status(place.path())).collect());
        let runs: Vec<(f64, f64)> = (0..ROUNDS).map(|_| run(place.path())).collect();
        for (what, ours) in [
            ("overhead", middle(runs.iter().map(|run| run.0).collect())),
            ("start-to-agent", middle(runs.iter().map(|run| run.1).collect())),
        ] {
            println!("{what}-{name} {ours:.1} {peer:.1} {:.2}", ours / peer);
        }
    }
}

fn middle(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// The example in a repository with this many more files.
fn lay_out(place: &Path, files: usize) {
    let repo = place.join("repo");
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/hello"), &repo);
    for number in 0..files {
        let directory = repo.join(format!("tree/{}", number / 100));
        if number % 100 == 0 {
            fs::create_dir_all(&directory).unwrap();
        }
        fs::write(directory.join(format!("{number}.txt")), format!("{number}\n")).unwrap();
    }
    for words in [
        &["init", "-q"][..],
        &["add", "-A"],
        &["-c", "user.name=b", "-c", "user.email=b@b", "commit", "-qm", "all"],
    ] {
        assert!(Command::new("git").args(words).current_dir(&repo).status().unwrap().success());
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn git_status(place: &Path) -> f64 {
    let started = Instant::now();
    let mut command = Command::new("git");
    command.args(["status", "--short"]).current_dir(place.join("repo")).stdout(Stdio::null());
    assert!(command.status().unwrap().success());
    started.elapsed().as_secs_f64() * 1e3
}

/// One run: milliseconds beside the agent, and to the agent's start.
fn run(place: &Path) -> (f64, f64) {
    let (started, clock) = (Instant::now(), SystemTime::now().duration_since(UNIX_EPOCH).unwrap());
    let ran = Command::new(env!("CARGO_BIN_EXE_fullsend"))
        .args(["run", "hello", "--json", "--output-dir"])
        .arg(place.join("runs"))
        .current_dir(place.join("repo"))
        .output()
        .unwrap();
    let whole = started.elapsed();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let (mut agent, mut begun) = (Duration::ZERO, None);
    for line in String::from_utf8(ran.stdout).unwrap().lines() {
        let envelope: Envelope = serde_json::from_str(line).unwrap();
        match envelope.event {
            RunEvent::StepFinished { step: Step::Agent, duration_ms, .. } => {
                agent += Duration::from_millis(duration_ms);
            }
            RunEvent::AgentStarted { .. } => begun = begun.or(Some(milliseconds(&envelope.time))),
            _ => {}
        }
    }
    let start = begun.unwrap() - clock.as_secs_f64() % 86_400.0 * 1e3;
    ((whole - agent).as_secs_f64() * 1e3, start)
}

/// Of the day, from `2026-01-01T12:34:56.789Z`.
fn milliseconds(time: &str) -> f64 {
    let number = |range: std::ops::Range<usize>| time[range].parse::<f64>().unwrap();
    number(11..13) * 3.6e6 + number(14..16) * 6e4 + number(17..19) * 1e3 + number(20..23)
}
