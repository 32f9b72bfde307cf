//! Message, tool use, pause, result, resumption: with every runtime that is here; and with another brain in the middle.

use serde_json::json;

use crate::cluster::Cluster;
use crate::support::skip;

use super::stage::{EVERY_WAKE, Stage, finish, shell, sleeps, when};

fn story() -> Vec<serde_json::Value> {
    let asks = json!({
        "response": "I ask for a ticket.", "summary": "Asked for a ticket.", "outcome": "sleep",
        "custom_tools": [{ "name": "tracker.open", "input": { "title": "Broken" }, "expires_seconds": 172_800 }],
    });
    vec![
        when(
            "the tool of request",
            json!([
                shell("cat /sandbox/workspace/session/working-buffer.md"),
                finish(sleeps("The ticket is 42."))
            ]),
        ),
        when(
            "open a ticket",
            json!([shell("echo a note > /sandbox/workspace/session/working-buffer.md"), finish(asks)]),
        ),
        when(EVERY_WAKE, json!([finish(sleeps("Nothing to do."))])),
    ]
}

/// From one runtime to the pause, with another from there on. Where one of them is not here, that is said.
fn tells_the_story(first: &str, second: &str) {
    let Some(stage) = Stage::of(&[first, second], &story()) else { return };
    let id = stage.told("please open a ticket");
    stage.wakes(&id, 10);
    let shown = stage.show(&id);
    assert_eq!(shown["status"], "requires_action");
    let request = shown["requests"][0]["id"].as_str().unwrap();
    assert_eq!(stage.wake(&id).code, 10, "it waits");
    // Somebody says something else: the pause stands.
    stage.send(&id, "and be quick about it");
    assert_eq!(stage.show(&id)["status"], "requires_action");
    let answer = ["session", "tool-result", &id, request, r#"{"ticket": 42}"#];
    assert_eq!(stage.world.run(&answer).code, 0);
    assert_eq!(stage.world.run(&answer).code, 2, "an answer counts once");
    stage.harness(second, "");
    stage.wakes(&id, 0);
    let said: Vec<String> = stage
        .of_type(&id, "agent.message")
        .iter()
        .map(|event| event["message"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(said, ["I ask for a ticket.", "The ticket is 42."], "{}", stage.log(&id));
    assert_eq!(stage.show(&id)["status"], "idle");
    let transcript = stage.last_transcript();
    assert!(transcript.contains("a note"), "what the agent wrote survives: {transcript}");
    let resumed = transcript.matches("please open a ticket").count();
    assert!(resumed >= 1, "the past is known, in the conversation or in the context: {transcript}");
    let kinds: Vec<String> =
        stage.events(&id).iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect();
    for kind in
        ["run.attached", "span.started", "agent.tool_use", "agent.custom_tool_use", "user.custom_tool_result"]
    {
        assert!(kinds.iter().any(|known| known == kind), "{kind}: {kinds:?}");
    }
    let order = |kind: &str| kinds.iter().position(|known| known == kind).unwrap();
    assert!(order("agent.tool_use") < order("agent.message"), "the reply stands after what led to it");
}

#[test]
pub fn native_pauses_and_resumes() {
    tells_the_story("native", "native");
}

#[test]
pub fn claude_pauses_and_resumes() {
    tells_the_story("claude", "claude");
}

#[test]
pub fn codex_pauses_and_resumes() {
    tells_the_story("codex", "codex");
}

#[test]
pub fn another_brain_takes_over_in_the_middle() {
    tells_the_story("native", "claude");
    tells_the_story("claude", "codex");
    tells_the_story("codex", "native");
}

/// A session that has asked, on a server whose clock can be moved. `None` where there is none.
fn asked_on_a_server(runtime: &str) -> Option<(Cluster, Stage, String, String)> {
    let cluster = match Cluster::with_clock() {
        Ok(cluster) => cluster,
        Err(why) => {
            skip("wakes the next day", &why);
            return None;
        }
    };
    let mut story = story();
    story.insert(0, when("no answer in time", json!([finish(sleeps("Then without a ticket."))])));
    let mut stage = Stage::of(&[runtime], &story)?;
    stage.world = stage.world.env("FULLSEND_SESSION_STORE", &cluster.database());
    let id = stage.told("please open a ticket");
    stage.wakes(&id, 10);
    let request = stage.show(&id)["requests"][0]["id"].as_str().unwrap().to_owned();
    Some((cluster, stage, id, request))
}

fn an_answer_comes_the_next_day(runtime: &str) {
    let Some((cluster, stage, id, request)) = asked_on_a_server(runtime) else { return };
    cluster.set_clock("+1d");
    assert_eq!(stage.wake(&id).code, 10, "it still waits");
    assert_eq!(stage.world.run(&["session", "tool-result", &id, &request, "42"]).code, 0);
    stage.wakes(&id, 0);
    assert_eq!(stage.of_type(&id, "agent.message")[1]["message"], "The ticket is 42.");
    let time = |kind: &str| stage.of_type(&id, kind)[0]["time_ms"].as_i64().unwrap();
    let pause_ms = time("user.custom_tool_result") - time("agent.custom_tool_use");
    assert!(pause_ms > 86_000_000, "a day passed: {pause_ms}");
}

#[test]
pub fn an_answer_comes_to_native_the_next_day() {
    an_answer_comes_the_next_day("native");
}

#[test]
pub fn an_answer_comes_to_claude_the_next_day() {
    an_answer_comes_the_next_day("claude");
}

#[test]
pub fn an_answer_comes_to_codex_the_next_day() {
    an_answer_comes_the_next_day("codex");
}

/// An answer that comes after its time is refused, and the agent hears that none came.
#[test]
pub fn an_answer_comes_too_late() {
    let Some((cluster, stage, id, request)) = asked_on_a_server("native") else { return };
    cluster.set_clock("+3d");
    let late = stage.world.run(&["session", "tool-result", &id, &request, "42"]);
    assert_eq!(late.code, 2, "{}", late.err);
    assert!(late.err.contains("expired"), "{}", late.err);
    stage.wakes(&id, 0);
    assert_eq!(stage.of_type(&id, "agent.message")[1]["message"], "Then without a ticket.");
}

#[test]
pub fn several_questions_wait_for_all_answers() {
    let asks = json!({ "summary": "Asked twice.", "outcome": "continue", "custom_tools": [
        { "name": "a", "input": { "n": 1 } }, { "name": "b", "input": { "n": 2 }, "expires_seconds": 3600 } ] });
    let stage = Stage::new(&[
        when("the tool of request", json!([finish(sleeps("Both are there."))])),
        when(EVERY_WAKE, json!([finish(asks)])),
    ]);
    let id = stage.told("go");
    stage.wakes(&id, 10);
    let shown = stage.show(&id);
    let requests: Vec<&str> =
        shown["requests"].as_array().unwrap().iter().map(|request| request["id"].as_str().unwrap()).collect();
    assert_eq!(requests.len(), 2);
    let answer = |request: &str, more: &[&str]| {
        stage.world.run(&[&["session", "tool-result", &id, request, "\"done\""], more].concat()).code
    };
    assert_eq!(answer(requests[0], &["--digest", &"0".repeat(64)]), 2, "for another input");
    assert_eq!(stage.world.run(&["session", "confirm", &id, requests[0], "allow"]).code, 2, "the other kind");
    assert_eq!(answer(requests[0], &[]), 0);
    assert_eq!(stage.wake(&id).code, 10, "one is still open");
    assert_eq!(answer(requests[1], &["--error"]), 0);
    stage.wakes(&id, 0);
    assert!(stage.last_transcript().contains("failed"), "the agent hears that it is an error");
}

#[test]
pub fn an_interrupt_ends_a_pause() {
    let stage = Stage::new(&story());
    let id = stage.told("please open a ticket");
    stage.wakes(&id, 10);
    assert_eq!(stage.world.run(&["session", "interrupt", &id]).code, 0);
    let shown = stage.show(&id);
    assert_eq!((&shown["status"], &shown["stop_reason"]), (&json!("idle"), &json!("interrupted")));
    stage.scenario(&[when(EVERY_WAKE, json!([finish(sleeps("Here I am."))]))]);
    stage.wakes(&id, 0);
}
