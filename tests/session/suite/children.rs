//! Sessions that sessions start: created and answered in one step with what causes them, bounded in depth, number and cost.

use serde_json::{Value, json};

use super::{Place, over_stores};
use crate::fixture::{Clock, directive, ending, message, sleeps, worker};
use session::{
    ClaimTarget, FailureClass, Lease, Payload, Seq, Session, SessionError, SessionHeader, SessionId,
    SessionRefusal, SessionStatus, SessionUsage, Sessions, WakeCommit, WakeEnding,
};

over_stores!(
    a_child_works_and_its_parent_learns_the_result,
    a_child_that_fails_or_is_terminated_is_reported,
    a_result_is_reported_once,
    children_are_bounded,
    only_an_awaited_result_is_accepted,
    an_environment_is_changed_with_consent,
);

fn create(sessions: &mut Sessions, clock: &mut Clock) -> SessionId {
    let header = SessionHeader {
        repository: Some("host/a".to_owned()),
        labels: vec!["gpu".to_owned()],
        ..clock.header("triage")
    };
    let id = sessions.create(&header).unwrap().header.id;
    sessions.append(id, &[clock.input(message("hello"))], &mut clock.seed()).unwrap();
    id
}

fn claim(sessions: &mut Sessions, clock: &mut Clock, id: SessionId) -> Lease {
    let target = ClaimTarget::DueSession(id);
    sessions.claim(target, &worker("a"), &mut clock.seed()).unwrap().unwrap().lease
}

fn spawns(children: &Value) -> WakeCommit {
    ending(WakeEnding::Directive(directive(
        &json!({"response": "ok", "summary": "s", "outcome": "sleep", "spawn": children}),
    )))
}

fn children(sessions: &mut Sessions, id: SessionId) -> Vec<Session> {
    let state = sessions.session(id).unwrap().state;
    state.children.iter().map(|child| sessions.session(child.id).unwrap()).collect()
}

/// The results in the log of a session.
fn results(sessions: &mut Sessions, id: SessionId) -> Vec<(bool, String)> {
    let events = sessions.events(id, Seq(0), 100).unwrap();
    let result = |payload| match payload {
        Payload::UserChildResult { is_error, message, .. } => Some((is_error, message)),
        _ => None,
    };
    events.into_iter().filter_map(|event| result(event.payload)).collect()
}

fn a_child_works_and_its_parent_learns_the_result(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = create(sessions, clock);
    let lease = claim(sessions, clock, id);
    let two = json!([{"title": "one", "message": "look at one"},
                     {"title": "two", "message": "look at two", "max_cost_cents": 50}]);
    sessions.commit(&lease, &spawns(&two), &mut clock.seed()).unwrap();
    let found = children(sessions, id);
    assert_eq!(found.len(), 2);
    let parent = found[1].header.parent.unwrap();
    assert_eq!((parent.session, parent.depth, parent.budget_microdollars), (id, 1, 500_000));
    assert_eq!(found[0].header.repository.as_deref(), Some("host/a"));
    assert_eq!((found[0].header.agent.as_str(), found[0].header.labels.len()), ("triage", 1));
    assert_eq!(found[0].state.pending.len(), 1);
    let child = found[0].header.id;
    let lease = claim(sessions, clock, child);
    let usage = SessionUsage { turns: 3, ..SessionUsage::default() };
    sessions.commit(&lease, &WakeCommit { usage, ..sleeps() }, &mut clock.seed()).unwrap();
    assert_eq!(results(sessions, id), [(false, "ok".to_owned())]);
    let state = sessions.session(id).unwrap().state;
    assert_eq!((state.status, state.pending.len()), (SessionStatus::Rescheduling, 1), "the parent is due");
    let lease = claim(sessions, clock, id);
    sessions.commit(&lease, &sleeps(), &mut clock.seed()).unwrap();
    assert_eq!(sessions.session(id).unwrap().state.status, SessionStatus::Idle);
}

fn a_child_that_fails_or_is_terminated_is_reported(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = create(sessions, clock);
    let lease = claim(sessions, clock, id);
    let two = json!([{"title": "one", "message": "a"}, {"title": "two", "message": "b"}]);
    sessions.commit(&lease, &spawns(&two), &mut clock.seed()).unwrap();
    let found = children(sessions, id);
    let lease = claim(sessions, clock, found[0].header.id);
    let message = "it cannot be done".to_owned();
    let failed = ending(WakeEnding::Failed { class: FailureClass::Permanent, message });
    sessions.commit(&lease, &failed, &mut clock.seed()).unwrap();
    sessions.terminate(found[1].header.id, "no longer needed", &mut clock.seed()).unwrap();
    let expected =
        [(true, "it cannot be done".to_owned()), (true, "terminated: no longer needed".to_owned())];
    assert_eq!(results(sessions, id), expected);
}

