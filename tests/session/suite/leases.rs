//! Claims, leases and fencing: one worker at a time, and a lost one can do no harm.

use std::collections::BTreeMap;

use super::{Place, over_stores};
use crate::fixture::{Clock, ending, interrupt, message, reports, sleeps, worker};
use session::{
    ClaimTarget, ClaimedWake, CompletedSpan, ContextWindow, ErrorClass, FailureClass, LeaseTerms,
    MemoryAuthor, MemoryFile, MemoryWrite, Payload, QueuedWake, Seq, SeqSet, SessionError, SessionId,
    SessionLimits, SessionRefusal, SessionStatus, Sessions, SpanResult, StartedSpan, StopReason, Timestamp,
    WakeEnding, WakeId, WakePriority,
};

over_stores!(
    a_message_becomes_one_wake_and_one_commit,
    nothing_is_consumed_before_the_commit,
    a_lost_lease_can_do_no_harm,
    a_late_worker_whose_place_nobody_took_may_commit,
    a_message_that_comes_meanwhile_waits_for_the_next_wake,
    a_poison_message_is_set_aside,
    an_interrupt_reaches_the_run_and_goes_first,
    an_interrupt_outlives_the_worker,
    a_terminated_run_cannot_commit,
    priorities_then_time,
    a_timer_outlives_the_worker_that_it_woke,
    the_clock_is_set_back,
    a_named_session_runs_now_but_not_twice,
    many_workers_share_the_work,
    a_run_reports_while_it_goes_on,
    a_flood_is_taken_in_portions,
);

fn start(sessions: &mut Sessions, clock: &mut Clock, text: &str) -> SessionId {
    let id = sessions.create(&clock.header("triage")).unwrap().header.id;
    sessions.append(id, &[clock.input(message(text))], &mut clock.seed()).unwrap();
    id
}

fn claim(sessions: &mut Sessions, clock: &mut Clock, owner: &str) -> Option<ClaimedWake> {
    sessions.claim(ClaimTarget::Due, &worker(owner), &mut clock.seed()).unwrap()
}

fn is_stale(outcome: &Result<impl Sized, SessionError>) -> bool {
    matches!(outcome, Err(SessionError::Refused(SessionRefusal::Stale { .. })))
}

/// How often each input was consumed, as the log alone tells it.
fn consumed(sessions: &mut Sessions, id: SessionId) -> BTreeMap<Seq, usize> {
    let mut counts = BTreeMap::new();
    for event in sessions.events(id, Seq(0), 1_000).unwrap() {
        if let Payload::SpanCompleted { span: CompletedSpan::Wake(end), .. } = event.payload {
            end.consumed.iter().for_each(|seq| *counts.entry(seq).or_default() += 1);
        }
    }
    counts
}

fn a_message_becomes_one_wake_and_one_commit(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = start(sessions, clock, "hello");
    let claimed = claim(sessions, clock, "a").unwrap();
    assert_eq!((claimed.lease.session, claimed.lease.token), (id, 1));
    assert_eq!(claimed.session.state.status, SessionStatus::Running);
    assert_eq!(claim(sessions, clock, "b"), None);
    let context = sessions.context(&claimed.lease, &ContextWindow::default()).unwrap();
    assert_eq!(context.inputs.len(), 1);
    assert_eq!(context.inputs[0].payload, message("hello"));
    let state = sessions.commit(&claimed.lease, &sleeps(), &mut clock.seed()).unwrap();
    assert_eq!((state.status, state.stop_reason), (SessionStatus::Idle, StopReason::EndTurn));
    assert!(state.pending.is_empty());
    assert_eq!(sessions.session(id).unwrap().state, state);
    assert_eq!(claim(sessions, clock, "b"), None);
    let kinds: Vec<&str> =
        sessions.events(id, Seq(0), 100).unwrap().iter().map(|event| event.payload.kind()).collect();
    assert_eq!(
        kinds,
        [
            "user.message",
            "span.started",
            "session.status_changed",
            "agent.message",
            "span.completed",
            "session.status_idle"
        ]
    );
}

