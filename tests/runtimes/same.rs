//! The same harness and the same scenario with every runtime: the same accepted output, a transcript, usage and cost as the
//! server sent them, a retry that continues the same conversation, and nothing left when time is up.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use super::stage::{KEY, Stage, good};
use crate::support::Who;

/// Fixes the bug, returns a wrong report, reads the feedback, returns a correct one.
fn scenario() -> Json {
    json!({
        "turns": [
            [{ "text": "I will look." }, { "shell": "cat greet.sh; echo LOOKED-AT-IT" }, { "usage": { "input": 820, "output": 41, "cache_read": 100 } }],
            [{ "shell": "sed -i s/wrold/world/ greet.sh && sh greet.sh > /sandbox/workspace/output/said.txt" }, { "usage": { "input": 910, "output": 38 } }],
            [{ "finish": { "fixed": true, "file": "greet.sh", "cause": "short" } }, { "usage": { "input": 990, "output": 30 } }],
        ],
        "branches": [{
            "when": { "user_contains": "Your output was rejected" },
            "turns": [[{ "finish": good() }, { "usage": { "input": 1120, "output": 52, "cache_read": 900 } }]],
        }],
    })
}

/// Dollars for a million tokens: input, output, from the cache. As the vendors publish them, not as our list says.
fn price(runtime: &str) -> (f64, f64, f64) {
    if runtime == "codex" { (1.25, 10.0, 0.125) } else { (3.0, 15.0, 0.3) }
}

fn the_contract_holds(runtime: &str, who: Who) {
    let Some(stage) = Stage::new(runtime, "same output", &scenario()) else { return };
    let Some(ran) = stage.run_as(who) else { return };
    assert_eq!(ran.code, 0, "{}", ran.err);
    let record = stage.record();
    assert_eq!(stage.accepted(2), good());
    let said = fs::read_to_string(stage.directory().join("iteration-1/rejected/said.txt")).unwrap();
    assert_eq!(said, "Hello, world!\n");
    assert_eq!(record["attempts"][0]["accepted"], false);
    assert_eq!(record["attempts"][1]["accepted"], true);
    assert_eq!(
        record["attempts"][0]["tool_calls"].as_u64().map(|calls| calls >= 2),
        Some(true),
        "{record:#}"
    );
    usage_is_what_was_sent(&stage, runtime, &record);
    the_conversation_went_on(&stage);
    transcript_is_kept(&stage);
}

fn usage_is_what_was_sent(stage: &Stage, runtime: &str, record: &Json) {
    let requests = stage.server.requests();
    assert!(
        requests.iter().all(|request| request["key"].as_str().unwrap().ends_with(KEY)),
        "the gateway adds the key"
    );
    let sum = |kind: &str| requests.iter().filter_map(|request| request["usage"][kind].as_u64()).sum::<u64>();
    let input = sum("input");
    let output = sum("output");
    let cached = sum("cache_read");
    let usage = record["usage"].as_object().unwrap();
    let told = |kind: &str| usage.values().filter_map(|model| model[kind].as_u64()).sum::<u64>();
    assert_eq!(told("requests"), requests.len() as u64);
    assert_eq!((told("input"), told("output"), told("cache_read")), (input, output, cached), "{usage:?}");
    let (per_input, per_output, per_cached) = price(runtime);
    let expected = (input as f64 * per_input + output as f64 * per_output + cached as f64 * per_cached) / 1e6;
    let cost: f64 = usage.values().filter_map(|model| model["usd"].as_f64()).sum();
    assert!((cost - expected).abs() < 1e-9, "{cost} is not {expected}");
}

/// The last request holds what the first attempt saw, its answers and the reason of the rejection, in this order.
fn the_conversation_went_on(stage: &Stage) {
    let words = stage.words();
    let last = words.last().unwrap();
    let place = |text: &str| last.find(text).unwrap_or_else(|| panic!("{text} is not in {last}"));
    assert!(place("I will look.") < place("LOOKED-AT-IT\\n"), "{last}");
    assert!(place("LOOKED-AT-IT") < place("Your output was rejected"), "{last}");
    assert!(!words[0].contains("was rejected"));
}

fn transcript_is_kept(stage: &Stage) {
    let directory = stage.directory().join("iteration-2/transcripts");
    let files: Vec<_> = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    let text: String = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    assert!(text.contains("LOOKED-AT-IT") && text.contains("Your output was rejected"), "{files:?}");
    assert!(!text.contains(KEY));
    let told = fs::read_to_string(stage.directory().join("findings.jsonl")).unwrap();
    assert!(!told.contains("transcripts/"), "that a word was planted is nothing to tell: {told}");
}

