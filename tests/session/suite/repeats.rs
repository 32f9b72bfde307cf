//! Calls that are made again because nobody knows whether they succeeded, and what lost attempts have used.

use super::{Place, over_stores};
use crate::fixture::{Clock, message, reports, sleeps, worker};
use session::{
    ClaimTarget, Lease, Payload, Seq, SessionError, SessionId, SessionRefusal, SessionUsage, Sessions,
    WakeCommit,
};

over_stores!(
    a_report_that_is_made_again_is_stored_once,
    a_commit_that_is_made_again_is_stored_once,
    the_usage_of_a_lost_attempt_counts,
);

fn start(sessions: &mut Sessions, clock: &mut Clock) -> (SessionId, Lease) {
    let id = sessions.create(&clock.header("triage")).unwrap().header.id;
    sessions.append(id, &[clock.input(message("hello"))], &mut clock.seed()).unwrap();
    let claimed = sessions.claim(ClaimTarget::Due, &worker("a"), &mut clock.seed()).unwrap().unwrap();
    (id, claimed.lease)
}

fn kinds(sessions: &mut Sessions, id: SessionId, kind: &str) -> usize {
    sessions.events(id, Seq(0), 1_000).unwrap().iter().filter(|event| event.payload.kind() == kind).count()
}

fn attached(run_id: &str) -> Payload {
    Payload::RunAttached { run_id: run_id.to_owned(), digest: None }
}

fn a_report_that_is_made_again_is_stored_once(place: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let (id, lease) = start(sessions, clock);
    let first = reports(clock, &[attached("one")]);
    sessions.report(&lease, &first, &mut clock.seed()).unwrap();
    let both = [first, reports(clock, &[attached("two")])].concat();
    for _ in 0..2 {
        place.open().report(&lease, &both, &mut clock.seed()).unwrap();
    }
    assert_eq!(kinds(sessions, id, "run.attached"), 2);
    let commit = WakeCommit { reports: both, ..sleeps() };
    sessions.commit(&lease, &commit, &mut clock.seed()).unwrap();
    assert_eq!(kinds(sessions, id, "run.attached"), 2, "not with the commit either");
}

fn a_commit_that_is_made_again_is_stored_once(place: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let (id, lease) = start(sessions, clock);
    let first = sessions.commit(&lease, &sleeps(), &mut clock.seed()).unwrap();
    let again = place.open().commit(&lease, &sleeps(), &mut clock.seed()).unwrap();
    assert_eq!(again, first);
    sessions.append(id, &[clock.input(message("more"))], &mut clock.seed()).unwrap();
    sessions.claim(ClaimTarget::Due, &worker("b"), &mut clock.seed()).unwrap().unwrap();
    sessions.commit(&lease, &sleeps(), &mut clock.seed()).unwrap();
    assert_eq!(kinds(sessions, id, "agent.message"), 1);
    let other = Lease { token: lease.token + 7, ..lease };
    let refused = sessions.commit(&other, &sleeps(), &mut clock.seed());
    assert!(matches!(refused, Err(SessionError::Refused(SessionRefusal::Stale { .. }))), "{refused:?}");
}

fn the_usage_of_a_lost_attempt_counts(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let (id, lease) = start(sessions, clock);
    let usage = |turns| SessionUsage { turns, cost_microdollars: turns * 100, ..SessionUsage::default() };
    for turns in [1, 3] {
        let used = reports(clock, &[Payload::RunUsage { usage: usage(turns) }]);
        sessions.report(&lease, &used, &mut clock.seed()).unwrap();
    }
    assert_eq!(sessions.session(id).unwrap().state.usage, usage(0), "the attempt goes on");
    clock.pass_ms(3_600_000);
    let second = sessions.claim(ClaimTarget::Due, &worker("b"), &mut clock.seed()).unwrap().unwrap().lease;
    assert_eq!(sessions.session(id).unwrap().state.usage, usage(3), "its worker was lost");
    let commit = WakeCommit { usage: usage(2), ..sleeps() };
    let state = sessions.commit(&second, &commit, &mut clock.seed()).unwrap();
    assert_eq!(state.usage, usage(5));
}