fn nothing_is_consumed_before_the_commit(place: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = start(sessions, clock, "hello");
    let first = claim(sessions, clock, "a").unwrap();
    clock.pass_ms(60_001);
    let second = claim(&mut place.open(), clock, "b").unwrap();
    assert_eq!(second.lease.wake, first.lease.wake, "the same wake, so that effects can be told apart");
    let context = sessions.context(&second.lease, &ContextWindow::default()).unwrap();
    assert_eq!(context.inputs[0].payload, message("hello"));
    assert_eq!(context.wake.attempt, 2);
    sessions.commit(&second.lease, &sleeps(), &mut clock.seed()).unwrap();
    assert_eq!(consumed(sessions, id), BTreeMap::from([(Seq(1), 1)]));
}

fn a_lost_lease_can_do_no_harm(place: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = start(sessions, clock, "hello");
    let old = claim(sessions, clock, "a").unwrap().lease;
    clock.pass_ms(60_001);
    let new = claim(&mut place.open(), clock, "b").unwrap().lease;
    assert!(new.token > old.token);
    let mut commit = sleeps();
    let file = MemoryFile { name: "notes.md".to_owned(), content: "from the past".to_owned() };
    commit.memory.push(MemoryWrite { author: MemoryAuthor::Agent, file });
    assert!(is_stale(&sessions.commit(&old, &commit, &mut clock.seed())));
    assert!(is_stale(&sessions.renew(&old, &worker("a"), clock.now())));
    assert!(is_stale(&sessions.report(&old, &[], &mut clock.seed())));
    assert!(is_stale(&sessions.is_interrupted(&old)));
    assert!(is_stale(&sessions.context(&old, &ContextWindow::default())));
    assert_eq!(sessions.memory(id).unwrap(), []);
    sessions.commit(&new, &sleeps(), &mut clock.seed()).unwrap();
    let head = sessions.commit(&new, &sleeps(), &mut clock.seed()).unwrap().head;
    assert_eq!(sessions.session(id).unwrap().state.head, head, "a commit that is repeated writes nothing");
    let replies = sessions.events(id, Seq(0), 100).unwrap();
    let replies = replies.iter().filter(|event| event.payload.kind() == "agent.message").count();
    assert_eq!(replies, 1);
}

fn a_late_worker_whose_place_nobody_took_may_commit(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    start(sessions, clock, "hello");
    let lease = claim(sessions, clock, "a").unwrap().lease;
    clock.pass_ms(3_600_000);
    let state = sessions.commit(&lease, &sleeps(), &mut clock.seed()).unwrap();
    assert_eq!(state.status, SessionStatus::Idle);
}

fn a_message_that_comes_meanwhile_waits_for_the_next_wake(
    _: &Place,
    sessions: &mut Sessions,
    clock: &mut Clock,
) {
    let id = start(sessions, clock, "one");
    let lease = claim(sessions, clock, "a").unwrap().lease;
    sessions.append(id, &[clock.input(message("two"))], &mut clock.seed()).unwrap();
    assert_eq!(claim(sessions, clock, "b"), None, "the session is held");
    let state = sessions.commit(&lease, &sleeps(), &mut clock.seed()).unwrap();
    assert_eq!((state.status, state.stop_reason), (SessionStatus::Rescheduling, StopReason::Rescheduled));
    let next = claim(sessions, clock, "a").unwrap().lease;
    assert_ne!(next.wake, lease.wake);
    let context = sessions.context(&next, &ContextWindow::default()).unwrap();
    assert_eq!(context.inputs.len(), 1);
    assert_eq!(context.inputs[0].payload, message("two"));
}

