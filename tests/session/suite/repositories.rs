//! Sessions belong to a repository: claims, learnings, imports and freezing.

use std::io::BufReader;

use serde_json::json;

use super::{Place, over_stores};
use crate::fixture::{Clock, directive, ending, message, worker};
use session::{
    ClaimFilter, ClaimTarget, ImportTerms, ResourceAccess, Seq, SessionEnvironment, SessionError,
    SessionHeader, SessionId, SessionRefusal, SessionResource, SessionStatus, Sessions, Sha256Digest,
    SqliteStore, WakeEnding,
};

over_stores!(
    a_worker_claims_what_its_filter_accepts,
    a_worker_claims_repositories_by_the_start_of_their_names,
    a_skipped_session_is_left_to_others,
    learnings_stay_in_their_repository,
    an_import_brings_no_path_of_the_host,
    a_frozen_session_goes_on_in_its_copy_only,
);

fn create(sessions: &mut Sessions, clock: &mut Clock, repository: Option<&str>, agent: &str) -> SessionId {
    let header = SessionHeader { repository: repository.map(str::to_owned), ..clock.header(agent) };
    let id = sessions.create(&header).unwrap().header.id;
    sessions.append(id, &[clock.input(message("hello"))], &mut clock.seed()).unwrap();
    id
}

fn filter(repository: &str) -> ClaimFilter {
    ClaimFilter { repository: Some(repository.to_owned()), ..ClaimFilter::default() }
}

fn claims(sessions: &mut Sessions, clock: &mut Clock, filter: &ClaimFilter) -> Vec<SessionId> {
    let mut claimed = Vec::new();
    let target = ClaimTarget::Matching(filter);
    while let Some(wake) = sessions.claim(target, &worker("a"), &mut clock.seed()).unwrap() {
        claimed.push(wake.lease.session);
    }
    claimed.sort();
    claimed
}

fn a_worker_claims_what_its_filter_accepts(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let ours = create(sessions, clock, Some("host/a"), "triage");
    let theirs = create(sessions, clock, Some("host/b"), "triage");
    let other_agent = create(sessions, clock, Some("host/a"), "review");
    let of_none = create(sessions, clock, None, "triage");
    let triage = ClaimFilter { agent: Some("triage".to_owned()), ..filter("host/a") };
    let now = clock.now();
    assert_eq!(sessions.find_due(&triage, now).unwrap().map(|session| session.header.id), Some(ours));
    let mut expected = vec![ours, of_none];
    expected.sort();
    assert_eq!(claims(sessions, clock, &triage), expected);
    assert_eq!(claims(sessions, clock, &filter("host/c")), []);
    assert_eq!(claims(sessions, clock, &filter("host/a")), [other_agent]);
    assert_eq!(claims(sessions, clock, &filter("host/b")), [theirs]);
}

fn a_worker_claims_repositories_by_the_start_of_their_names(
    _: &Place,
    sessions: &mut Sessions,
    clock: &mut Clock,
) {
    let mut created = Vec::new();
    for repository in ["host/a/x", "host/b/y//api", "host/ab/z", "host/c_d/w", "host/cXd/w"] {
        created.push(create(sessions, clock, Some(repository), "triage"));
    }
    let of_none = create(sessions, clock, None, "triage");
    let prefixes = |starts: &[&str]| ClaimFilter {
        repository_prefixes: Some(starts.iter().map(|start| (*start).to_owned()).collect()),
        ..ClaimFilter::default()
    };
    assert_eq!(claims(sessions, clock, &prefixes(&[])), []);
    assert_eq!(claims(sessions, clock, &prefixes(&["other/", "host/%/"])), []);
    assert_eq!(claims(sessions, clock, &prefixes(&["host/c_d/"])), [created[3]]);
    let mut expected = vec![created[0], created[1]];
    expected.sort();
    assert_eq!(claims(sessions, clock, &prefixes(&["host/a/", "host/b/"])), expected);
    let mut rest = vec![created[2], created[4], of_none];
    rest.sort();
    assert_eq!(claims(sessions, clock, &ClaimFilter::default()), rest);
}

