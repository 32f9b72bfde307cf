//! How wakes end: sleep, continue, queued wakes, failures, memory and learnings, all in one commit.

use std::collections::BTreeMap;

use serde_json::json;

use super::{Place, over_stores};
use crate::fixture::{Clock, directive, ending, interrupt, message, sleeps, worker};
use session::{
    ClaimTarget, ClaimedWake, ContextWindow, FailureClass, Lease, MemoryAuthor, MemoryFile, MemoryWrite,
    Payload, Seq, SessionError, SessionId, SessionLimits, SessionRefusal, SessionState, SessionStatus,
    SessionUsage, Sessions, StopReason, Timestamp, WakeCommit, WakeEnding,
};

over_stores!(
    an_agent_goes_on_by_itself_but_not_for_ever,
    a_word_from_outside_starts_the_count_anew,
    queued_wakes_come_due_once,
    the_first_of_two_equal_wakes_stands,
    too_many_wakes_are_refused_whole,
    a_transient_failure_is_tried_again_later,
    a_failure_that_stays_is_given_up,
    a_permanent_failure_is_never_tried_again,
    a_malformed_directive_is_recorded_and_tried_again,
    an_interrupt_during_the_last_moment_cancels_what_was_planned,
    an_interrupt_cancels_timers,
    memory_is_part_of_the_commit,
    bad_memory_refuses_the_commit,
    learnings_outlive_the_session_and_are_kept_once,
    another_brain_takes_over,
    usage_adds_up,
);

fn start(sessions: &mut Sessions, clock: &mut Clock) -> SessionId {
    let id = sessions.create(&clock.header("triage")).unwrap().header.id;
    send(sessions, clock, id, "hello");
    id
}

fn send(sessions: &mut Sessions, clock: &mut Clock, id: SessionId, text: &str) {
    sessions.append(id, &[clock.input(message(text))], &mut clock.seed()).unwrap();
}

fn claim(sessions: &mut Sessions, clock: &mut Clock) -> Option<ClaimedWake> {
    sessions.claim(ClaimTarget::Due, &worker("a"), &mut clock.seed()).unwrap()
}

fn commit(sessions: &mut Sessions, clock: &mut Clock, lease: &Lease, commit: &WakeCommit) -> SessionState {
    sessions.commit(lease, commit, &mut clock.seed()).unwrap()
}

/// One whole wake.
fn wake(sessions: &mut Sessions, clock: &mut Clock, ended: WakeEnding) -> SessionState {
    let lease = claim(sessions, clock).expect("something is due").lease;
    commit(sessions, clock, &lease, &ending(ended))
}

fn says(value: &serde_json::Value) -> WakeEnding {
    let mut full = json!({"response": "ok", "summary": "s", "outcome": "sleep"});
    full.as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
    WakeEnding::Directive(directive(&full))
}

fn fails(class: FailureClass) -> WakeEnding {
    WakeEnding::Failed { class, message: "provider said no".to_owned() }
}

fn an_agent_goes_on_by_itself_but_not_for_ever(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = start(sessions, clock);
    for count in 1..=SessionLimits::default().continues {
        let state = wake(sessions, clock, says(&json!({"outcome": "continue", "follow_up_seconds": 10})));
        assert_eq!((state.status, state.continues), (SessionStatus::Rescheduling, count));
        assert_eq!(claim(sessions, clock), None, "not before its time");
        clock.pass_ms(10_000);
    }
    let state = wake(sessions, clock, says(&json!({"outcome": "continue"})));
    assert_eq!((state.status, state.stop_reason), (SessionStatus::Idle, StopReason::ContinueLimit));
    let last = sessions.events(id, Seq(state.head.0 - 1), 1).unwrap();
    assert_eq!(last[0].payload, Payload::SessionStatusIdle { reason: StopReason::ContinueLimit });
}

fn a_word_from_outside_starts_the_count_anew(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = start(sessions, clock);
    for _ in 0..20 {
        let state = wake(sessions, clock, says(&json!({"outcome": "continue"})));
        assert_eq!((state.status, state.continues), (SessionStatus::Rescheduling, 1));
        send(sessions, clock, id, "go on");
    }
    let due = sessions.session(id).unwrap().state.wakes[0].due_ms;
    assert_eq!(due, clock.now().plus_ms(SessionLimits::default().follow_up_ms));
}

