//! Bundles: a session carried from one store to another, and every way in which one may be spoilt.

use std::io::BufReader;

use serde_json::json;

use super::{Place, over_stores};
use crate::fixture::{Clock, directive, ending, message, worker};
use session::{
    Attachment, ClaimTarget, ContextWindow, ImportTerms, ImportedSession, MemoryAuthor, MemoryFile,
    MemoryWrite, Seq, Session, SessionError, SessionHeader, SessionId, SessionRefusal, SessionStatus,
    Sessions, WakeCommit, WakeEnding,
};

over_stores!(a_session_moves_house, a_spoilt_bundle_changes_nothing, a_running_session_is_taken_up_elsewhere);

/// A session with everything in it, that pauses.
fn furnished(sessions: &mut Sessions, clock: &mut Clock, agent: &str) -> SessionId {
    let id = sessions.create(&clock.header(agent)).unwrap().header.id;
    sessions.append(id, &[clock.input(message("deploy"))], &mut clock.seed()).unwrap();
    let lease = sessions.claim(ClaimTarget::Due, &worker("a"), &mut clock.seed()).unwrap().unwrap().lease;
    let says = json!({"response": "ok", "summary": "s", "outcome": "sleep",
        "queued_wakes": [{"reason": "look", "delay_seconds": 60}],
        "learnings": [{"kind": "lesson", "title": "t", "detail": "d"}],
        "custom_tools": [{"name": "deploy", "input": {"v": 1}}]});
    let file = MemoryFile { name: "working-buffer.md".to_owned(), content: "half way".to_owned() };
    let memory = vec![MemoryWrite { author: MemoryAuthor::Agent, file }];
    let commit = WakeCommit { memory, ..ending(WakeEnding::Directive(directive(&says))) };
    sessions.commit(&lease, &commit, &mut clock.seed()).unwrap();
    id
}

fn export(sessions: &mut Sessions, id: SessionId) -> String {
    let mut bytes = Vec::new();
    let transcript = Attachment { name: "run-1/transcript.jsonl".to_owned(), content: "{}\n".to_owned() };
    sessions.export(id, &mut [transcript].into_iter(), &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// The session as an import leaves it: the same, but marked.
fn marked(session: &Session) -> Session {
    Session { header: SessionHeader { imported: true, ..session.header.clone() }, ..session.clone() }
}

/// Another store, as another machine has it.
fn elsewhere(test: impl FnOnce(&mut Sessions)) {
    let directory = crate::fixture::Directory::new();
    let store = session::SqliteStore::open(&directory.database()).unwrap();
    test(&mut Sessions::new(Box::new(store), session::SessionLimits::default()));
}

fn a_session_moves_house(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = furnished(sessions, clock, "triage");
    let bundle = export(sessions, id);
    let original = sessions.session(id).unwrap();
    let events = sessions.events(id, Seq(0), 1_000).unwrap();
    elsewhere(|there| {
        let ImportedSession { session, attachments, .. } =
            there.import(&mut BufReader::new(bundle.as_bytes()), &ImportTerms::default()).unwrap();
        assert_eq!(session, marked(&original));
        assert_eq!(attachments[0].name, "run-1/transcript.jsonl");
        assert_eq!(there.events(id, Seq(0), 1_000).unwrap(), events);
        assert_eq!(there.memory(id).unwrap()[0].content, "half way");
        assert_eq!(there.learnings(None, "triage", 10).unwrap().len(), 1);
        assert_eq!(export(there, id), bundle, "and back again, byte for byte");
        let again = there.import(&mut BufReader::new(bundle.as_bytes()), &ImportTerms::default());
        assert!(matches!(again, Err(SessionError::Refused(SessionRefusal::Exists))));
    });
    // It came to the same place from elsewhere: what the suite's own store exports, it also imports.
    elsewhere(|there| {
        let other = furnished(there, &mut Clock::new(77), "porter");
        let bundle = export(there, other);
        let ImportedSession { session, .. } =
            sessions.import(&mut BufReader::new(bundle.as_bytes()), &ImportTerms::default()).unwrap();
        assert_eq!(session, marked(&there.session(other).unwrap()));
        assert_eq!(export(sessions, other), bundle);
    });
}

fn a_spoilt_bundle_changes_nothing(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let mut made = String::new();
    let mut id = None;
    elsewhere(|there| {
        id = Some(furnished(there, clock, "triage"));
        made = export(there, id.unwrap());
    });
    let lines: Vec<&str> = made.lines().collect();
    let without = |at: usize| {
        let kept = lines.iter().enumerate().filter(|(line, _)| *line != at).map(|(_, line)| *line);
        kept.fold(String::new(), |text, line| text + line + "\n")
    };
    let mut spoilt: Vec<(String, String)> =
        (0..lines.len()).map(|at| (format!("without line {at}"), without(at))).collect();
    for (from, to) in [
        ("deploy", "destroy"),
        ("half way", "all done"),
        ("\"version\":3", "\"version\":9"),
        ("\"head\":", "\"head\":1"),
        ("\"seq\":3", "\"seq\":4"),
        ("transcript", "transcribed"),
        ("user.message", "user.massage"),
        ("working-buffer.md", "../../escape.md"),
    ] {
        spoilt.push((format!("{from} became {to}"), made.replacen(from, to, 1)));
    }
    spoilt.push(("cut in the middle".to_owned(), made[..made.len() / 2].to_owned()));
    spoilt.push(("empty".to_owned(), String::new()));
    spoilt.push(("an endless line".to_owned(), "x".repeat(17 << 20)));
    for (what, text) in spoilt {
        let refused = sessions.import(&mut BufReader::new(text.as_bytes()), &ImportTerms::default());
        assert!(matches!(refused, Err(SessionError::Refused(_))), "{what}: {refused:?}");
        assert!(matches!(sessions.session(id.unwrap()), Err(SessionError::NoSession(_))), "{what}");
    }
    assert_eq!(sessions.learnings(None, "triage", 10).unwrap(), []);
    sessions.import(&mut BufReader::new(made.as_bytes()), &ImportTerms::default()).unwrap();
}

fn a_running_session_is_taken_up_elsewhere(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let mut bundle = String::new();
    let mut lost = None;
    elsewhere(|there| {
        let id = there.create(&clock.header("triage")).unwrap().header.id;
        there.append(id, &[clock.input(message("hello"))], &mut clock.seed()).unwrap();
        lost = there.claim(ClaimTarget::Due, &worker("vanished"), &mut clock.seed()).unwrap();
        bundle = export(there, id);
    });
    let lost = lost.unwrap().lease;
    let ImportedSession { session, .. } =
        sessions.import(&mut BufReader::new(bundle.as_bytes()), &ImportTerms::default()).unwrap();
    assert_eq!((session.state.status, session.holder), (SessionStatus::Running, None));
    let claimed = sessions.claim(ClaimTarget::Due, &worker("b"), &mut clock.seed()).unwrap().unwrap();
    assert_eq!(claimed.lease.wake, lost.wake);
    let context = sessions.context(&claimed.lease, &ContextWindow::default()).unwrap();
    assert_eq!(context.inputs[0].payload, message("hello"));
}
