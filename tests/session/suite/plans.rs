//! What a session plans and forgets: `continue`, schedules, memory files, and its own end.

use serde_json::json;

use super::{Place, over_stores};
use crate::fixture::{Clock, directive, ending, message, sleeps, worker};
use session::{
    ClaimTarget, MemoryAuthor, MemoryFile, MemoryWrite, QueuedWake, RemoveTerms, SessionError, SessionId,
    SessionRefusal, SessionState, SessionStatus, Sessions, Timestamp, WakeCommit, WakeEnding, WakeId,
    WakePriority, next_after,
};

over_stores!(
    a_newer_continue_moves_the_older_one,
    sleep_cancels_a_continue,
    a_schedule_comes_again,
    an_interrupt_leaves_schedules,
    a_memory_file_can_be_deleted,
    a_session_is_removed_for_good,
    a_part_of_an_id_finds_the_session,
);

fn start(sessions: &mut Sessions, clock: &mut Clock) -> SessionId {
    let id = sessions.create(&clock.header("triage")).unwrap().header.id;
    send(sessions, clock, id);
    id
}

fn send(sessions: &mut Sessions, clock: &mut Clock, id: SessionId) {
    sessions.append(id, &[clock.input(message("hello"))], &mut clock.seed()).unwrap();
}

fn wake(sessions: &mut Sessions, clock: &mut Clock, commit: &WakeCommit) -> SessionState {
    let claimed = sessions.claim(ClaimTarget::Due, &worker("a"), &mut clock.seed()).unwrap().unwrap();
    sessions.commit(&claimed.lease, commit, &mut clock.seed()).unwrap()
}

fn continues(seconds: u64) -> WakeCommit {
    let value = json!({"summary": "s", "outcome": "continue", "follow_up_seconds": seconds});
    ending(WakeEnding::Directive(directive(&value)))
}

fn a_newer_continue_moves_the_older_one(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = start(sessions, clock);
    wake(sessions, clock, &continues(3_600));
    send(sessions, clock, id);
    let state = wake(sessions, clock, &continues(60));
    let due: Vec<Timestamp> = state.wakes.iter().map(|wake| wake.due_ms).collect();
    assert_eq!(due, [Timestamp(clock.now_ms + 60_000)], "the newest directive decides");
}

fn sleep_cancels_a_continue(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = start(sessions, clock);
    wake(sessions, clock, &continues(3_600));
    send(sessions, clock, id);
    let state = wake(sessions, clock, &sleeps());
    assert_eq!((state.wakes.len(), state.status), (0, SessionStatus::Idle));
}

fn schedule(sessions: &mut Sessions, clock: &mut Clock, id: SessionId, cron: &str) {
    let wake = QueuedWake {
        id: WakeId::generate(&mut clock.seed()),
        due_ms: next_after(cron, clock.now()).unwrap(),
        reason: "every hour".to_owned(),
        note: None,
        dedupe_key: None,
        priority: WakePriority::Normal,
        cron: Some(cron.to_owned()),
    };
    sessions.queue_wake(id, &wake, &mut clock.seed()).unwrap();
}

fn a_schedule_comes_again(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = sessions.create(&clock.header("triage")).unwrap().header.id;
    schedule(sessions, clock, id, "0 * * * *");
    for _ in 0..3 {
        assert_eq!(sessions.claim(ClaimTarget::Due, &worker("a"), &mut clock.seed()).unwrap(), None);
        let due = sessions.session(id).unwrap().state.wakes[0].due_ms;
        clock.now_ms = due.0 + 5_000;
        let state = wake(sessions, clock, &sleeps());
        let next: Vec<Timestamp> = state.wakes.iter().map(|wake| wake.due_ms).collect();
        assert_eq!(next, [Timestamp(due.0 + 3_600_000)]);
    }
    // A wake for something else leaves the schedule where it is.
    send(sessions, clock, id);
    let before = sessions.session(id).unwrap().state.wakes;
    assert_eq!(wake(sessions, clock, &sleeps()).wakes, before);
}