fn queued_wakes_come_due_once(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = start(sessions, clock);
    let state = wake(
        sessions,
        clock,
        says(&json!({"queued_wakes": [
            {"reason": "soon", "delay_seconds": 60, "note": "n", "priority": "low"},
            {"reason": "later", "delay_seconds": 120, "priority": "high"},
        ]})),
    );
    assert_eq!((state.status, state.wakes.len()), (SessionStatus::Rescheduling, 2));
    clock.pass_ms(59_999);
    assert_eq!(claim(sessions, clock), None);
    clock.pass_ms(1);
    let lost = claim(sessions, clock).unwrap();
    assert_eq!(lost.session.state.wakes.len(), 2, "a wake is not gone before its run is done");
    clock.pass_ms(60_001);
    let claimed = claim(sessions, clock).unwrap();
    let taken = claimed.session.state.wake.as_ref().unwrap();
    assert_eq!((taken.attempt, taken.woken.len()), (2, 1), "another attempt, for the same wake");
    let state = commit(sessions, clock, &claimed.lease, &sleeps());
    assert_eq!(state.wakes.iter().map(|wake| wake.reason.as_str()).collect::<Vec<_>>(), ["later"]);
    assert_eq!(wake(sessions, clock, says(&json!({}))).status, SessionStatus::Idle);
    clock.pass_ms(1_000_000);
    assert_eq!(claim(sessions, clock), None);
    assert_eq!(sessions.session(id).unwrap().state.stop_reason, StopReason::EndTurn);
}

fn the_first_of_two_equal_wakes_stands(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = start(sessions, clock);
    let wish = |seconds: u64| {
        json!({"queued_wakes": [
            {"reason": "poll", "delay_seconds": seconds, "dedupe_key": "poll"},
            {"reason": "poll again", "delay_seconds": seconds, "dedupe_key": "poll"},
            {"reason": "free", "delay_seconds": 1000},
        ]})
    };
    let first = wake(sessions, clock, says(&wish(60)));
    assert_eq!(first.wakes.len(), 2);
    send(sessions, clock, id, "more");
    let second = wake(sessions, clock, says(&wish(5)));
    assert_eq!(second.wakes.len(), 3, "what has no key is never the same");
    assert_eq!(second.wakes[0], first.wakes[0]);
    let known = second.wakes[0].clone();
    let state = sessions.queue_wake(id, &known, &mut clock.seed()).unwrap();
    assert_eq!(state.head, second.head, "queueing it again writes nothing");
    clock.pass_ms(60_000);
    let third = wake(sessions, clock, says(&wish(7)));
    assert_eq!(third.wakes.iter().filter(|wake| wake.dedupe_key.is_some()).count(), 1);
    assert_eq!(third.wakes.last().unwrap().due_ms, Timestamp(clock.now_ms + 1_000_000));
}

fn too_many_wakes_are_refused_whole(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = start(sessions, clock);
    let wishes: Vec<_> = (0..8).map(|n| json!({"reason": format!("r{n}"), "delay_seconds": 1000})).collect();
    let ended = says(&json!({"queued_wakes": wishes}));
    for _ in 0..SessionLimits::default().queued_wakes / 8 {
        wake(sessions, clock, ended.clone());
        send(sessions, clock, id, "again");
    }
    let lease = claim(sessions, clock).unwrap().lease;
    let head = sessions.session(id).unwrap().state.head;
    let refused = sessions.commit(&lease, &ending(ended), &mut clock.seed());
    assert!(matches!(
        refused,
        Err(SessionError::Refused(SessionRefusal::TooMany { what: "queued wakes", .. }))
    ));
    assert_eq!(sessions.session(id).unwrap().state.head, head);
    let malformed = WakeEnding::Malformed { error: "too many wakes".to_owned(), excerpt: String::new() };
    assert_eq!(commit(sessions, clock, &lease, &ending(malformed)).status, SessionStatus::Rescheduling);
}

fn a_transient_failure_is_tried_again_later(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = start(sessions, clock);
    let first = claim(sessions, clock).unwrap().lease;
    let state = commit(sessions, clock, &first, &ending(fails(FailureClass::Transient)));
    assert_eq!((state.status, state.stop_reason), (SessionStatus::Rescheduling, StopReason::Rescheduled));
    assert_eq!(claim(sessions, clock), None, "no hot loop");
    send(sessions, clock, id, "anybody there?");
    assert_eq!(claim(sessions, clock), None, "a new message does not end the back-off");
    clock.pass_ms(2_000);
    let second = claim(sessions, clock).unwrap();
    assert_eq!(second.lease.wake, first.wake);
    let inputs = &second.session.state.wake.as_ref().unwrap().inputs;
    assert_eq!(inputs.iter().collect::<Vec<_>>(), [Seq(1)], "the same inputs as before");
    let state = commit(sessions, clock, &second.lease, &sleeps());
    assert_eq!((state.status, state.pending.len()), (SessionStatus::Rescheduling, 1));
}

