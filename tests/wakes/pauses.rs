//! Message, tool use, pause, result, resumption: with every runtime that is here; and with another brain in the middle.

use serde_json::json;

use crate::runtimes::stage::{Turn, cache, present};

use super::stage::{EVERY_WAKE, Stage, finish, shell, sleeps, when};

fn story() -> Vec<serde_json::Value> {
    let asks = json!({
        "response": "I ask for a ticket.", "summary": "Asked for a ticket.", "outcome": "sleep",
        "custom_tools": [{ "name": "tracker.open", "input": { "title": "Broken" } }],
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
    if !present(first, "sessions") || !present(second, "sessions") {
        return;
    }
    let _turn = Turn::wait();
    let mut stage = Stage::new(&story());
    stage.world = stage.world.env("XDG_CACHE_HOME", cache().to_str().unwrap());
    stage.harness(first, "");
    let id = stage.told("please open a ticket");
    stage.wakes(&id, 10);
    let shown = stage.show(&id);
    assert_eq!(shown["status"], "requires_action");
    let request = shown["requests"][0]["id"].as_str().unwrap();
    assert_eq!(stage.wake(&id).code, 10, "it waits");
    // The next day, after somebody said something else: the pause stands.
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
fn native_pauses_and_resumes() {
    tells_the_story("native", "native");
}

#[test]
fn claude_pauses_and_resumes() {
    tells_the_story("claude", "claude");
}

#[test]
fn codex_pauses_and_resumes() {
    tells_the_story("codex", "codex");
}

#[test]
fn another_brain_takes_over_in_the_middle() {
    tells_the_story("native", "claude");
    tells_the_story("claude", "codex");
    tells_the_story("codex", "native");
}

#[test]
fn several_questions_wait_for_all_answers() {
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
fn an_interrupt_ends_a_pause() {
    let stage = Stage::new(&story());
    let id = stage.told("please open a ticket");
    stage.wakes(&id, 10);
    assert_eq!(stage.world.run(&["session", "interrupt", &id]).code, 0);
    let shown = stage.show(&id);
    assert_eq!((&shown["status"], &shown["stop_reason"]), (&json!("idle"), &json!("interrupted")));
    stage.scenario(&[when(EVERY_WAKE, json!([finish(sleeps("Here I am."))]))]);
    stage.wakes(&id, 0);
}