fn a_poison_message_is_set_aside(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = start(sessions, clock, "poison");
    let attempts = SessionLimits::default().attempts;
    for attempt in 1..=attempts {
        let claimed = claim(sessions, clock, "a").unwrap();
        assert_eq!(claimed.session.state.wake.unwrap().attempt, attempt);
        clock.pass_ms(60_001);
    }
    clock.pass_ms(86_400_000);
    let other = start(sessions, clock, "good");
    let next = claim(sessions, clock, "a").unwrap();
    assert_eq!(next.lease.session, other, "the poisoned session is given up in passing");
    let state = sessions.session(id).unwrap().state;
    assert_eq!((state.status, state.stop_reason), (SessionStatus::Idle, StopReason::Error));
    assert_eq!(consumed(sessions, id), BTreeMap::from([(Seq(1), 1)]));
    assert_eq!(state.dead.iter().collect::<Vec<_>>(), [Seq(1)], "it is a dead letter");
    let errors =
        sessions.events(id, Seq(0), 100).unwrap().into_iter().filter_map(|event| match event.payload {
            Payload::SessionError { class, attempt, retry_at_ms, .. } => {
                Some((class, attempt, retry_at_ms.is_some()))
            }
            _ => None,
        });
    let expected = (1..=attempts).map(|attempt| (ErrorClass::Lost, attempt, attempt < attempts));
    assert!(errors.eq(expected));
    sessions.append(id, &[clock.input(message("fresh"))], &mut clock.seed()).unwrap();
    assert_eq!(claim(sessions, clock, "a").unwrap().session.state.wake.unwrap().attempt, 1);
}

fn an_interrupt_reaches_the_run_and_goes_first(place: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = start(sessions, clock, "work for hours");
    let lease = claim(sessions, clock, "a").unwrap().lease;
    assert!(!sessions.renew(&lease, &worker("a"), clock.now()).unwrap().interrupted);
    assert!(!sessions.is_interrupted(&lease).unwrap());
    let seed = &mut clock.seed();
    place.open().append(id, &[clock.input(message("and then?"))], seed).unwrap();
    place.open().append(id, &[clock.input(interrupt())], seed).unwrap();
    assert!(sessions.renew(&lease, &worker("a"), clock.now()).unwrap().interrupted);
    assert!(sessions.is_interrupted(&lease).unwrap());
    let state = sessions.commit(&lease, &ending(WakeEnding::Interrupted), &mut clock.seed()).unwrap();
    assert_eq!((state.status, state.stop_reason), (SessionStatus::Rescheduling, StopReason::Interrupted));
    assert_eq!(consumed(sessions, id).len(), 2, "what it worked on, and the interrupt");
    let next = claim(sessions, clock, "a").unwrap().lease;
    let context = sessions.context(&next, &ContextWindow::default()).unwrap();
    assert_eq!(context.inputs.len(), 1);
    assert_eq!(context.inputs[0].payload, message("and then?"));
}

fn an_interrupt_outlives_the_worker(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = start(sessions, clock, "work");
    claim(sessions, clock, "a").unwrap();
    sessions.append(id, &[clock.input(interrupt())], &mut clock.seed()).unwrap();
    clock.pass_ms(60_001);
    assert_eq!(claim(sessions, clock, "b"), None, "nothing is left to do");
    let state = sessions.session(id).unwrap().state;
    assert_eq!((state.status, state.stop_reason), (SessionStatus::Idle, StopReason::Interrupted));
    assert!(state.interrupts.is_empty() && state.pending.is_empty());
    assert_eq!(claim(sessions, clock, "b"), None);
}

fn a_terminated_run_cannot_commit(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = start(sessions, clock, "work");
    let lease = claim(sessions, clock, "a").unwrap().lease;
    let state = sessions.terminate(id, "enough", &mut clock.seed()).unwrap();
    assert_eq!((state.status, state.stop_reason), (SessionStatus::Terminated, StopReason::Terminated));
    assert!(is_stale(&sessions.renew(&lease, &worker("a"), clock.now())));
    assert!(is_stale(&sessions.commit(&lease, &sleeps(), &mut clock.seed())));
    clock.pass_ms(10_000_000);
    assert_eq!(claim(sessions, clock, "b"), None);
    let refused = sessions.claim(ClaimTarget::Session(id), &worker("b"), &mut clock.seed());
    assert!(matches!(refused, Err(SessionError::Refused(SessionRefusal::Terminated))));
}