#[test]
fn claude_keeps_the_contract() {
    the_contract_holds("claude", Who::Caller);
}

#[test]
fn claude_keeps_the_contract_for_an_ordinary_user() {
    the_contract_holds("claude", Who::User);
}

#[test]
fn codex_keeps_the_contract() {
    the_contract_holds("codex", Who::Caller);
}

#[test]
fn codex_keeps_the_contract_for_an_ordinary_user() {
    the_contract_holds("codex", Who::User);
}

#[test]
fn native_keeps_the_contract() {
    the_contract_holds("native", Who::Caller);
}

#[test]
fn native_keeps_the_contract_for_an_ordinary_user() {
    the_contract_holds("native", Who::User);
}

/// A command that outlives every timeout, and children of it that try to stay.
fn nothing_outlives_the_run(runtime: &str) {
    let mark = mark("86", runtime);
    let command = format!("(setsid sleep {mark} &) ; (nohup sleep {mark} > /dev/null 2>&1 &) ; sleep {mark}");
    let scenario = json!({ "turns": [[{ "shell": command }]] });
    // The watchdog's timeout is much shorter than the run's minute.
    let idle = if runtime == "acp" { 20 } else { 5 };
    let more = format!("watchdog:\n  idle_seconds: {idle}\n");
    let Some(stage) = Stage::with(runtime, "nothing is left", &scenario, &more) else { return };
    let started = Instant::now();
    let ran = stage.run();
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("silent"), "{}", ran.err);
    assert!(started.elapsed() < Duration::from_secs(120));
    assert_eq!(processes(&mark), Vec::<String>::new());
}

#[test]
#[ignore = "of the full matrix: a minute is the shortest time that a run can have"]
fn time_that_is_up_ends_every_runtime() {
    for runtime in ["acp", "claude", "codex", "native"] {
        let mark = mark("84", runtime);
        // Codex waits ten seconds for a command and then goes on without it.
        let sleep = json!([{ "shell": format!("true; sleep {mark}") }]);
        let mut turns = vec![json!([{ "shell": format!("(setsid sleep {mark} &); sleep {mark}") }])];
        turns.extend(vec![sleep; 20]);
        let scenario = json!({ "turns": turns });
        let Some(stage) = Stage::new(runtime, "time is up", &scenario) else { continue };
        let harness = stage.world.path("repo/.fullsend/harness/mend.yaml");
        let text = fs::read_to_string(&harness).unwrap().replace("timeout_minutes: 3", "timeout_minutes: 1");
        fs::write(harness, text).unwrap();
        assert_eq!(stage.ends(124)["outcome"], "timeout", "{runtime}");
        assert_eq!(processes(&mark), Vec::<String>::new());
    }
}

/// A number of seconds that no other test of this process sleeps. Claude Code refuses a long sleep that leads a command.
fn mark(test: &str, runtime: &str) -> String {
    let runtime = runtime.bytes().map(u32::from).sum::<u32>() % 10;
    format!("{test}{runtime}{}", std::process::id())
}

fn processes(mark: &str) -> Vec<String> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let lines = all.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(mark))
        .collect()
}

#[test]
fn opencode_leaves_no_process() {
    nothing_outlives_the_run("acp");
}

#[test]
fn claude_leaves_no_process() {
    nothing_outlives_the_run("claude");
}

#[test]
fn codex_leaves_no_process() {
    nothing_outlives_the_run("codex");
}

#[test]
fn native_leaves_no_process() {
    nothing_outlives_the_run("native");
}

/// The runner itself is killed while the agent works: the sandbox goes with it.
fn killing_the_runner_ends_the_agent(runtime: &str) {
    let mark = mark("85", runtime);
    let scenario = json!({ "turns": [[{ "shell": format!("cat greet.sh; (setsid sleep {mark} &); tail -f /dev/null") }]] });
    let Some(stage) = Stage::new(runtime, "killed", &scenario) else { return };
    let mut runner = stage.world.spawn(&["run", "mend"]);
    let wait = |wanted: bool, seconds: u64| {
        let deadline = Instant::now() + Duration::from_secs(seconds);
        while processes(&mark).is_empty() == wanted {
            assert!(Instant::now() < deadline, "{:?}", processes(&mark));
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait(true, 60);
    runner.kill().unwrap();
    runner.wait().unwrap();
    wait(false, 10);
    let swept = stage.world.run(&["sweep"]);
    assert_eq!(swept.code, 0, "what a dead runner held is given back: {}", swept.err);
}

#[test]
fn killing_the_runner_ends_claude() {
    killing_the_runner_ends_the_agent("claude");
}

#[test]
fn killing_the_runner_ends_codex() {
    killing_the_runner_ends_the_agent("codex");
}