fn a_failure_that_stays_is_given_up(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = start(sessions, clock);
    let mut state = SessionState::default();
    for _ in 0..SessionLimits::default().attempts {
        state = wake(sessions, clock, fails(FailureClass::Transient));
        clock.pass_ms(86_400_000 / 4);
    }
    assert_eq!((state.status, state.stop_reason), (SessionStatus::Idle, StopReason::Error));
    assert_eq!(state.dead.len(), 1, "it is a dead letter");
    assert!(state.pending.is_empty() && state.wake.is_none());
    assert_eq!(claim(sessions, clock), None);
    send(sessions, clock, id, "again");
    assert_eq!(wake(sessions, clock, says(&json!({}))).status, SessionStatus::Idle);
}

fn a_permanent_failure_is_never_tried_again(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = start(sessions, clock);
    let state = wake(sessions, clock, fails(FailureClass::Permanent));
    assert_eq!((state.status, state.stop_reason), (SessionStatus::Idle, StopReason::Error));
    clock.pass_ms(10_000_000);
    assert_eq!(claim(sessions, clock), None);
    let kinds: Vec<_> = sessions.events(id, Seq(3), 9).unwrap().iter().map(|e| e.payload.kind()).collect();
    assert_eq!(kinds, ["session.error", "span.completed", "session.status_idle"]);
}

fn a_malformed_directive_is_recorded_and_tried_again(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = start(sessions, clock);
    let malformed = WakeEnding::Malformed { error: "no block".to_owned(), excerpt: "x".repeat(9_000) };
    let state = wake(sessions, clock, malformed);
    assert_eq!(state.status, SessionStatus::Rescheduling, "never a silent sleep");
    let events = sessions.events(id, Seq(3), 9).unwrap();
    let Payload::AgentDirectiveError { error, excerpt } = &events[0].payload else { panic!("{events:?}") };
    assert_eq!((error.as_str(), excerpt.chars().count()), ("no block", 2_001));
    assert_eq!(events[1].payload.kind(), "session.error");
}

fn an_interrupt_during_the_last_moment_cancels_what_was_planned(
    _: &Place,
    sessions: &mut Sessions,
    clock: &mut Clock,
) {
    let id = start(sessions, clock);
    let lease = claim(sessions, clock).unwrap().lease;
    sessions.append(id, &[clock.input(interrupt())], &mut clock.seed()).unwrap();
    let planned = says(&json!({"outcome": "continue", "queued_wakes": [{"reason": "r", "delay_seconds": 5}],
                               "custom_tools": [{"name": "deploy", "input": {}}]}));
    let state = commit(sessions, clock, &lease, &ending(planned));
    assert_eq!(state.status, SessionStatus::Idle);
    assert!(state.wakes.is_empty() && state.requests.is_empty());
    let kinds: Vec<_> = sessions.events(id, Seq(4), 9).unwrap().iter().map(|e| e.payload.kind()).collect();
    assert_eq!(kinds[0], "agent.message", "the work that was done is kept");
}

fn an_interrupt_cancels_timers(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = start(sessions, clock);
    wake(sessions, clock, says(&json!({"outcome": "continue", "follow_up_seconds": 5})));
    sessions.append(id, &[clock.input(interrupt())], &mut clock.seed()).unwrap();
    assert_eq!(sessions.session(id).unwrap().state.status, SessionStatus::Idle);
    clock.pass_ms(10_000_000);
    assert_eq!(claim(sessions, clock), None);
}

fn file(author: MemoryAuthor, name: &str, content: &str) -> MemoryWrite {
    MemoryWrite { author, file: MemoryFile { name: name.to_owned(), content: content.to_owned() } }
}

fn memory_is_part_of_the_commit(place: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = start(sessions, clock);
    let lease = claim(sessions, clock).unwrap().lease;
    let mut ended = sleeps();
    ended.memory = vec![
        file(MemoryAuthor::Fullsend, "checkpoint.json", "{}"),
        file(MemoryAuthor::Agent, "working-buffer.md", "a\0b"),
        file(MemoryAuthor::Agent, "Zebra.md", "z"),
    ];
    commit(sessions, clock, &lease, &ended);
    send(sessions, clock, id, "more");
    let lease = claim(sessions, clock).unwrap().lease;
    let context = place.open().context(&lease, &ContextWindow::default()).unwrap();
    let names: Vec<_> = context.memory.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["Zebra.md", "checkpoint.json", "working-buffer.md"]);
    assert_eq!(context.memory[2].content, "a\0b");
    let mut ended = sleeps();
    ended.memory = vec![file(MemoryAuthor::Agent, "working-buffer.md", "new")];
    commit(sessions, clock, &lease, &ended);
    let memory = sessions.memory(id).unwrap();
    assert_eq!((memory.len(), memory[2].content.as_str()), (3, "new"));
}

