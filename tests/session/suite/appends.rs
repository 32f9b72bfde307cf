//! Creating and appending: idempotent, all or nothing, refused with a reason.

use super::{Place, over_stores};
use crate::fixture::{Clock, interrupt, message};
use session::{
    EventId, ResourceAccess, Seq, SessionEnvironment, SessionError, SessionHeader, SessionId, SessionInput,
    SessionLimits, SessionRefusal, SessionResource, SessionStatus, Sessions, Sha256Digest,
};

over_stores!(
    the_same_session_is_created_once,
    a_bad_header_is_refused,
    an_append_is_idempotent,
    an_id_belongs_to_what_was_said_with_it,
    an_append_is_all_or_nothing,
    an_unknown_session_is_no_session,
    a_terminated_session_takes_nothing,
    a_duplicate_is_known_even_after_termination,
    two_writers_in_turns_see_each_other,
    appends_of_many_threads_are_all_there,
);

fn the_same_session_is_created_once(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let header = SessionHeader {
        environment: Some(SessionEnvironment { id: "staging".to_owned(), digest: Sha256Digest::of(b"env") }),
        resources: vec![resource("notes", "/notes")],
        ..clock.header("triage")
    };
    let first = sessions.create(&header).unwrap();
    assert_eq!(first.header, header);
    assert_eq!(first.state.status, SessionStatus::Idle);
    sessions.append(header.id, &[clock.input(message("hi"))], &mut clock.seed()).unwrap();
    assert_eq!(sessions.create(&header).unwrap().state.head, Seq(1));
    let other = SessionHeader { agent: "other".to_owned(), ..header };
    assert!(matches!(
        sessions.create(&other),
        Err(SessionError::Refused(SessionRefusal::Field { what: "id", .. }))
    ));
}

fn resource(id: &str, mount: &str) -> SessionResource {
    SessionResource {
        id: id.to_owned(),
        kind: "directory".to_owned(),
        source: "/srv/notes".to_owned(),
        mount: mount.to_owned(),
        access: ResourceAccess::ReadOnly,
    }
}

fn a_bad_header_is_refused(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let good = clock.header("triage");
    let with = |resources| SessionHeader { resources, ..good.clone() };
    let bad = [
        SessionHeader { agent: " ".to_owned(), ..good.clone() },
        SessionHeader { agent: "a\u{0}b".to_owned(), ..good.clone() },
        SessionHeader { agent: "a".repeat(201), ..good.clone() },
        with(vec![resource("a", "/x"), resource("a", "/y")]),
        with(vec![resource("a", "/x"), resource("b", "/x")]),
        with(vec![resource("", "/x")]),
        with((0..65).map(|n| resource(&format!("r{n}"), &format!("/m{n}"))).collect()),
    ];
    for header in bad {
        assert!(matches!(sessions.create(&header), Err(SessionError::Refused(_))), "{header:?}");
    }
    assert!(matches!(sessions.session(good.id), Err(SessionError::NoSession(_))));
}

fn an_append_is_idempotent(place: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = sessions.create(&clock.header("triage")).unwrap().header.id;
    let inputs = [clock.input(message("one")), clock.input(message("two"))];
    let seed = &mut clock.seed();
    assert_eq!(sessions.append(id, &inputs, seed).unwrap(), [Seq(1), Seq(2)]);
    assert_eq!(place.open().append(id, &inputs, seed).unwrap(), [Seq(1), Seq(2)]);
    let third = SessionInput { id: EventId::from_key(id, "delivery-3"), payload: message("three") };
    let mixed = [third.clone(), inputs[1].clone(), third.clone()];
    assert_eq!(sessions.append(id, &mixed, seed).unwrap(), [Seq(3), Seq(2), Seq(3)]);
    assert_eq!(sessions.append(id, &[], seed).unwrap(), []);
    assert_eq!(sessions.events(id, Seq(0), 100).unwrap().len(), 3);
    assert_eq!(sessions.session(id).unwrap().state.pending.len(), 3);
}

fn an_id_belongs_to_what_was_said_with_it(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = sessions.create(&clock.header("triage")).unwrap().header.id;
    let first = clock.input(message("one"));
    let other = SessionInput { payload: message("two"), ..first.clone() };
    sessions.append(id, std::slice::from_ref(&first), &mut clock.seed()).unwrap();
    for inputs in [vec![other.clone()], vec![clock.input(message("x")), other]] {
        let refused = sessions.append(id, &inputs, &mut clock.seed());
        assert!(
            matches!(refused, Err(SessionError::Refused(SessionRefusal::IdReused { id })) if id == first.id)
        );
    }
    assert_eq!(sessions.session(id).unwrap().state.head, Seq(1));
    let elsewhere = sessions.create(&clock.header("triage")).unwrap().header.id;
    assert_eq!(sessions.append(elsewhere, &[first], &mut clock.seed()).unwrap(), [Seq(1)]);
}

