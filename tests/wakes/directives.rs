//! Directives become durable progress, or an error that everybody can see: never a silent sleep.

use serde_json::{Value as Json, json};

use super::stage::{EVERY_WAKE, Stage, finish, shell, sleeps, wait_for, when};

#[test]
pub fn a_malformed_directive_is_fed_back_once_and_mended() {
    let stage = Stage::new(&[
        when("Your output was rejected", json!([finish(sleeps("Mended."))])),
        when(EVERY_WAKE, json!([finish(json!({ "outcome": "sleep" }))])),
    ]);
    stage.world.script("repo/.fullsend/scripts/fine.sh", "#!/bin/sh\n");
    stage.harness("native", "validation_loop: {script: scripts/fine.sh, max_iterations: 1}\n");
    let id = stage.told("go");
    stage.wakes(&id, 0);
    assert_eq!(stage.of_type(&id, "agent.message")[0]["message"], "Mended.");
    assert!(stage.of_type(&id, "agent.directive_error").is_empty());
}

#[test]
pub fn a_directive_that_stays_malformed_is_recorded_and_the_session_is_rescheduled() {
    let stage = Stage::new(&[when(
        EVERY_WAKE,
        json!([finish(json!({ "outcome": "nap" })), finish(json!({ "outcome": "nap" }))]),
    )]);
    stage.world.script("repo/.fullsend/scripts/fine.sh", "#!/bin/sh\n");
    stage.harness("native", "validation_loop: {script: scripts/fine.sh, max_iterations: 5}\n");
    let id = stage.told("go");
    stage.wakes(&id, 5);
    let errors = stage.of_type(&id, "agent.directive_error");
    assert_eq!(errors.len(), 1, "{}", stage.log(&id));
    assert!(errors[0]["error"].as_str().unwrap().contains("directive.json"), "{}", errors[0]);
    let [trouble] = &stage.of_type(&id, "session.error")[..] else { panic!("{}", stage.log(&id)) };
    assert_eq!((&trouble["class"], &trouble["attempt"]), (&json!("directive"), &json!(1)));
    assert!(trouble["retry_at_ms"].as_i64() > trouble["time_ms"].as_i64(), "it backs off");
    let shown = stage.show(&id);
    assert_eq!(
        (&shown["status"], &shown["pending"]),
        (&json!("rescheduling"), &json!(1)),
        "nothing is consumed"
    );
    let runs =
        std::fs::read_dir(stage.world.path("state/fullsend/runs/local")).unwrap().flatten().next().unwrap();
    let iterations = |name: &str| runs.path().join(name).exists();
    assert!(
        iterations("iteration-2") && !iterations("iteration-3"),
        "fed back once, whatever the harness allows"
    );
}

#[test]
pub fn the_directive_and_the_output_must_both_pass() {
    let writes = |text: &str| shell(&format!("echo '{text}' > /sandbox/workspace/output/agent-result.json"));
    let directive = finish(sleeps("Done."));
    let asks =
        finish(json!({ "summary": "s", "outcome": "sleep", "custom_tools": [{ "name": "t", "input": {} }] }));
    let turns = |first: Json, last: &Json| json!([first, last.clone(), last.clone()]);
    let stage = Stage::new(&[
        when("good output", turns(writes(r#"{"fixed":true}"#), &directive)),
        when("bad output", turns(writes(r#"{"fixed":7}"#), &directive)),
        when("no output", turns(shell("true"), &directive)),
        when("not yet", turns(shell("true"), &asks)),
    ]);
    stage.world.write(
        "repo/.fullsend/schemas/s.json",
        r#"{"type":"object","required":["fixed"],"properties":{"fixed":{"type":"boolean"}}}"#,
    );
    stage.harness("native", "output_schema: schemas/s.json\nvalidation_loop: {max_iterations: 1}\n");
    for (words, code, status) in [
        ("good output", 0, "idle"),
        ("bad output", 5, "idle"),
        ("no output", 5, "idle"),
        ("not yet", 10, "requires_action"),
    ] {
        let id = stage.told(words);
        stage.wakes(&id, code);
        assert_eq!(stage.show(&id)["status"], status, "{words}");
        assert_eq!(stage.of_type(&id, "agent.message").len(), usize::from(code != 5), "{words}");
        assert_eq!(stage.of_type(&id, "session.error").len(), usize::from(code == 5), "{words}");
    }
}

#[test]
pub fn going_on_by_itself_has_a_bound_and_a_word_from_outside_starts_it_anew() {
    let goes_on = json!({ "summary": "More.", "outcome": "continue", "follow_up_seconds": 1 });
    let stage = Stage::new(&[when(EVERY_WAKE, json!([finish(goes_on)]))]);
    let id = stage.told("go");
    let until_idle = || {
        wait_for(|| {
            assert_eq!(stage.world.run(&["worker", "--once", "--quiet"]).code, 0);
            (stage.show(&id)["status"] == "idle").then_some(())
        });
    };
    until_idle();
    assert_eq!(stage.show(&id)["stop_reason"], "continue_limit");
    assert_eq!(stage.of_type(&id, "agent.message").len(), 6, "once for the message, five times by itself");
    stage.send(&id, "go on");
    until_idle();
    assert_eq!(stage.of_type(&id, "agent.message").len(), 12);
}

#[test]
pub fn queued_wakes_are_kept_by_key_and_told_when_they_come() {
    let queues = json!({ "summary": "Later.", "outcome": "sleep", "queued_wakes": [
        { "reason": "look at the build", "delay_seconds": 1, "note": "number 7", "dedupe_key": "build", "priority": "high" },
        { "reason": "again", "delay_seconds": 9, "dedupe_key": "build" } ] });
    let stage = Stage::new(&[
        when("look at the build", json!([finish(sleeps("The build is green."))])),
        when(EVERY_WAKE, json!([finish(queues)])),
    ]);
    let id = stage.told("go");
    stage.wakes(&id, 0);
    let wakes = stage.show(&id)["wakes"].clone();
    assert_eq!((wakes.as_array().unwrap().len(), &wakes[0]["priority"]), (1, &json!("high")));
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    let ran = stage.world.run(&["worker", "--once", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(stage.of_type(&id, "agent.message")[1]["message"], "The build is green.");
    let shown = stage.show(&id);
    assert_eq!((&shown["status"], &shown["wakes"]), (&json!("idle"), &json!([])));
}

#[test]
pub fn learnings_reach_the_next_session_of_the_agent() {
    let learns = json!({ "summary": "Learned.", "outcome": "sleep", "learnings": [
        { "kind": "lesson", "title": "The cache", "detail": "Clear the cache before the tests." } ] });
    let stage = Stage::new(&[
        when("What this agent has learned", json!([finish(sleeps("I remember."))])),
        when(EVERY_WAKE, json!([finish(learns)])),
    ]);
    stage.wakes(&stage.told("one"), 0);
    let second = stage.told("two");
    stage.wakes(&second, 0);
    assert_eq!(stage.of_type(&second, "agent.message")[0]["message"], "I remember.");
    assert!(stage.last_transcript().contains("Clear the cache before the tests."));
}
