//! From the start of the agent to its first request to the model, and the most memory that its process held: our own loop
//! beside the real programs, each in a real sandbox before the same scripted model. Programs come from `target/cache`
//! (`fullsend runtimes install`); one that is absent is left out.
//!
//!     cargo bench -p fullsend --bench runtimes
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench prints, and stops where it cannot go on"
)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const ROUNDS: usize = 5;

/// What one run showed.
#[derive(Clone, Copy)]
struct Shown {
    first_request: Duration,
    kilobytes: u64,
}

fn main() {
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/cache").canonicalize();
    let own = best("native", "__agent", None).unwrap();
    println!("name ours peer ratio");
    let Ok(cache) = cache else { return println!("no peer: target/cache is not there") };
    for (runtime, process) in
        [("claude", "/opt/fullsend/runtime/claude"), ("codex", "/opt/fullsend/runtime/bin/codex")]
    {
        let Some(peer) = best(runtime, process, Some(&cache)) else {
            println!("{runtime}: not installed in target/cache");
            continue;
        };
        let (ours, theirs) = (own.first_request.as_secs_f64() * 1e3, peer.first_request.as_secs_f64() * 1e3);
        println!("first-request-ms-{runtime} {ours:.1} {theirs:.1} {:.1}", theirs / ours);
        let (ours, theirs) = (own.kilobytes as f64 / 1024.0, peer.kilobytes as f64 / 1024.0);
        println!("memory-mb-{runtime} {ours:.1} {theirs:.1} {:.1}", theirs / ours);
    }
}

/// The best of a few rounds, of each figure.
fn best(runtime: &str, process: &str, cache: Option<&Path>) -> Option<Shown> {
    let rounds: Option<Vec<Shown>> = (0..ROUNDS).map(|_| once(runtime, process, cache)).collect();
    let rounds = rounds?;
    Some(Shown {
        first_request: rounds.iter().map(|shown| shown.first_request).min()?,
        kilobytes: rounds.iter().map(|shown| shown.kilobytes).min()?,
    })
}

/// `None`: the run did not come to its first request.
fn once(runtime: &str, process: &str, cache: Option<&Path>) -> Option<Shown> {
    let place = tempfile::tempdir().unwrap();
    lay_out(place.path(), runtime);
    let mut command = Command::new(env!("CARGO_BIN_EXE_fullsend"));
    command
        .args(["run", "bench", "--json"])
        .current_dir(place.path().join("repo"))
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", place.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    if let Some(cache) = cache {
        command.env("XDG_CACHE_HOME", cache);
    }
    let mut child = command.spawn().unwrap();
    let (stop, most) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let watcher = {
        let (stop, most, process) = (Arc::clone(&stop), Arc::clone(&most), process.to_owned());
        std::thread::spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                most.fetch_max(memory(&process), Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(10));
            }
        })
    };
    let (mut started, mut first_request) = (None, None);
    for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
        if line.contains("\"type\":\"agent_started\"") {
            started = started.or(Some(Instant::now()));
        } else if line.contains("\"type\":\"model_request\"") {
            first_request = first_request.or_else(|| started.map(|from: Instant| from.elapsed()));
        }
    }
    let ended = child.wait().unwrap();
    stop.store(true, Ordering::SeqCst);
    watcher.join().unwrap();
    let first_request = first_request.filter(|_| ended.success())?;
    Some(Shown { first_request, kilobytes: most.load(Ordering::SeqCst) })
}

/// The highest mark of the processes whose command line names this program; the largest of them.
fn memory(process: &str) -> u64 {
    let all = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let ours = all.filter(|path| {
        let line = fs::read(path.join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        line.starts_with(process) || line.starts_with(&format!("/opt/fullsend/fullsend {process}"))
    });
    let marks = ours.filter_map(|path| {
        let status = fs::read_to_string(path.join("status")).ok()?;
        let mark = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        mark.trim().trim_end_matches(" kB").parse().ok()
    });
    marks.max().unwrap_or(0)
}

fn lay_out(root: &Path, runtime: &str) {
    let write = |path: &str, text: &str| {
        let path = root.join("repo").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let vendor = if runtime == "codex" { "openai" } else { "anthropic" };
    write(
        ".fullsend/harness/bench.yaml",
        &format!(
            "agent: agents/bench.md\nruntime: {runtime}\npolicy: policies/bench.yaml\nproviders: [model]\noutput_schema: schemas/bench.json\n"
        ),
    );
    write(".fullsend/agents/bench.md", "---\nname: bench\ndescription: Does nothing.\n---\nReport `done`.\n");
    write(
        ".fullsend/schemas/bench.json",
        r#"{"type":"object","required":["done"],"additionalProperties":false,"properties":{"done":{"type":"boolean"}}}"#,
    );
    write(
        ".fullsend/policies/bench.yaml",
        "version: 1\nfilesystem_policy:\n  include_workdir: true\n  read_only: [/usr, /lib, /etc, /proc, /dev/urandom]\n  read_write: [/sandbox, /tmp, /dev/null]\nprocess:\n  run_as_user: sandbox\n  run_as_group: sandbox\nnetwork_policies: {}\n",
    );
    write(
        ".fullsend/providers/model.yaml",
        &format!("name: model\ntype: {vendor}\nconfig:\n  scenario: scenarios/bench.json\n"),
    );
    write(
        ".fullsend/scenarios/bench.json",
        r#"{"turns":[[{"shell":"sleep 0.3"}],[{"finish":{"done":true}}]]}"#,
    );
}
