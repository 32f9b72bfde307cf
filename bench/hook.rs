//! A tool call's whole verdict, as a runtime waits for it: our hook's process is started, asks the guard over its socket and
//! ends. Against a bare process, and against one Python process that reads the same call, of which the original starts
//! several for each call.
//!
//!     cargo bench -p fullsend --bench hook
//!
//! The guard's socket has a fixed place inside a sandbox; the bench makes that place in namespaces of its own.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench prints, and stops where it cannot go on"
)]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fullsend::Library;
use fullsend::event::log::Emitter;
use fullsend::internal::hook_server::HookServer;
use fullsend::internal::{Guard, GuardSetup};
use fullsend::{Choices, resolve};
use fullsend::{Layer, LayerKind, Layers};
use model::gateway::{Inspected, Verdict};
use serde_json::json;

const CALLS: usize = 300;
const PLACE: &str = "/opt/fullsend";
const COMMAND: &str = "cd src && grep -rn 'fn main' . | head -20 && cargo test --quiet 2>&1 | tail -5";

fn main() {
    if std::env::var_os("FULLSEND_BENCH_INSIDE").is_none() {
        let script = format!("mount -t tmpfs none /opt && mkdir -m 700 {PLACE} && exec \"$0\" --bench");
        let mut command = Command::new("unshare");
        command
            .args(["--map-root-user", "--mount", "sh", "-c", &script])
            .arg(std::env::current_exe().unwrap());
        let status = command.env("FULLSEND_BENCH_INSIDE", "1").status().unwrap();
        assert!(status.success(), "the bench could not make its place");
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let guard = guard(scratch.path());
    let _listening = HookServer::start(Path::new(PLACE), &guard).unwrap();
    let gateway = guard.gateway_inspect();
    let words = guard.hook_address().arguments();
    let ours = |number: usize| {
        let id = format!("toolu_{number}");
        let input = json!({ "command": COMMAND });
        assert_eq!(
            gateway(&Inspected::ToolCall { call_id: &id, tool: "Bash", input: &input }),
            Verdict::Pass
        );
        let call = json!({ "hook_event_name": "PreToolUse", "tool_use_id": id, "tool_name": "Bash", "tool_input": input });
        let mut command = Command::new(env!("CARGO_BIN_EXE_fullsend"));
        command.arg("__hook").args(&words);
        time(command, &call.to_string())
    };
    let bare = |_: usize| time(Command::new("/bin/true"), "");
    let python = |_: usize| {
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-c", "import json, re, sys; json.load(sys.stdin)"]);
        time(command, &json!({ "tool_name": "Bash", "tool_input": { "command": COMMAND } }).to_string())
    };
    // In turns, so that other load on the machine affects all of them.
    let mut times: [Vec<Duration>; 3] = Default::default();
    for number in 0..CALLS {
        times[0].push(ours(number));
        times[1].push(bare(number));
        times[2].push(python(number));
    }
    times.iter_mut().for_each(|times| times.sort_unstable());
    println!("name ours_ms peer_ms ratio");
    for (figure, at) in [("median", CALLS / 2), ("best", 0)] {
        for (name, peer) in [("bare-process", &times[1]), ("one-python-hook", &times[2])] {
            let ours = times[0][at];
            let peer = peer[at];
            let ratio = ours.as_secs_f64() / peer.as_secs_f64();
            println!("verdict-vs-{name}-{figure} {:.2} {:.2} {ratio:.2}", ms(ours), ms(peer));
        }
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// From the start of the process to its end, its input written and its answer read.
fn time(mut command: Command, input: &str) -> Duration {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = Instant::now();
    let mut child = command.spawn().unwrap();
    // A program that reads nothing may be gone already.
    drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    let time = started.elapsed();
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    time
}

/// The guard of a harness with every default.
fn guard(scratch: &Path) -> Guard {
    let write = |path: &str, text: &str| {
        let path = scratch.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("harness/bench.yaml", "agent: agents/bench.md\nruntime: claude\n");
    write("agents/bench.md", "---\nname: bench\n---\nWork.\n");
    let layer = Layer::directory(LayerKind::Repository, scratch, "bench".to_owned()).unwrap();
    let mut library = Library::new(Layers::new(vec![layer]));
    let mut problems = Vec::new();
    let choices = Choices { today: "2026-01-01".to_owned(), ..Choices::default() };
    let resolved = resolve(&mut library, "bench", &choices, &mut problems).unwrap();
    let setup = GuardSetup {
        harness: &resolved.harness,
        dialect: fullsend::internal::of(resolved.harness.runtime.value).dialect,
        allowlist: None,
        waivers: Vec::new(),
        today: "2026-01-01",
        path: "",
        weights: Default::default(),
        run_directory: None,
        tool_digests: Vec::new(),
        tools_are_locked: false,
    };
    let emit = Emitter::create(&scratch.join("events.jsonl"), |_| {}).unwrap();
    Guard::new(setup, &emit).unwrap()
}
