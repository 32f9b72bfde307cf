//! From the start of the agent to its first request to the model, and the most memory that it held: our own loop beside
//! the real programs, each in a real sandbox before the same scripted model. Memory is that of the agent's process and of
//! everything below it, added up at one moment: `rss` with the pages of its program, which are shared with whoever else
//! runs the same file; `own` without them. Programs come from `target/cache` (`fullsend runtimes install`); one that is
//! absent is left out.
//!
//!     cargo bench -p fullsend --bench runtimes
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench prints, and stops where it cannot go on"
)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Enough for one of them to be undisturbed on a machine that others use.
const ROUNDS: usize = 15;

/// What one run showed.
#[derive(Clone, Copy)]
struct Shown {
    /// From the start of `fullsend run` to the start of the agent.
    set_up: Duration,
    /// From there to the first request.
    first_request: Duration,
    memory: Memory,
}

/// Kilobytes.
#[derive(Clone, Copy, Default)]
struct Memory {
    rss: u64,
    own: u64,
}

fn main() {
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/cache").canonicalize();
    let own = best("native", "/opt/fullsend/fullsend __agent", None).unwrap();
    println!("name ours peer ratio");
    let Ok(cache) = cache else { return println!("no peer: target/cache is not there") };
    for (runtime, process) in
        [("claude", "/opt/fullsend/runtime/claude"), ("codex", "/opt/fullsend/runtime/bin/codex")]
    {
        let Some(peer) = best(runtime, process, Some(&cache)) else {
            println!("{runtime}: not installed in target/cache");
            continue;
        };
        let line = |name: &str, ours: f64, theirs: f64| {
            println!("{name}-{runtime} {ours:.1} {theirs:.1} {:.1}", theirs / ours);
        };
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        let megabytes = |kilobytes: u64| kilobytes as f64 / 1024.0;
        line("set-up-ms", milliseconds(own.set_up), milliseconds(peer.set_up));
        line("first-request-ms", milliseconds(own.first_request), milliseconds(peer.first_request));
        line("memory-rss-mb", megabytes(own.memory.rss), megabytes(peer.memory.rss));
        line("memory-own-mb", megabytes(own.memory.own), megabytes(peer.memory.own));
    }
}

/// The best of a few rounds, of each figure.
fn best(runtime: &str, process: &str, cache: Option<&Path>) -> Option<Shown> {
    let rounds: Option<Vec<Shown>> = (0..ROUNDS).map(|_| once(runtime, process, cache)).collect();
    let rounds = rounds?;
    let least = |of: fn(&Shown) -> u64| rounds.iter().map(of).min();
    Some(Shown {
        set_up: rounds.iter().map(|shown| shown.set_up).min()?,
        first_request: rounds.iter().map(|shown| shown.first_request).min()?,
        memory: Memory { rss: least(|shown| shown.memory.rss)?, own: least(|shown| shown.memory.own)? },
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
    let begun = Instant::now();
    let mut child = command.spawn().unwrap();
    let runner = child.id();
    let asked = AtomicBool::new(false);
    let stop = AtomicBool::new(false);
    let mut started = None;
    let mut first_request = None;
    let memory = std::thread::scope(|scope| {
        // Nothing is measured before the first request: measuring would slow the programs down.
        let watcher = scope.spawn(|| watch(process, runner, &asked, &stop));
        for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
            if line.contains("\"type\":\"agent_started\"") {
                started = started.or(Some(Instant::now()));
            } else if line.contains("\"type\":\"model_request\"") {
                first_request = first_request.or_else(|| started.map(|from: Instant| from.elapsed()));
                asked.store(true, Ordering::SeqCst);
            }
        }
        stop.store(true, Ordering::SeqCst);
        watcher.join().unwrap()
    });
    let ended = child.wait().unwrap();
    let first_request = first_request.filter(|_| ended.success())?;
    Some(Shown { set_up: started? - begun, first_request, memory })
}

/// The most that the agent held at one moment.
fn watch(process: &str, runner: u32, asked: &AtomicBool, stop: &AtomicBool) -> Memory {
    let mut most = Memory::default();
    while !stop.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(5));
        if asked.load(Ordering::SeqCst) {
            let now = memory(process, runner);
            most = Memory { rss: most.rss.max(now.rss), own: most.own.max(now.own) };
        }
    }
    most
}

/// Of the processes below the runner whose command line begins so, and of everything below those.
fn memory(process: &str, runner: u32) -> Memory {
    let mut parents: BTreeMap<u32, u32> = BTreeMap::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Some(parent) = field(pid, "PPid:") else { continue };
        parents.insert(pid, u32::try_from(parent).unwrap());
    }
    let is_below = |pid: u32, top: &dyn Fn(u32) -> bool| {
        let mut above = Some(pid);
        while let Some(pid) = above.filter(|pid| !top(*pid)) {
            above = parents.get(&pid).copied();
        }
        above.is_some()
    };
    let is_agent = |pid: u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).replace('\0', " ").starts_with(process)
    };
    let inside = parents.keys().filter(|pid| is_below(**pid, &|pid| pid == runner));
    let ours = inside.filter(|pid| is_below(**pid, &is_agent));
    ours.fold(Memory::default(), |sum, pid| Memory {
        rss: sum.rss + field(*pid, "VmRSS:").unwrap_or(0),
        own: sum.own + field(*pid, "RssAnon:").unwrap_or(0),
    })
}

/// A number of `/proc/PID/status`.
fn field(pid: u32, name: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix(name))?.trim().trim_end_matches(" kB").parse().ok()
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
