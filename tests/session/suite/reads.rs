//! Reads: by cursor, resumable, bounded whatever the log's length.

use std::thread;
use std::time::{Duration, Instant};

use super::{Place, over_stores};
use crate::fixture::{Clock, message, sleeps, worker};
use session::{
    ClaimTarget, ContextWindow, ListFilter, ListedSession, QueuedWake, Seq, SessionHeader, SessionId,
    SessionStatus, Sessions, Timestamp, WakeId, WakePriority,
};

over_stores!(
    pages_join_without_gaps,
    a_stream_resumes_where_it_stopped,
    a_stream_that_nothing_comes_from_ends,
    sessions_are_listed_by_page,
    sessions_are_listed_by_what_people_look_for,
    the_context_is_the_end_of_the_log,
    the_context_is_bounded_in_bytes,
);

fn create(sessions: &mut Sessions, clock: &mut Clock) -> SessionId {
    sessions.create(&clock.header("triage")).unwrap().header.id
}

fn send(sessions: &mut Sessions, clock: &mut Clock, id: SessionId, count: usize) {
    let inputs: Vec<_> =
        (0..count).map(|number| clock.input(message(&format!("message {number}")))).collect();
    sessions.append(id, &inputs, &mut clock.seed()).unwrap();
}

fn pages_join_without_gaps(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = create(sessions, clock);
    send(sessions, clock, id, 25);
    let mut after = Seq(0);
    let mut seen = Vec::new();
    loop {
        let page = sessions.events(id, after, 10).unwrap();
        let Some(last) = page.last() else { break };
        after = last.seq;
        seen.extend(page.iter().map(|event| event.seq.0));
    }
    assert_eq!(seen, (1..=25).collect::<Vec<_>>());
    assert_eq!(sessions.events(id, Seq(25), 10).unwrap(), []);
    assert_eq!(sessions.events(id, Seq(u64::MAX), 10).unwrap(), []);
}

fn a_stream_resumes_where_it_stopped(place: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = create(sessions, clock);
    let seen = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut seen = Vec::new();
            let mut after = Seq(0);
            // A new connection every few pages: what a client that lost its connection does.
            while seen.len() < 60 {
                let mut sessions = place.open();
                for _ in 0..3 {
                    let page = sessions.follow(id, after, 7, Duration::from_secs(20)).unwrap();
                    after = page.last().map_or(after, |event| event.seq);
                    seen.extend(page.iter().map(|event| event.seq.0));
                }
            }
            seen
        });
        for _ in 0..30 {
            thread::sleep(Duration::from_millis(2));
            send(sessions, clock, id, 2);
        }
        // The reader may begin one more round than there is to read.
        while !reader.is_finished() {
            thread::sleep(Duration::from_millis(10));
            send(sessions, clock, id, 1);
        }
        reader.join().unwrap()
    });
    let expected: Vec<u64> = (1..=seen.len() as u64).collect();
    assert_eq!(seen, expected);
}

fn a_stream_that_nothing_comes_from_ends(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = create(sessions, clock);
    let start = Instant::now();
    assert_eq!(sessions.follow(id, Seq(0), 10, Duration::from_millis(60)).unwrap(), []);
    let elapsed = start.elapsed();
    assert!(elapsed >= Duration::from_millis(60) && elapsed < Duration::from_secs(5), "{elapsed:?}");
}

fn sessions_are_listed_by_page(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let mut ids: Vec<SessionId> = (0..7).map(|_| create(sessions, clock)).collect();
    let other = sessions.create(&clock.header("other")).unwrap().header.id;
    ids.sort();
    let mut seen = Vec::new();
    while let Some(last) = sessions.list(Some("triage"), seen.last().copied(), 3).unwrap().last() {
        let page = sessions.list(Some("triage"), seen.last().copied(), 3).unwrap();
        assert_eq!(page.last(), Some(last));
        seen.extend(page.iter().map(ListedSession::id));
    }
    assert_eq!(seen, ids);
    let all = sessions.list(None, None, 100).unwrap();
    assert_eq!(all.len(), 8);
    assert!(all.iter().any(|listed| listed.id() == other));
}