fn a_skipped_session_is_left_to_others(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let one = create(sessions, clock, Some("host/a"), "triage");
    let two = create(sessions, clock, Some("host/a"), "triage");
    let skips = ClaimFilter { skip: vec![one], ..filter("host/a") };
    assert_eq!(claims(sessions, clock, &skips), [two]);
    let state = sessions.session(one).unwrap().state;
    assert_eq!((state.status, state.pending.len()), (SessionStatus::Rescheduling, 1), "nothing was consumed");
    assert_eq!(claims(sessions, clock, &filter("host/a")), [one]);
}

fn learnings_stay_in_their_repository(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    create(sessions, clock, Some("host/a"), "triage");
    let says = json!({"response": "ok", "summary": "s", "outcome": "sleep",
        "learnings": [{"kind": "lesson", "title": "t", "detail": "d"}]});
    let claimed = sessions.claim(ClaimTarget::Due, &worker("a"), &mut clock.seed()).unwrap().unwrap();
    let commit = ending(WakeEnding::Directive(directive(&says)));
    sessions.commit(&claimed.lease, &commit, &mut clock.seed()).unwrap();
    let count =
        |sessions: &mut Sessions, repository| sessions.learnings(repository, "triage", 10).unwrap().len();
    assert_eq!(count(sessions, Some("host/a")), 1);
    assert_eq!(count(sessions, Some("host/b")), 0);
    assert_eq!(count(sessions, None), 0);
}

fn an_import_brings_no_path_of_the_host(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let resource = |id: &str| SessionResource {
        id: id.to_owned(),
        kind: "directory".to_owned(),
        source: format!("/etc/{id}"),
        mount: format!("/sandbox/workspace/resources/{id}"),
        access: ResourceAccess::ReadWrite,
    };
    let environment = SessionEnvironment { id: "lab".to_owned(), digest: Sha256Digest::of(b"lab") };
    let header = SessionHeader {
        resources: vec![resource("ssh"), resource("docs")],
        environment: Some(environment),
        ..clock.header("triage")
    };
    let id = sessions.create(&header).unwrap().header.id;
    let mut bundle = Vec::new();
    sessions.export(id, &mut std::iter::empty(), &mut bundle).unwrap();
    let import = |terms: &ImportTerms| {
        let directory = crate::fixture::Directory::new();
        let store = SqliteStore::open(&directory.database()).unwrap();
        let mut there = Sessions::new(Box::new(store), session::SessionLimits::default());
        there.import(&mut BufReader::new(bundle.as_slice()), terms).unwrap()
    };
    let plain = import(&ImportTerms { repository: Some("host/a".to_owned()), ..ImportTerms::default() });
    let header = &plain.session.header;
    assert!(header.imported && header.resources.is_empty() && header.environment.is_none());
    assert_eq!(header.repository.as_deref(), Some("host/a"));
    assert_eq!(plain.left_out.len(), 3, "{:?}", plain.left_out);
    let chosen = import(&ImportTerms {
        resources: vec!["docs".to_owned()],
        environment: true,
        ..ImportTerms::default()
    });
    let ids: Vec<&str> =
        chosen.session.header.resources.iter().map(|resource| resource.id.as_str()).collect();
    assert_eq!((ids, chosen.left_out.len()), (vec!["docs"], 1));
    assert!(chosen.session.header.environment.is_some());
}

fn a_frozen_session_goes_on_in_its_copy_only(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = create(sessions, clock, None, "triage");
    let head = sessions.export(id, &mut std::iter::empty(), &mut Vec::new()).unwrap();
    assert_eq!(head, Seq(1));
    sessions.append(id, &[clock.input(message("one more"))], &mut clock.seed()).unwrap();
    let refused = sessions.freeze(id, head, &mut clock.seed());
    assert!(matches!(refused, Err(SessionError::Refused(SessionRefusal::Field { what: "head", .. }))));
    let head = sessions.export(id, &mut std::iter::empty(), &mut Vec::new()).unwrap();
    sessions.freeze(id, head, &mut clock.seed()).unwrap();
    assert_eq!(sessions.session(id).unwrap().state.status, SessionStatus::Terminated);
    assert_eq!(sessions.claim(ClaimTarget::Due, &worker("a"), &mut clock.seed()).unwrap(), None);
    let sent = sessions.append(id, &[clock.input(message("late"))], &mut clock.seed());
    assert!(matches!(sent, Err(SessionError::Refused(SessionRefusal::Terminated))));
}
