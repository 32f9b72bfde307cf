//! What a run costs beside its agent, for the bundled example: everything but the agent's own time, and the time from the
//! command's start to the agent's; in a small repository and in one of 50,000 files, and for each step what the larger one
//! adds. The peers are measured in the same rounds: for the small repository two bubblewrap sandboxes with a process in
//! each, which is the least that anything with a sandbox and a retry starts; for the large one a bare walk over its names.
//!
//!     cargo bench -p fullsend --bench overhead
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench prints, and stops where it cannot go on"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fullsend::event::{Envelope, RunEvent, Step};

const ROUNDS: usize = 15;

/// What one run took, in milliseconds.
struct Taken {
    beside_agent: f64,
    to_agent: f64,
    steps: BTreeMap<String, f64>,
}

fn main() {
    println!("name ours_ms peer_ms ratio");
    let small = measure("small", 0, &|_| bubblewrap());
    let large = measure("50000-files", 50_000, &|repository| walk(repository));
    println!("\nstep small_ms 50000_files_ms grows_ms");
    for (step, before) in &small {
        let after = large.get(step).copied().unwrap_or_default();
        println!("{step} {before:.1} {after:.1} {:.1}", after - before);
    }
}

/// The middle of all rounds, printed beside the peer; the steps come back.
fn measure(name: &str, files: usize, peer: &dyn Fn(&Path) -> f64) -> BTreeMap<String, f64> {
    let place = tempfile::tempdir().unwrap();
    lay_out(place.path(), files);
    run(place.path());
    let rounds: Vec<(Taken, f64)> =
        (0..ROUNDS).map(|_| (run(place.path()), peer(&place.path().join("repo")))).collect();
    let peer = middle(rounds.iter().map(|(_, peer)| *peer));
    for (what, ours) in [
        ("overhead", middle(rounds.iter().map(|(taken, _)| taken.beside_agent))),
        ("start-to-agent", middle(rounds.iter().map(|(taken, _)| taken.to_agent))),
    ] {
        println!("{what}-{name} {ours:.1} {peer:.1} {:.2}", ours / peer);
    }
    let steps = rounds[0].0.steps.keys();
    let of = |step: &String| middle(rounds.iter().filter_map(|(taken, _)| taken.steps.get(step).copied()));
    steps.map(|step| (step.clone(), of(step))).collect()
}

fn middle(all: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = all.collect();
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

/// Twice a sandbox with all namespaces and the host's programs in it, and `true` inside.
fn bubblewrap() -> f64 {
    let words =
        ["--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64"];
    let started = Instant::now();
    for _ in 0..2 {
        let mut command = Command::new("bwrap");
        command.args(words).args(["--proc", "/proc", "--dev", "/dev", "--unshare-all", "/usr/bin/true"]);
        // Where it is not installed a bare process is the peer.
        let ran = command.stderr(Stdio::null()).status().or_else(|_| Command::new("true").status());
        assert!(ran.unwrap().success());
    }
    started.elapsed().as_secs_f64() * 1e3
}

/// Every name once, by one thread, with nothing done about it.
fn walk(place: &Path) -> f64 {
    let started = Instant::now();
    let mut open = vec![place.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) && entry.file_name() != ".git" {
                open.push(entry.path());
            }
        }
    }
    started.elapsed().as_secs_f64() * 1e3
}

fn run(place: &Path) -> Taken {
    let started = Instant::now();
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let ran = Command::new(env!("CARGO_BIN_EXE_fullsend"))
        .args(["run", "hello", "--json", "--output-dir"])
        .arg(place.join("runs"))
        .current_dir(place.join("repo"))
        .output()
        .unwrap();
    let whole = started.elapsed();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let mut agent = Duration::ZERO;
    let mut begun = None;
    let mut steps = BTreeMap::<String, f64>::new();
    for line in String::from_utf8(ran.stdout).unwrap().lines() {
        let envelope: Envelope = serde_json::from_str(line).unwrap();
        match envelope.event {
            RunEvent::StepFinished { step, duration_ms, .. } => {
                *steps.entry(format!("{step:?}")).or_default() += duration_ms as f64;
                if step == Step::Agent {
                    agent += Duration::from_millis(duration_ms);
                }
            }
            RunEvent::AgentStarted { .. } => begun = begun.or(Some(milliseconds(&envelope.time))),
            _ => {}
        }
    }
    let to_agent = begun.unwrap() - clock.as_secs_f64() % 86_400.0 * 1e3;
    Taken { beside_agent: (whole - agent).as_secs_f64() * 1e3, to_agent, steps }
}

/// Of the day, from `2026-01-01T12:34:56.789Z`.
fn milliseconds(time: &str) -> f64 {
    let number = |range: std::ops::Range<usize>| time[range].parse::<f64>().unwrap();
    number(11..13) * 3.6e6 + number(14..16) * 6e4 + number(17..19) * 1e3 + number(20..23)
}
