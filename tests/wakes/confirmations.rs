//! Tool calls that a person must allow: one answer, one call, with exactly the input that was shown.

use serde_json::{Value as Json, json};

use super::stage::{EVERY_WAKE, Stage, finish, shell, sleeps, when};

const PUSH: &str = "echo pushed >> /sandbox/workspace/session/pushes.md";

fn story() -> Vec<Json> {
    let again = json!([shell(PUSH), shell(PUSH), finish(sleeps("Pushed once."))]);
    vec![
        when("the user allowed request", again),
        when("the user denied request", json!([shell(PUSH), finish(sleeps("Not pushed."))])),
        when(EVERY_WAKE, json!([shell(PUSH), finish(sleeps("I asked."))])),
    ]
}

/// A session that waits for an answer, with the question. `None` where the runtime is not here.
fn asked(runtime: &str) -> Option<(Stage, String, String)> {
    let stage = Stage::of(&[runtime], &story())?;
    stage.harness(runtime, "confirm_tools: [Bash]\n");
    let id = stage.told("please push");
    stage.wakes(&id, 10);
    let shown = stage.show(&id);
    assert_eq!(shown["requests"][0]["kind"], "confirmation", "{shown}");
    let request = shown["requests"][0]["id"].as_str().unwrap().to_owned();
    let [asked] =
        &stage.events(&id).into_iter().filter(|event| event["confirmation"].is_object()).collect::<Vec<_>>()
            [..]
    else {
        panic!("{}", stage.log(&id))
    };
    assert!(asked["input"].to_string().contains("pushes.md"), "the input is shown: {asked}");
    assert_eq!(stage.memory(&id, "pushes.md"), None, "nothing ran");
    Some((stage, id, request))
}

fn allowed_is_allowed_once(runtime: &str) {
    let Some((stage, id, request)) = asked(runtime) else { return };
    let other = ["session", "confirm", &id, &request, "allow", "--digest", &"0".repeat(64)];
    assert_eq!(stage.world.run(&other).code, 2, "for another input");
    assert_eq!(stage.world.run(&["session", "tool-result", &id, &request, "1"]).code, 2, "the other kind");
    assert_eq!(stage.world.run(&["session", "confirm", &id, &request, "allow"]).code, 0);
    stage.wakes(&id, 10);
    assert_eq!(stage.memory(&id, "pushes.md").as_deref(), Some("pushed\n"), "once: {}", stage.log(&id));
    let again = stage.show(&id)["requests"][0]["id"].as_str().unwrap().to_owned();
    assert_ne!(again, request, "the second call is a question of its own");
}

#[test]
pub fn native_runs_an_allowed_call_once() {
    allowed_is_allowed_once("native");
}

#[test]
pub fn claude_runs_an_allowed_call_once() {
    allowed_is_allowed_once("claude");
}

#[test]
pub fn codex_runs_an_allowed_call_once() {
    allowed_is_allowed_once("codex");
}

#[test]
pub fn a_denied_call_does_not_run_and_the_agent_hears_why() {
    let (stage, id, request) = asked("native").unwrap();
    assert_eq!(
        stage.world.run(&["session", "confirm", &id, &request, "deny", "--note", "not on a Friday"]).code,
        0
    );
    stage.wakes(&id, 0);
    assert_eq!(stage.memory(&id, "pushes.md"), None);
    assert!(stage.last_transcript().contains("not on a Friday"));
    assert_eq!(stage.show(&id)["status"], "idle");
}

#[test]
pub fn a_plain_run_denies_what_nobody_can_allow() {
    let (stage, _, _) = asked("native").unwrap();
    stage.scenario(&[when("Do your task", json!([shell(PUSH), finish(json!({ "done": true }))]))]);
    let ran = stage.world.run(&["run", "helper", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("a person must confirm it, and this run cannot ask anyone"), "{}", ran.out);
}