fn queue(sessions: &mut Sessions, clock: &mut Clock, delay_ms: i64, priority: WakePriority) -> SessionId {
    let id = sessions.create(&clock.header("triage")).unwrap().header.id;
    let wake = QueuedWake {
        id: WakeId::generate(&mut clock.seed()),
        due_ms: Timestamp(clock.now_ms + delay_ms),
        reason: "look".to_owned(),
        note: None,
        dedupe_key: None,
        priority,
        cron: None,
    };
    sessions.queue_wake(id, &wake, &mut clock.seed()).unwrap();
    id
}

fn priorities_then_time(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let low = queue(sessions, clock, 10, WakePriority::Low);
    let late = queue(sessions, clock, 90, WakePriority::Normal);
    let normal = queue(sessions, clock, 50, WakePriority::Normal);
    let high = queue(sessions, clock, 80, WakePriority::High);
    let future = queue(sessions, clock, 5_000, WakePriority::High);
    assert_eq!(sessions.survey().unwrap().next_due, Some(Timestamp(clock.now_ms + 10)));
    assert_eq!(claim(sessions, clock, "a"), None);
    clock.pass_ms(100);
    let message = start(sessions, clock, "now");
    // An input is due at any time. Wakes are due by the store's own clock, which this test does not set.
    assert!(sessions.count_due().unwrap() >= 1);
    let mut order = Vec::new();
    while let Some(claimed) = claim(sessions, clock, "a") {
        order.push(claimed.lease.session);
        sessions.commit(&claimed.lease, &sleeps(), &mut clock.seed()).unwrap();
    }
    assert_eq!(order, [message, high, normal, late, low]);
    assert_eq!(sessions.survey().unwrap().next_due, Some(Timestamp(clock.now_ms + 4_900)));
    assert_eq!(sessions.session(future).unwrap().state.status, SessionStatus::Rescheduling);
}

fn a_timer_outlives_the_worker_that_it_woke(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = queue(sessions, clock, 10, WakePriority::Normal);
    clock.pass_ms(20);
    let lost = claim(sessions, clock, "a").unwrap();
    assert_eq!(
        sessions.session(id).unwrap().state.wakes.len(),
        1,
        "it is consumed by the commit, not by the claim"
    );
    assert_eq!(claim(sessions, clock, "b"), None, "it is held");
    clock.pass_ms(60_001);
    let taken = claim(sessions, clock, "b").unwrap();
    assert_eq!((taken.lease.session, taken.lease.wake), (id, lost.lease.wake), "the same wake, once more");
    sessions.commit(&taken.lease, &sleeps(), &mut clock.seed()).unwrap();
    let state = sessions.session(id).unwrap().state;
    assert_eq!((state.wakes.len(), state.status), (0, SessionStatus::Idle));
}

fn the_clock_is_set_back(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    const YEAR_MS: i64 = 31_536_000_000;
    let held = start(sessions, clock, "held");
    let lease = claim(sessions, clock, "a").unwrap().lease;
    let retried = start(sessions, clock, "retried");
    let failing = claim(sessions, clock, "a").unwrap().lease;
    let transient = WakeEnding::Failed { class: FailureClass::Transient, message: "busy".to_owned() };
    sessions.commit(&failing, &ending(transient), &mut clock.seed()).unwrap();
    let waiting = start(sessions, clock, "waiting");
    clock.pass_ms(-YEAR_MS);
    let mut found = Vec::new();
    while let Some(claimed) = claim(sessions, clock, "b") {
        found.push(claimed.lease.session);
    }
    found.sort();
    let mut expected = [held, retried, waiting];
    expected.sort();
    assert_eq!(found, expected, "nothing waits for a year");
    assert!(is_stale(&sessions.commit(&lease, &sleeps(), &mut clock.seed())));
    clock.pass_ms(2 * YEAR_MS);
    assert!(claim(sessions, clock, "c").is_some(), "a clock set forward only ends leases early");
}