fn an_interrupt_leaves_schedules(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = start(sessions, clock);
    wake(sessions, clock, &continues(3_600));
    schedule(sessions, clock, id, "0 9 * * 1");
    sessions.append(id, &[clock.input(crate::fixture::interrupt())], &mut clock.seed()).unwrap();
    let wakes = sessions.session(id).unwrap().state.wakes;
    assert_eq!(wakes.iter().map(|wake| wake.cron.is_some()).collect::<Vec<_>>(), [true]);
}

fn a_memory_file_can_be_deleted(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = start(sessions, clock);
    let write = |name: &str| MemoryWrite {
        author: MemoryAuthor::Agent,
        file: MemoryFile { name: name.to_owned(), content: "text".to_owned() },
    };
    wake(sessions, clock, &WakeCommit { memory: vec![write("a.md"), write("b.md")], ..sleeps() });
    send(sessions, clock, id);
    let deleted_memory = vec!["a.md".to_owned(), "never-there.md".to_owned()];
    wake(sessions, clock, &WakeCommit { deleted_memory, ..sleeps() });
    let names: Vec<String> = sessions.memory(id).unwrap().into_iter().map(|file| file.name).collect();
    assert_eq!(names, ["b.md"]);
    let mut bundle = Vec::new();
    sessions.export(id, &mut std::iter::empty(), &mut bundle).unwrap();
    crate::suite::on_sqlite_with(session::SessionLimits::default(), |other| {
        let imported = other.open().import(&mut bundle.as_slice(), &session::ImportTerms::default()).unwrap();
        assert_eq!(imported.session.state.memory.len(), 1, "the log folds to the same files");
    });
}

fn a_session_is_removed_for_good(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = start(sessions, clock);
    let other = start(sessions, clock);
    let refused = sessions.remove(id, RemoveTerms::Terminated);
    assert!(matches!(refused, Err(SessionError::Refused(SessionRefusal::Field { .. }))), "{refused:?}");
    let held = sessions.claim(ClaimTarget::Session(id), &worker("a"), &mut clock.seed()).unwrap().unwrap();
    let refused = sessions.remove(id, RemoveTerms::Any);
    assert!(matches!(refused, Err(SessionError::Refused(SessionRefusal::Leased { .. }))), "{refused:?}");
    sessions.commit(&held.lease, &sleeps(), &mut clock.seed()).unwrap();
    sessions.remove(id, RemoveTerms::Any).unwrap();
    assert!(matches!(sessions.session(id), Err(SessionError::NoSession(_))));
    assert!(matches!(sessions.remove(id, RemoveTerms::Any), Err(SessionError::NoSession(_))));
    assert_eq!(sessions.session(other).unwrap().state.head.0, 1, "the others stay");
    sessions.terminate(other, "over", &mut clock.seed()).unwrap();
    sessions.remove(other, RemoveTerms::Terminated).unwrap();
    assert_eq!(sessions.list(None, None, 10).unwrap(), []);
}

fn a_part_of_an_id_finds_the_session(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = start(sessions, clock);
    let other = start(sessions, clock);
    let text = id.to_string();
    assert_eq!(sessions.find_ids(&text[28..], 10).unwrap(), [id]);
    assert_eq!(sessions.find_ids(&text[28..].to_uppercase(), 10).unwrap(), [id]);
    assert_eq!(sessions.find_ids(&text[..8], 10).unwrap(), [id, other], "they were made at the same time");
    assert_eq!(sessions.find_ids(&text[..15], 10).unwrap().first(), Some(&id), "with hyphens");
    assert_eq!(sessions.find_ids(&text, 10).unwrap(), [id]);
    assert_eq!(sessions.find_ids("", 10).unwrap(), [id, other]);
    assert_eq!(sessions.find_ids("ffffffffffff", 10).unwrap(), []);
}
