//! What goes wrong in a wake: providers, scripts, interrupts, ends from outside. Nothing loops, nothing is lost.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::json;

use super::stage::{EVERY_WAKE, FOREVER, Stage, finish, shell, sleeps, wait_for, when};

#[test]
pub fn a_provider_error_passes_or_stops() {
    let stage = Stage::new(&[
        when("refused", json!([[{ "error": 400, "message": "no such model", "times": 99 }]])),
        when("busy", json!([[{ "error": 529, "message": "overloaded", "times": 99 }]])),
    ]);
    stage.harness("native", "gateway: {retry_seconds: 1}\n");
    let id = stage.told("refused");
    stage.wakes(&id, 1);
    let [error] = &stage.of_type(&id, "session.error")[..] else { panic!("{}", stage.log(&id)) };
    assert_eq!((&error["class"], &error["retry_at_ms"]), (&json!("permanent"), &json!(null)), "{error}");
    let shown = stage.show(&id);
    assert_eq!((&shown["status"], &shown["dead"]), (&json!("idle"), &json!([[1, 1]])), "it stops: no loop");
    assert_eq!(stage.world.run(&["worker", "--once", "--json"]).out, "", "nothing is due");

    let id = stage.told("busy");
    stage.wakes(&id, 11);
    let [error] = &stage.of_type(&id, "session.error")[..] else { panic!("{}", stage.log(&id)) };
    assert_eq!(error["class"], "transient", "{error}");
    assert_eq!(stage.show(&id)["status"], "rescheduling");
    for attempt in 2..=6 {
        stage.wakes(&id, 11);
        assert_eq!(stage.of_type(&id, "session.error").len(), attempt);
    }
    let shown = stage.show(&id);
    assert_eq!(
        (&shown["status"], &shown["pending"], &shown["dead"]),
        (&json!("rescheduling"), &json!(1), &json!([])),
        "an outage of the provider costs no message"
    );
    let starts = stage.of_type(&id, "span.started");
    let ids: Vec<_> =
        starts.iter().filter(|event| event["name"] == "wake").map(|event| &event["span_id"]).collect();
    assert!(ids.iter().all(|known| *known == ids[0]), "every attempt is the same wake");
}

#[test]
pub fn scripts_know_the_wake_and_a_repeated_one_has_the_same_name() {
    let stage = Stage::new(&[when(EVERY_WAKE, json!([finish(sleeps("Done."))]))]);
    stage.harness("native", "post_script: scripts/push.sh\n");
    let ledger = stage.world.path("ledger");
    let script = format!(
        "#!/bin/sh\necho \"$FULLSEND_WAKE_ID $FULLSEND_SESSION_ID\" >> {0}\n[ $(wc -l < {0}) -gt 1 ]\n",
        ledger.display()
    );
    stage.world.script("repo/.fullsend/scripts/push.sh", &script);
    let id = stage.told("go");
    stage.wakes(&id, 1);
    assert_eq!(stage.of_type(&id, "session.error")[0]["class"], "transient");
    stage.wakes(&id, 0);
    let lines = fs::read_to_string(ledger).unwrap();
    let lines: Vec<&str> = lines.lines().collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0], lines[1], "one wake, however often");
    assert!(lines[0].ends_with(&id));
    assert_eq!(stage.of_type(&id, "agent.message").len(), 1);
}

/// From the interrupt to the end of the run.
fn an_interrupt_stops(runtime: &str) {
    let story = [
        when("anew", json!([finish(sleeps("Fresh."))])),
        when(EVERY_WAKE, json!([shell(FOREVER), finish(sleeps("Never."))])),
    ];
    let Some(stage) = Stage::of(&[runtime], &story) else { return };
    let id = stage.told("work hard");
    let mut child = stage.world.spawn(&["session", "run", &id]);
    stage.wait_for(&id, FOREVER);
    stage.send(&id, "anew");
    let start = Instant::now();
    assert_eq!(stage.world.run(&["session", "interrupt", &id]).code, 0);
    stage.wait_for(&id, "\"result\":\"interrupted\"");
    let took = start.elapsed();
    let code = child.wait().unwrap().code();
    assert_eq!(code, Some(130));
    assert!(took < Duration::from_secs(10), "even on a machine with much to do: {took:?}");
    assert!(stage.of_type(&id, "agent.message").is_empty());
    let shown = stage.show(&id);
    assert_eq!(
        (&shown["status"], &shown["pending"]),
        (&json!("rescheduling"), &json!(1)),
        "the message still waits"
    );
    stage.wakes(&id, 0);
    assert_eq!(stage.of_type(&id, "agent.message")[0]["message"], "Fresh.");
}

/// The process holds credentials: no file and no handler gets its memory.
#[test]
pub fn a_process_that_runs_a_wake_leaves_no_core_dump() {
    let stage = Stage::new(&[when(EVERY_WAKE, json!([finish(sleeps("Done."))]))]);
    stage.harness("native", "pre_script: scripts/limits.sh\n");
    let limits = stage.world.path("limits");
    let script = format!("#!/bin/sh\ngrep core /proc/$PPID/limits | tr -s ' ' > {}\n", limits.display());
    stage.world.script("repo/.fullsend/scripts/limits.sh", &script);
    stage.wakes(&stage.told("go"), 0);
    let limits = fs::read_to_string(limits).unwrap();
    assert!(limits.starts_with("Max core file size 1 "), "{limits}");
}

#[test]
pub fn an_interrupt_stops_a_run_in_progress_and_goes_ahead_of_what_waits() {
    an_interrupt_stops("native");
}

#[test]
pub fn an_interrupt_stops_claude() {
    an_interrupt_stops("claude");
}

#[test]
pub fn an_interrupt_stops_codex() {
    an_interrupt_stops("codex");
}

#[test]
pub fn a_session_that_is_terminated_takes_its_run_along() {
    let stage = Stage::new(&[when(EVERY_WAKE, json!([shell("sleep 300.25"), finish(sleeps("Never."))]))]);
    let id = stage.told("work hard");
    let mut child = stage.world.spawn(&["session", "run", &id]);
    stage.wait_for(&id, "sleep 300.25");
    assert_eq!(stage.wake(&id).code, 4, "somebody holds it");
    assert_eq!(stage.world.run(&["session", "terminate", &id]).code, 0);
    assert!(!child.wait().unwrap().success());
    assert_eq!(stage.show(&id)["status"], "terminated");
    assert!(stage.of_type(&id, "agent.message").is_empty(), "{}", stage.log(&id));
}

/// A run that is asked to end from outside is not lost: it is tried again.
#[test]
pub fn a_signal_ends_the_run_in_order_and_the_work_is_tried_again() {
    let stage = Stage::new(&[when(EVERY_WAKE, json!([shell("sleep 300.375"), finish(sleeps("Never."))]))]);
    let id = stage.told("work hard");
    let mut child = stage.world.spawn(&["session", "run", &id]);
    stage.wait_for(&id, "sleep 300.375");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
    let shown = stage.show(&id);
    assert_eq!((&shown["status"], &shown["pending"]), (&json!("rescheduling"), &json!(1)));
    assert_eq!(stage.of_type(&id, "session.error")[0]["class"], "transient");
    wait_for(|| stage.show(&id)["held"].is_null().then_some(()));
}
