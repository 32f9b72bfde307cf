//! Dead letters: what is given up, how a batch is split, and what a person does with the rest.

use super::{Place, over_stores};
use crate::fixture::{Clock, ending, message, sleeps, worker};
use session::{
    ClaimTarget, ClaimedWake, DeadLetterAction, FailureClass, Seq, SeqSet, SessionError, SessionId,
    SessionRefusal, SessionStatus, Sessions, WakeCommit, WakeEnding,
};

over_stores!(
    one_bad_input_does_not_take_the_others_with_it,
    a_dead_letter_is_retried_or_dropped,
    an_outage_of_ten_minutes_loses_nothing,
    lost_workers_cost_no_attempt,
);

fn start(sessions: &mut Sessions, clock: &mut Clock, messages: usize) -> SessionId {
    let id = sessions.create(&clock.header("triage")).unwrap().header.id;
    for number in 1..=messages {
        let input = clock.input(message(&format!("message {number}")));
        sessions.append(id, &[input], &mut clock.seed()).unwrap();
    }
    id
}

fn claim(sessions: &mut Sessions, clock: &mut Clock) -> Option<ClaimedWake> {
    sessions.claim(ClaimTarget::Due, &worker("a"), &mut clock.seed()).unwrap()
}

fn inputs(claimed: &ClaimedWake) -> SeqSet {
    claimed.session.state.wake.as_ref().unwrap().inputs.clone()
}

fn fails(class: FailureClass) -> WakeCommit {
    ending(WakeEnding::Failed { class, message: "no".to_owned() })
}

fn one_bad_input_does_not_take_the_others_with_it(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = start(sessions, clock, 64);
    let bad = Seq(41);
    let mut done = Vec::new();
    let mut wakes = 0;
    while let Some(claimed) = claim(sessions, clock) {
        wakes += 1;
        let inputs = inputs(&claimed);
        let commit = if inputs.contains(bad) { fails(FailureClass::Permanent) } else { sleeps() };
        if !inputs.contains(bad) {
            done.extend(inputs.iter());
        }
        sessions.commit(&claimed.lease, &commit, &mut clock.seed()).unwrap();
        assert!(wakes < 40, "splitting comes to an end");
    }
    let state = sessions.session(id).unwrap().state;
    assert_eq!(state.dead.iter().collect::<Vec<_>>(), [bad]);
    assert_eq!((done.len(), state.pending.len()), (63, 0), "{done:?}");
    assert_eq!(state.status, SessionStatus::Idle);
}

fn a_dead_letter_is_retried_or_dropped(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = start(sessions, clock, 1);
    let lease = claim(sessions, clock).unwrap().lease;
    let state = sessions.commit(&lease, &fails(FailureClass::Permanent), &mut clock.seed()).unwrap();
    let dead = state.dead;
    assert_eq!(dead.iter().collect::<Vec<_>>(), [Seq(1)]);
    let other: SeqSet = [Seq(2)].into_iter().collect();
    let refused = sessions.dead_letters(id, DeadLetterAction::Retry, &other, &mut clock.seed());
    assert!(matches!(refused, Err(SessionError::Refused(SessionRefusal::Field { what: "inputs", .. }))));
    sessions.dead_letters(id, DeadLetterAction::Retry, &dead, &mut clock.seed()).unwrap();
    let again = claim(sessions, clock).unwrap();
    assert_eq!(inputs(&again), dead, "the same input, in a new wake");
    assert_ne!(again.lease.wake, lease.wake);
    let state = sessions.commit(&again.lease, &fails(FailureClass::Permanent), &mut clock.seed()).unwrap();
    assert_eq!(state.dead, dead);
    let state = sessions.dead_letters(id, DeadLetterAction::Drop, &dead, &mut clock.seed()).unwrap();
    assert!(state.dead.is_empty() && state.pending.is_empty());
    assert_eq!(claim(sessions, clock), None);
}

fn an_outage_of_ten_minutes_loses_nothing(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = start(sessions, clock, 5);
    let end = clock.now_ms + 600_000;
    while clock.now_ms < end {
        if let Some(claimed) = claim(sessions, clock) {
            sessions.commit(&claimed.lease, &fails(FailureClass::Transient), &mut clock.seed()).unwrap();
        }
        clock.pass_ms(5_000);
    }
    clock.pass_ms(300_000);
    let claimed = claim(sessions, clock).unwrap();
    assert_eq!(inputs(&claimed).len(), 5);
    let state = sessions.commit(&claimed.lease, &sleeps(), &mut clock.seed()).unwrap();
    assert!(state.dead.is_empty() && state.pending.is_empty());
    assert_eq!(sessions.session(id).unwrap().state.status, SessionStatus::Idle);
}

fn lost_workers_cost_no_attempt(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    start(sessions, clock, 1);
    for _ in 0..20 {
        claim(sessions, clock).unwrap();
        clock.pass_ms(60_001);
    }
    let malformed = WakeEnding::Malformed { error: "m".to_owned(), excerpt: String::new() };
    let claimed = claim(sessions, clock).unwrap();
    let state = sessions.commit(&claimed.lease, &ending(malformed), &mut clock.seed()).unwrap();
    assert!(state.dead.is_empty() && state.wake.is_some(), "its own first failure is retried");
}
