//! What an untrusted bundle must not bring: an environment that its log accepts, an answer to a request that was never
//! shown here, a parent session that gets its result.

use std::io::BufReader;

use serde_json::json;

use super::{Place, over_stores};
use crate::fixture::{Clock, ending, message, reports, worker};
use session::{
    ApprovalDecision, ClaimTarget, ImportTerms, ImportedSession, ParentSession, Payload, RequestId,
    SessionEnvironment, SessionError, SessionHeader, SessionId, SessionRefusal, Sessions, Sha256Digest,
    SqliteStore, ToolRequestRef, WakeCommit, WakeEnding,
};

over_stores!(
    an_environment_that_a_log_accepts_is_not_accepted_here,
    a_call_that_was_confirmed_elsewhere_is_not_confirmed_here,
    a_parent_stays_behind,
);

fn exported(sessions: &mut Sessions, id: SessionId) -> Vec<u8> {
    let mut bundle = Vec::new();
    sessions.export(id, &mut std::iter::empty(), &mut bundle).unwrap();
    bundle
}

fn import(bundle: &[u8], terms: &ImportTerms) -> Result<ImportedSession, SessionError> {
    let directory = crate::fixture::Directory::new();
    let store = SqliteStore::open(&directory.database()).unwrap();
    let mut there = Sessions::new(Box::new(store), session::SessionLimits::default());
    there.import(&mut BufReader::new(bundle), terms)
}

fn an_environment_that_a_log_accepts_is_not_accepted_here(
    _: &Place,
    sessions: &mut Sessions,
    clock: &mut Clock,
) {
    let environment =
        |text: &[u8]| SessionEnvironment { id: "lab".to_owned(), digest: Sha256Digest::of(text) };
    let header = SessionHeader { environment: Some(environment(b"first")), ..clock.header("triage") };
    let id = sessions.create(&header).unwrap().header.id;
    sessions.accept_environment(id, &environment(b"second"), &mut clock.seed()).unwrap();
    let bundle = exported(sessions, id);
    let plain = import(&bundle, &ImportTerms::default()).unwrap().session;
    assert_eq!(plain.environment(), None);
    let accepted = import(&bundle, &ImportTerms { environment: true, ..ImportTerms::default() }).unwrap();
    assert_eq!(accepted.session.environment(), Some(&environment(b"second")));
    // A log that moves a session to an environment that its header does not name.
    let text = String::from_utf8(bundle).unwrap().replacen(r#""id":"lab""#, r#""id":"lib""#, 1);
    let forged =
        import(&sealed(&text), &ImportTerms { environment: true, ..ImportTerms::default() }).unwrap();
    assert_eq!(forged.session.environment().unwrap().id, "lib", "the one that the import showed");
}

/// The bundle with the digest of its lines as they are now.
fn sealed(text: &str) -> Vec<u8> {
    let lines: Vec<&str> = text.lines().collect();
    let (_, body) = lines.split_last().unwrap();
    let body: String = body.iter().flat_map(|line| [line, "\n"]).collect();
    let end = json!({ "record": "end", "digest": Sha256Digest::of(body.as_bytes()) });
    format!("{body}{end}\n").into_bytes()
}

fn a_call_that_was_confirmed_elsewhere_is_not_confirmed_here(
    _: &Place,
    sessions: &mut Sessions,
    clock: &mut Clock,
) {
    let id = sessions.create(&clock.header("triage")).unwrap().header.id;
    sessions.append(id, &[clock.input(message("clean up"))], &mut clock.seed()).unwrap();
    let lease = sessions.claim(ClaimTarget::Due, &worker("a"), &mut clock.seed()).unwrap().unwrap().lease;
    let input = json!({"command": "rm -r everything"});
    let input_digest = Sha256Digest::of_json(&input);
    let request_id = RequestId::generate(&mut clock.seed());
    let question = ToolRequestRef { request_id, input_digest, expires_ms: None };
    let asks = Payload::AgentToolUse {
        tool: "shell".to_owned(),
        input,
        output: None,
        is_error: false,
        confirmation: Some(question),
    };
    let commit = WakeCommit { reports: reports(clock, &[asks]), ..ending(WakeEnding::Paused) };
    sessions.commit(&lease, &commit, &mut clock.seed()).unwrap();
    let asked = import(&exported(sessions, id), &ImportTerms::default()).unwrap();
    assert_eq!(asked.session.state.open_requests().count(), 1, "an open question is asked here");
    let decision = ApprovalDecision::Allow;
    let confirms = Payload::UserToolConfirmation { request_id, input_digest, decision, note: None };
    sessions.append(id, &[clock.input(confirms)], &mut clock.seed()).unwrap();
    let bundle = exported(sessions, id);
    let refused = import(&bundle, &ImportTerms::default());
    assert!(matches!(refused, Err(SessionError::Refused(SessionRefusal::AnsweredElsewhere))), "{refused:?}");
    import(&bundle, &ImportTerms { answers: true, ..ImportTerms::default() }).unwrap();
}

fn a_parent_stays_behind(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let parent = sessions.create(&clock.header("triage")).unwrap().header.id;
    let of = ParentSession { session: parent, depth: 0, budget_microdollars: u64::MAX };
    let header = SessionHeader { parent: Some(of), ..clock.header("triage") };
    let id = sessions.create(&header).unwrap().header.id;
    let imported = import(&exported(sessions, id), &ImportTerms::default()).unwrap();
    assert_eq!(imported.session.header.parent, None);
    assert_eq!(imported.left_out, [format!("parent session {parent}")]);
}
