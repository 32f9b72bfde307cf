//! Hooks that break. Runtimes let a call pass whose hook dies, hangs or talks nonsense; here the runtime is told to block
//! it where it can be, and the door stops the run where it cannot: a test for each such row, with the real program, the
//! real sandbox and the real door, and a hook that breaks in exactly this way.

use std::path::PathBuf;

use serde_json::{Value as Json, json};

use super::stage::{Stage, good};
use crate::support::{program, skip};

/// Beside the program: an example of the package, which every `cargo test` of all targets builds.
fn with_broken_hooks() -> Option<PathBuf> {
    let path = program().with_file_name("examples").join("broken_hook");
    if !path.exists() {
        skip("runtimes broken hooks", "the example `broken_hook` was not built: cargo build --examples");
        return None;
    }
    Some(path)
}

struct Broken {
    stage: Stage,
    code: i32,
    err: String,
}

/// Runs one command whose hook breaks, then finishes.
fn broken(runtime: &str, event: &str, how: &str, command: &str) -> Option<Broken> {
    let program = with_broken_hooks()?;
    let scenario = json!({ "turns": [[{ "shell": format!("{command} BREAK-ME") }], [{ "finish": good() }]] });
    let stage = Stage::new(runtime, "broken hooks", &scenario)?;
    stage.world.write("repo/break", format!("{event} {how}\n"));
    let ran = stage.world.run_program(&program, &["run".as_ref(), "mend".as_ref()]);
    Some(Broken { stage, code: ran.code, err: ran.err })
}

impl Broken {
    fn words(&self) -> String {
        self.stage.words().join("\n")
    }

    fn unseen(&self) -> usize {
        let record = self.stage.record();
        let attempts = record["attempts"].as_array().cloned().unwrap_or_default();
        attempts.iter().filter_map(|attempt| attempt["unseen_calls"].as_array()).map(Vec::len).sum()
    }
}

/// The call does not run, or what it said never reaches the model and the run stops.
fn before_a_call(runtime: &str, how: &str) {
    let Some(run) = broken(runtime, "PreToolUse", how, "echo RAN-$((6*7))") else { return };
    let words = run.words();
    assert!(!words.contains("RAN-42") && !words.contains("CHANGED-42"), "{runtime}, {how}: {words}");
    match runtime {
        // The runtime blocks, and says so.
        "claude" if !matches!(how, "rewrites" | "stops" | "asks" | "silent") => {
            assert!(words.contains("onFailure") || run.code == 6, "{how}: {} {words}", run.err);
        }
        // It ends by itself, before anything comes back to the door.
        "claude" if how == "stops" => assert_ne!(run.code, 0, "{}", run.err),
        _ => {
            assert_eq!(run.code, 6, "{runtime}, {how}: {}", run.err);
            assert_eq!(run.unseen(), 1, "the record says that it ran");
        }
    }
}

#[test]
fn claude_and_a_hook_that_breaks_before_a_call() {
    for how in ["exit-1", "exit-127", "killed", "garbage", "silent", "rewrites", "stops", "asks"] {
        before_a_call("claude", how);
    }
}

#[test]
fn codex_and_a_hook_that_breaks_before_a_call() {
    for how in ["exit-1", "exit-127", "killed", "garbage", "silent", "rewrites", "stops", "asks"] {
        before_a_call("codex", how);
    }
}

#[test]
#[ignore = "of the full matrix: it waits for half a minute"]
fn claude_and_a_hook_that_hangs() {
    before_a_call("claude", "hangs");
}

#[test]
#[ignore = "of the full matrix: it waits for half a minute"]
fn codex_and_a_hook_that_hangs() {
    before_a_call("codex", "hangs");
}

/// A result that the hook should have cleaned is cleaned at the door.
fn after_a_call(runtime: &str, event: &str, how: &str) {
    // A token of a shape that is known, made of parts so that no request holds it whole.
    let fails = if event == "PostToolUseFailure" { "; exit 3" } else { "" };
    let command = format!("echo gh$(printf p)_16C7e42F292c6912E7710c838347Ae178B4a{fails} #");
    let Some(run) = broken(runtime, event, how, &command) else { return };
    let words = run.words();
    assert!(
        !words.contains("ghp_16C7e42F292c6912E7710c838347Ae178B4a"),
        "{runtime}, {event}, {how}: {words}"
    );
    assert!(matches!(run.code, 0 | 6), "{runtime}, {how}: {}", run.err);
}