fn bad_memory_refuses_the_commit(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = start(sessions, clock);
    let lease = claim(sessions, clock).unwrap().lease;
    let many: Vec<_> = (0..33).map(|n| file(MemoryAuthor::Agent, &format!("f{n}"), "")).collect();
    for memory in [
        vec![file(MemoryAuthor::Agent, "checkpoint.json", "{}")],
        vec![file(MemoryAuthor::Agent, "../../etc/passwd", "x")],
        vec![file(MemoryAuthor::Agent, "a", "1"), file(MemoryAuthor::Agent, "a", "2")],
        vec![file(MemoryAuthor::Agent, "a", &"x".repeat((256 << 10) + 1))],
        many,
    ] {
        let ended = WakeCommit { memory, ..sleeps() };
        assert!(matches!(sessions.commit(&lease, &ended, &mut clock.seed()), Err(SessionError::Refused(_))));
    }
    assert_eq!(sessions.memory(id).unwrap(), []);
    assert_eq!(commit(sessions, clock, &lease, &sleeps()).status, SessionStatus::Idle);
}

fn learnings_outlive_the_session_and_are_kept_once(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let learn = |titles: &[&str]| {
        let learnings: Vec<_> =
            titles.iter().map(|title| json!({"kind": "lesson", "title": title, "detail": "d"})).collect();
        says(&json!({"learnings": learnings}))
    };
    let first = start(sessions, clock);
    wake(sessions, clock, learn(&["one", "two"]));
    start(sessions, clock);
    wake(sessions, clock, learn(&["ONE", "three\u{0}"]));
    let other = sessions.create(&clock.header("another agent")).unwrap().header.id;
    send(sessions, clock, other, "hi");
    let lease = claim(sessions, clock).unwrap().lease;
    assert_eq!(sessions.context(&lease, &ContextWindow::default()).unwrap().learnings, []);
    commit(sessions, clock, &lease, &ending(learn(&["elsewhere"])));
    sessions.terminate(first, "", &mut clock.seed()).unwrap();
    let titles = |sessions: &mut Sessions, limit| -> Vec<String> {
        let found = sessions.learnings(None, "triage", limit).unwrap();
        found.into_iter().map(|stored| stored.learning.title).collect()
    };
    assert_eq!(titles(sessions, 10), ["three\u{0}", "two", "one"]);
    assert_eq!(titles(sessions, 1), ["three\u{0}"]);
    let lease = {
        start(sessions, clock);
        claim(sessions, clock).unwrap().lease
    };
    assert_eq!(sessions.context(&lease, &ContextWindow::default()).unwrap().learnings.len(), 3);
}

fn another_brain_takes_over(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = start(sessions, clock);
    for (runtime, conversation) in [("claude", "c-1"), ("codex", "x-1"), ("claude", "c-2")] {
        let lease = claim(sessions, clock).unwrap().lease;
        let bindings = BTreeMap::from([(runtime.to_owned(), conversation.to_owned())]);
        commit(sessions, clock, &lease, &WakeCommit { bindings, ..sleeps() });
        send(sessions, clock, id, "more");
    }
    let bindings = sessions.session(id).unwrap().state.bindings;
    let pairs: Vec<_> = bindings.iter().map(|(runtime, id)| (runtime.as_str(), id.as_str())).collect();
    assert_eq!(pairs, [("claude", "c-2"), ("codex", "x-1")]);
    let lease = claim(sessions, clock).unwrap().lease;
    let bindings = BTreeMap::from([("claude".to_owned(), "x".repeat(600))]);
    let refused = sessions.commit(&lease, &WakeCommit { bindings, ..sleeps() }, &mut clock.seed());
    assert!(matches!(refused, Err(SessionError::Refused(SessionRefusal::TooLarge { .. }))));
}

fn usage_adds_up(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = start(sessions, clock);
    let usage = SessionUsage { turns: 2, input_tokens: 100, output_tokens: 10, cost_microdollars: 5 };
    for _ in 0..3 {
        let lease = claim(sessions, clock).unwrap().lease;
        commit(sessions, clock, &lease, &WakeCommit { usage, ..sleeps() });
        send(sessions, clock, id, "more");
    }
    let expected = SessionUsage { turns: 6, input_tokens: 300, output_tokens: 30, cost_microdollars: 15 };
    assert_eq!(sessions.session(id).unwrap().state.usage, expected);
}