fn a_named_session_runs_now_but_not_twice(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = sessions.create(&clock.header("triage")).unwrap().header.id;
    let claimed = sessions.claim(ClaimTarget::Session(id), &worker("a"), &mut clock.seed()).unwrap().unwrap();
    assert!(claimed.session.state.wake.as_ref().unwrap().inputs.is_empty());
    let refused = sessions.claim(ClaimTarget::Session(id), &worker("b"), &mut clock.seed());
    assert!(matches!(refused, Err(SessionError::Refused(SessionRefusal::Leased { .. }))));
    sessions.commit(&claimed.lease, &sleeps(), &mut clock.seed()).unwrap();
    let unknown = SessionId::generate(&mut clock.seed());
    let refused = sessions.claim(ClaimTarget::Session(unknown), &worker("b"), &mut clock.seed());
    assert!(matches!(refused, Err(SessionError::NoSession(_))));
}

fn many_workers_share_the_work(place: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let ids: Vec<SessionId> = (0..40).map(|number| start(sessions, clock, &number.to_string())).collect();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                let mut sessions = place.open();
                let mut clock = Clock::new(200 + thread);
                while let Some(claimed) = claim(&mut sessions, &mut clock, &thread.to_string()) {
                    sessions.commit(&claimed.lease, &sleeps(), &mut clock.seed()).unwrap();
                }
            });
        }
    });
    for id in ids {
        assert_eq!(consumed(sessions, id), BTreeMap::from([(Seq(1), 1)]));
        assert_eq!(sessions.session(id).unwrap().state.token, 1, "claimed once");
    }
}

fn a_run_reports_while_it_goes_on(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = start(sessions, clock, "work");
    let lease = claim(sessions, clock, "a").unwrap().lease;
    let attached = Payload::RunAttached { run_id: "run-1".to_owned(), digest: None };
    sessions.report(&lease, &reports(clock, &[attached]), &mut clock.seed()).unwrap();
    let events = sessions.events(id, Seq(3), 10).unwrap();
    assert_eq!((events[0].payload.kind(), events[0].wake_id), ("run.attached", Some(lease.wake)));
    let refused =
        sessions.report(&lease, &reports(clock, &[message("as if from outside")]), &mut clock.seed());
    assert!(matches!(refused, Err(SessionError::Refused(SessionRefusal::NotAReport { .. }))));
    let state = sessions.commit(&lease, &sleeps(), &mut clock.seed()).unwrap();
    assert_eq!(state.last_run, Some(Seq(4)));
}

fn a_flood_is_taken_in_portions(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = sessions.create(&clock.header("triage")).unwrap().header.id;
    let portion = SessionLimits::default().inputs_per_wake;
    let inputs: Vec<_> = (0..portion + 5).map(|number| clock.input(message(&number.to_string()))).collect();
    sessions.append(id, &inputs, &mut clock.seed()).unwrap();
    for expected in [portion, 5] {
        let claimed = claim(sessions, clock, "a").unwrap();
        let context = sessions.context(&claimed.lease, &ContextWindow::default()).unwrap();
        assert_eq!(context.inputs.len(), expected);
        let waiting: SeqSet = claimed.session.state.pending;
        assert!(context.history.iter().all(|event| !waiting.contains(event.seq)));
        sessions.commit(&claimed.lease, &sleeps(), &mut clock.seed()).unwrap();
    }
    assert_eq!(consumed(sessions, id).values().filter(|count| **count == 1).count(), portion + 5);
    let lost = sessions.events(id, Seq(0), 1_000).unwrap();
    assert!(lost.iter().all(|event| !matches!(
        event.payload,
        Payload::SpanCompleted { result: SpanResult::Lost, .. }
            | Payload::SpanStarted { span: StartedSpan::Tool, .. }
    )));
    let worker = LeaseTerms { owner: "x".to_owned(), lease_ms: u64::MAX };
    let bounded = sessions.claim(ClaimTarget::Session(id), &worker, &mut clock.seed()).unwrap().unwrap();
    let longest = Timestamp(clock.now_ms).plus_ms(SessionLimits::default().lease_ms);
    assert_eq!(bounded.lease.until_ms, longest, "no lease is endless");
}