fn an_append_is_all_or_nothing(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = sessions.create(&clock.header("triage")).unwrap().header.id;
    let inputs = [clock.input(message("good")), clock.input(message(" "))];
    let refused = sessions.append(id, &inputs, &mut clock.seed());
    assert!(matches!(refused, Err(SessionError::Refused(SessionRefusal::Empty { .. }))));
    assert_eq!(sessions.session(id).unwrap().state.head, Seq(0));
    let limit = SessionLimits::default().events_per_append;
    let many: Vec<SessionInput> = (0..=limit).map(|n| clock.input(message(&n.to_string()))).collect();
    let refused = sessions.append(id, &many, &mut clock.seed());
    assert!(
        matches!(refused, Err(SessionError::Refused(SessionRefusal::TooMany { count, .. })) if count == limit + 1)
    );
    let places = sessions.append(id, &many[..limit], &mut clock.seed()).unwrap();
    assert_eq!(places.last(), Some(&Seq(limit as u64)));
}

fn an_unknown_session_is_no_session(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = SessionId::generate(&mut clock.seed());
    let appended = sessions.append(id, &[clock.input(message("hi"))], &mut clock.seed());
    assert!(matches!(appended, Err(SessionError::NoSession(unknown)) if unknown == id));
    assert!(matches!(sessions.events(id, Seq(0), 10), Err(SessionError::NoSession(_))));
    assert!(matches!(sessions.memory(id), Err(SessionError::NoSession(_))));
    assert!(matches!(sessions.terminate(id, "", &mut clock.seed()), Err(SessionError::NoSession(_))));
}

fn a_terminated_session_takes_nothing(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = sessions.create(&clock.header("triage")).unwrap().header.id;
    let state = sessions.terminate(id, "no longer needed", &mut clock.seed()).unwrap();
    assert_eq!((state.status, state.head), (SessionStatus::Terminated, Seq(1)));
    let again = sessions.terminate(id, "again", &mut clock.seed()).unwrap();
    assert_eq!(again.head, Seq(1), "ending twice is once");
    for payload in [message("hi"), interrupt()] {
        let refused = sessions.append(id, &[clock.input(payload)], &mut clock.seed());
        assert!(matches!(refused, Err(SessionError::Refused(SessionRefusal::Terminated))));
    }
}

fn a_duplicate_is_known_even_after_termination(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = sessions.create(&clock.header("triage")).unwrap().header.id;
    let input = [clock.input(message("hi"))];
    sessions.append(id, &input, &mut clock.seed()).unwrap();
    sessions.terminate(id, "", &mut clock.seed()).unwrap();
    assert_eq!(sessions.append(id, &input, &mut clock.seed()).unwrap(), [Seq(1)]);
}

fn two_writers_in_turns_see_each_other(place: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = sessions.create(&clock.header("triage")).unwrap().header.id;
    let mut other = place.open();
    let mut sent = Vec::new();
    for _ in 0..3 {
        for writer in [&mut *sessions, &mut other] {
            let input = clock.input(message("word"));
            let places = writer.append(id, std::slice::from_ref(&input), &mut clock.seed()).unwrap();
            sent.push(input);
            assert_eq!(places, [Seq(sent.len() as u64)], "after what the other one said");
        }
    }
    let expected: Vec<Seq> = (1..=6).map(Seq).collect();
    assert_eq!(sessions.append(id, &sent, &mut clock.seed()).unwrap(), expected, "sent again it is the same");
    other.terminate(id, "enough", &mut clock.seed()).unwrap();
    let refused = sessions.append(id, &[clock.input(message("more"))], &mut clock.seed());
    assert!(matches!(refused, Err(SessionError::Refused(SessionRefusal::Terminated))), "{refused:?}");
    assert_eq!(sessions.session(id).unwrap().state.pending.len(), 6);
}

fn appends_of_many_threads_are_all_there(place: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = sessions.create(&clock.header("triage")).unwrap().header.id;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                let mut sessions = place.open();
                let mut clock = Clock::new(100 + thread);
                for number in 0..25 {
                    let input = [clock.input(message(&format!("{thread} {number}")))];
                    sessions.append(id, &input, &mut clock.seed()).unwrap();
                }
            });
        }
    });
    let events = sessions.events(id, Seq(0), 1_000).unwrap();
    assert_eq!(events.len(), 100);
    let mut ids: Vec<EventId> = events.iter().map(|event| event.id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 100);
    assert_eq!(sessions.session(id).unwrap().state.pending.len(), 100);
}