fn sessions_are_listed_by_what_people_look_for(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let make = |sessions: &mut Sessions, clock: &mut Clock, repository: &str| {
        let header = SessionHeader { repository: Some(repository.to_owned()), ..clock.header("triage") };
        sessions.create(&header).unwrap().header.id
    };
    let idle = make(sessions, clock, "example.com/a");
    let over = make(sessions, clock, "example.com/a");
    let waiting = make(sessions, clock, "example.com/b");
    let held = make(sessions, clock, "example.com/b");
    sessions.terminate(over, "over", &mut clock.seed()).unwrap();
    let wake = QueuedWake {
        id: WakeId::generate(&mut clock.seed()),
        due_ms: Timestamp(clock.now_ms + 3_600_000),
        reason: "later: \"wakes\":[], \"status\":\"idle\"".to_owned(),
        note: None,
        dedupe_key: None,
        priority: WakePriority::Normal,
        cron: None,
    };
    sessions.queue_wake(waiting, &wake, &mut clock.seed()).unwrap();
    send(sessions, clock, held, 1);
    sessions.claim(ClaimTarget::Session(held), &worker("a"), &mut clock.seed()).unwrap().unwrap();
    let mut check = |filter: ListFilter<'_>, expected: &[SessionId]| {
        let found = sessions.list_filtered(&filter, None, 10).unwrap();
        let mut expected = expected.to_vec();
        expected.sort();
        assert_eq!(found.iter().map(ListedSession::id).collect::<Vec<_>>(), expected, "{filter:?}");
    };
    let all = ListFilter::default();
    check(all, &[idle, over, waiting, held]);
    check(ListFilter { status: Some(SessionStatus::Idle), ..all }, &[idle]);
    check(ListFilter { status: Some(SessionStatus::Terminated), ..all }, &[over]);
    check(ListFilter { status: Some(SessionStatus::Rescheduling), ..all }, &[waiting]);
    check(ListFilter { status: Some(SessionStatus::Running), ..all }, &[held]);
    check(ListFilter { status: Some(SessionStatus::RequiresAction), ..all }, &[]);
    check(ListFilter { repository: Some("example.com/b"), ..all }, &[waiting, held]);
    check(ListFilter { has_work: true, ..all }, &[waiting, held]);
    check(
        ListFilter { repository: Some("example.com/a"), status: Some(SessionStatus::Idle), ..all },
        &[idle],
    );
    check(ListFilter { agent: Some("nobody"), has_work: true, ..all }, &[]);
}

fn the_context_is_the_end_of_the_log(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = create(sessions, clock);
    for _ in 0..40 {
        send(sessions, clock, id, 1);
        let lease = sessions.claim(ClaimTarget::Due, &worker("a"), &mut clock.seed()).unwrap().unwrap().lease;
        sessions.commit(&lease, &sleeps(), &mut clock.seed()).unwrap();
    }
    send(sessions, clock, id, 2);
    let lease = sessions.claim(ClaimTarget::Due, &worker("a"), &mut clock.seed()).unwrap().unwrap().lease;
    let window = ContextWindow { conversation: 10, work: 4, ..ContextWindow::default() };
    let context = sessions.context(&lease, &window).unwrap();
    let numbers = |events: &[session::SessionEvent]| events.iter().map(|e| e.seq.0).collect::<Vec<_>>();
    assert_eq!(numbers(&context.inputs), [241, 242]);
    // Six events per wake: the message and the reply are conversation, the rest is about the work.
    assert_eq!(numbers(&context.history), [211, 214, 217, 220, 223, 226, 229, 232, 235, 238]);
    assert_eq!(numbers(&context.work), [239, 240, 243, 244]);
    assert_eq!(context.last_message.unwrap().seq, Seq(238));
    assert_eq!(context.outcome, None);
}

fn the_context_is_bounded_in_bytes(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = create(sessions, clock);
    for _ in 0..3 {
        sessions.append(id, &[clock.input(message(&"x".repeat(1_000)))], &mut clock.seed()).unwrap();
        let lease = sessions.claim(ClaimTarget::Due, &worker("a"), &mut clock.seed()).unwrap().unwrap().lease;
        sessions.commit(&lease, &sleeps(), &mut clock.seed()).unwrap();
    }
    send(sessions, clock, id, 1);
    let lease = sessions.claim(ClaimTarget::Due, &worker("a"), &mut clock.seed()).unwrap().unwrap().lease;
    let window = ContextWindow { bytes: 2_500, ..ContextWindow::default() };
    let context = sessions.context(&lease, &window).unwrap();
    let longest = context.history.iter().filter(|event| event.payload.kind() == "user.message").count();
    assert_eq!(longest, 2, "the oldest message does not fit");
}