fn a_result_is_reported_once(place: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = create(sessions, clock);
    let lease = claim(sessions, clock, id);
    sessions.commit(&lease, &spawns(&json!([{"title": "t", "message": "m"}])), &mut clock.seed()).unwrap();
    let child = children(sessions, id)[0].header.id;
    for _ in 0..2 {
        let lease = claim(sessions, clock, child);
        sessions.commit(&lease, &sleeps(), &mut clock.seed()).unwrap();
        sessions.commit(&lease, &sleeps(), &mut clock.seed()).unwrap();
        place.open().append(child, &[clock.input(message("more"))], &mut clock.seed()).unwrap();
    }
    assert_eq!(results(sessions, id).len(), 1);
    // A parent that is gone does not stop its child.
    sessions.terminate(id, "done", &mut clock.seed()).unwrap();
    let lease = claim(sessions, clock, child);
    sessions.commit(&lease, &sleeps(), &mut clock.seed()).unwrap();
}

fn children_are_bounded(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let top = create(sessions, clock);
    let refused = |sessions: &mut Sessions, clock: &mut Clock, id, children: &Value| {
        let lease = claim(sessions, clock, id);
        let refused = sessions.commit(&lease, &spawns(children), &mut clock.seed());
        assert!(matches!(refused, Err(SessionError::Refused(_))), "{refused:?}");
        lease
    };
    let costly = json!([{"title": "t", "message": "m", "max_cost_cents": 5_001}]);
    let lease = refused(sessions, clock, top, &costly);
    let one = json!([{"title": "t", "message": "m", "max_cost_cents": 100}]);
    sessions.commit(&lease, &spawns(&one), &mut clock.seed()).unwrap();
    let mut id = children(sessions, top)[0].header.id;
    // A child cannot give more than it has.
    let lease = refused(sessions, clock, id, &json!([{"title": "t", "message": "m", "max_cost_cents": 101}]));
    sessions.commit(&lease, &spawns(&one), &mut clock.seed()).unwrap();
    id = children(sessions, id)[0].header.id;
    let lease = claim(sessions, clock, id);
    sessions.commit(&lease, &spawns(&one), &mut clock.seed()).unwrap();
    id = children(sessions, id)[0].header.id;
    refused(sessions, clock, id, &one);
    assert_eq!(sessions.session(id).unwrap().header.parent.unwrap().depth, 3);
}

fn only_an_awaited_result_is_accepted(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = create(sessions, clock);
    let child = clock.header("triage").id;
    let usage = SessionUsage::default();
    let forged = Payload::UserChildResult { child, is_error: false, message: "x".to_owned(), usage };
    let refused = sessions.append(id, &[clock.input(forged)], &mut clock.seed());
    assert!(matches!(refused, Err(SessionError::Refused(SessionRefusal::Field { what: "child", .. }))));
}

fn an_environment_is_changed_with_consent(place: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    use session::{SessionEnvironment, Sha256Digest};
    let lab = |text: &[u8]| SessionEnvironment { id: "lab".to_owned(), digest: Sha256Digest::of(text) };
    let header = SessionHeader { environment: Some(lab(b"one")), ..clock.header("triage") };
    let id = sessions.create(&header).unwrap().header.id;
    assert_eq!(sessions.session(id).unwrap().environment(), Some(&lab(b"one")));
    sessions.accept_environment(id, &lab(b"two"), &mut clock.seed()).unwrap();
    let state = sessions.accept_environment(id, &lab(b"two"), &mut clock.seed()).unwrap();
    assert_eq!(state.head, Seq(1), "the second call changes nothing");
    assert_eq!(place.open().session(id).unwrap().environment(), Some(&lab(b"two")));
    let other = SessionEnvironment { id: "prod".to_owned(), ..lab(b"two") };
    let refused = sessions.accept_environment(id, &other, &mut clock.seed());
    assert!(matches!(refused, Err(SessionError::Refused(SessionRefusal::Field { what: "environment", .. }))));
}