#[test]
fn claude_and_a_hook_that_breaks_after_a_call() {
    for how in ["exit-1", "killed", "garbage", "text", "silent"] {
        after_a_call("claude", "PostToolUse", how);
    }
    after_a_call("claude", "PostToolUseFailure", "exit-1");
}

#[test]
fn codex_and_a_hook_that_breaks_after_a_call() {
    for how in ["exit-1", "killed", "garbage", "text", "silent"] {
        after_a_call("codex", "PostToolUse", how);
    }
}

/// The guard itself dies or hangs in the middle of the run: the next call does not run, and the run ends.
fn without_its_guard(runtime: &str, how: &str) {
    let Some(program) = with_broken_hooks() else { return };
    // The model takes its time for the second answer, in which the guard goes. A name that is looked up is told of on
    // the host, whatever becomes of the call's output.
    let scenario = json!({ "turns": [
        [{ "shell": "getent hosts first-$((40+2)).example; echo FIRST-$((40+2))" }],
        [{ "sleep": 3 }, { "shell": "getent hosts ran-$((6*7)).example; echo RAN-$((6*7))" }],
        [{ "finish": good() }],
    ]});
    let Some(mut stage) = Stage::new(runtime, "a guard that is gone", &scenario) else { return };
    stage.world = stage.world.env("BREAK_GUARD", how);
    let ran = stage.world.run_program(&program, &["run".as_ref(), "mend".as_ref()]);
    assert_eq!(ran.code, 6, "{runtime}, {how}: {}", ran.err);
    let words = stage.words().join("\n");
    assert!(words.contains("FIRST-42"), "{runtime}, {how}: the guard was there at first");
    assert!(!words.contains("RAN-42"), "{runtime}, {how}");
    let kept = everything_below(&stage.directory());
    assert!(kept.contains("first-42.example"), "{runtime}, {how}: the first call ran");
    assert!(!kept.contains("ran-42.example") && !kept.contains("RAN-42"), "{runtime}, {how}: it did not run");
    // Our own loop is ended before it has written its conversation down.
    let heard = runtime == "native" || kept.contains("the guard did not answer");
    assert!(heard, "{runtime}, {how}: the agent heard why");
    assert_eq!(stage.record()["outcome"], "security_stop", "{runtime}, {how}");
}

/// Every text that the run kept.
fn everything_below(directory: &std::path::Path) -> String {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let read = |path: PathBuf| match path.is_dir() {
        true => everything_below(&path),
        false => String::from_utf8_lossy(&std::fs::read(&path).unwrap_or_default()).into_owned(),
    };
    entries.map(read).collect()
}

#[test]
fn a_call_does_not_run_when_the_guard_was_killed() {
    for runtime in ["native", "claude", "codex"] {
        without_its_guard(runtime, "killed");
    }
}

#[test]
#[ignore = "of the full matrix: it waits for half a minute"]
fn a_call_does_not_run_when_the_guard_hangs() {
    for runtime in ["native", "claude", "codex"] {
        without_its_guard(runtime, "hung");
    }
}

/// Hooks that were never installed, or never trusted, say nothing at the start: no request reaches the model.
fn without_a_start(runtime: &str) {
    let Some(run) = broken(runtime, "SessionStart", "exit-1", "true") else { return };
    assert_ne!(run.code, 0, "{}", run.err);
    assert_eq!(run.stage.server.requests(), Vec::<Json>::new(), "{}", run.err);
}

#[test]
#[ignore = "of the full matrix: it waits for half a minute"]
fn claude_without_its_start_hook_says_nothing_to_the_model() {
    without_a_start("claude");
}

#[test]
#[ignore = "of the full matrix: it waits for half a minute"]
fn codex_without_its_start_hook_says_nothing_to_the_model() {
    without_a_start("codex");
}
