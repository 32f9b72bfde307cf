//! A budget that holds whatever is asked at once: with every runtime, eight sub-agents ask through the gateway over and over,
//! for more than ten times what there is. What the server really served, by its own log, never costs more.

use serde_json::{Value as Json, json};
use std::fs;

use super::stage::Stage;

/// Dollars.
const BUDGET: f64 = 3.0;

/// What one sub-agent's request uses; with eight lanes of five tries it is more than ten times the budget.
const INPUT: u64 = 1000;
const OUTPUT: u64 = 64_000;

/// Dollars for a million tokens, in and out, as the vendors publish them.
fn price(runtime: &str) -> (f64, f64) {
    if runtime == "codex" { (1.25, 10.0) } else { (3.0, 15.0) }
}

fn cost(runtime: &str, input: u64, output: u64) -> f64 {
    let (dear_in, dear_out) = price(runtime);
    (input as f64 * dear_in + output as f64 * dear_out) / 1e6
}

/// Eight at once, each five times, whatever the gateway says.
fn sub_agents(runtime: &str) -> String {
    // No vendor counts more tokens than there are bytes.
    let task = format!("SUB-TASK {}", "x".repeat(1200));
    let (path, body) = if runtime == "codex" {
        (
            "responses",
            json!({ "model": "gpt-5.1", "max_output_tokens": OUTPUT, "stream": true, "input": [{ "role": "user", "content": task }] }),
        )
    } else {
        (
            "messages",
            json!({ "model": "claude-sonnet-4-5", "max_tokens": OUTPUT, "stream": true, "messages": [{ "role": "user", "content": task }] }),
        )
    };
    format!(
        "printf '%s' '{body}' > /tmp/body; for lane in 1 2 3 4 5 6 7 8; do (for try in 1 2 3 4 5; do curl -s --max-time 60 -H 'content-type: application/json' -d @/tmp/body http://model.fullsend.internal/v1/{path} >> /tmp/lane-$lane; done) & done; wait; \
         cat /tmp/lane-* | grep -o 'the budget of this run does not allow' | wc -l > /sandbox/workspace/output/refused.txt"
    )
}

fn the_budget_holds(runtime: &str) {
    let scenario = json!({
        "turns": [[{ "shell": sub_agents(runtime) }, { "usage": { "input": 100, "output": 10 } }], [{ "finish": super::stage::good() }]],
        "branches": [{
            "when": { "user_contains": "SUB-TASK" },
            "turns": [[{ "sleep": 0.1 }, { "text": "spent" }, { "usage": { "input": INPUT, "output": OUTPUT } }]],
        }],
    });
    let more = format!(
        "budget: {{usd: {BUDGET}}}\ngateway: {{allow: [\"client:*\", \"model:*\"]}}\nsecurity: {{sandbox_hooks: {{tirith: {{enabled: false}}, ssrf_pretool: false}}}}\n"
    );
    let Some(stage) = Stage::with(runtime, "budget", &scenario, &more) else { return };
    assert!(40.0 * cost(runtime, INPUT, OUTPUT) > 8.0 * BUDGET);
    let ran = stage.run();
    let record = stage.record();
    assert_eq!((ran.code, record["outcome"].as_str()), (7, Some("budget")), "{}", ran.err);
    assert!(ran.err.trim_end().lines().last().unwrap().contains("are spent"), "{}", ran.err);

    let served = stage.server.requests();
    // The last of them may get a shorter answer, for what is left.
    let sub = served.iter().filter(|request| request["usage"]["input"] == INPUT).count();
    let spent: f64 = served
        .iter()
        .map(|request| {
            let count = |kind: &str| request["usage"][kind].as_u64().unwrap();
            cost(runtime, count("input"), count("output"))
        })
        .sum();
    assert!(spent <= BUDGET, "{runtime}: {spent}");
    // As many as fit: the budget is used, not refused from the start.
    assert!(sub >= 2 && spent > BUDGET / 2.0, "{runtime}: {sub} passed for {spent}");
    let told: f64 =
        record["usage"].as_object().unwrap().values().filter_map(|model| model["usd"].as_f64()).sum();
    assert!((told - spent).abs() < 1e-6, "{runtime}: the record says {told}, the server served {spent}");
    let refused = fs::read_to_string(stage.directory().join("iteration-1/partial/refused.txt"))
        .or_else(|_| fs::read_to_string(stage.directory().join("iteration-1/rejected/refused.txt")))
        .unwrap();
    assert_eq!(refused.trim(), (40 - sub).to_string(), "every other request was refused in words");
    warned_once(&stage);
}

/// At four fifths, and when it was spent.
fn warned_once(stage: &Stage) {
    let events = fs::read_to_string(stage.directory().join("events.jsonl")).unwrap();
    let kinds: Vec<Json> = events
        .lines()
        .map(|line| serde_json::from_str::<Json>(line).unwrap()["event"]["type"].clone())
        .collect();
    for kind in ["budget_warning", "budget_spent"] {
        assert_eq!(kinds.iter().filter(|found| *found == kind).count(), 1, "{kind}");
    }
}

#[test]
fn a_fresh_attempt_in_a_new_sandbox_has_no_budget_of_its_own() {
    let scenario = json!({ "turns": [[{ "finish": { "fixed": "not at all" } }]] });
    let more = "  feedback_mode: fresh\nbudget: {turns: 1}\n";
    let Some(stage) = Stage::with("native", "budget of fresh attempts", &scenario, more) else { return };
    let record = stage.ends(7);
    assert_eq!(record["outcome"], "budget", "{record:#}");
    assert_eq!(stage.server.requests().len(), 1);
}

#[test]
fn the_budget_holds_with_native() {
    the_budget_holds("native");
}

#[test]
fn the_budget_holds_with_claude() {
    the_budget_holds("claude");
}

#[test]
fn the_budget_holds_with_codex() {
    the_budget_holds("codex");
}
