//! Labels: a session runs only on a worker that serves all of them.

use super::{Place, over_stores};
use crate::fixture::{Clock, message, worker};
use session::{
    ClaimFilter, ClaimTarget, SessionError, SessionHeader, SessionId, SessionRefusal, Sessions, Sha256Digest,
};

over_stores!(
    a_worker_claims_sessions_whose_labels_it_serves,
    a_header_names_its_organisation_and_its_harness,
    labels_have_limits,
);

fn create(sessions: &mut Sessions, clock: &mut Clock, labels: &[&str]) -> SessionId {
    let labels = labels.iter().map(|label| (*label).to_owned()).collect();
    let id = sessions.create(&SessionHeader { labels, ..clock.header("triage") }).unwrap().header.id;
    sessions.append(id, &[clock.input(message("hello"))], &mut clock.seed()).unwrap();
    id
}

fn serves(labels: &[&str]) -> ClaimFilter {
    let labels = labels.iter().map(|label| (*label).to_owned()).collect();
    ClaimFilter { labels: Some(labels), ..ClaimFilter::default() }
}

fn claims(sessions: &mut Sessions, clock: &mut Clock, filter: &ClaimFilter) -> Vec<SessionId> {
    let mut claimed = Vec::new();
    let target = ClaimTarget::Matching(filter);
    while let Some(wake) = sessions.claim(target, &worker("a"), &mut clock.seed()).unwrap() {
        claimed.push(wake.lease.session);
    }
    claimed
}

fn a_worker_claims_sessions_whose_labels_it_serves(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let large = create(sessions, clock, &["gpu", "large"]);
    let gpu = create(sessions, clock, &["gpu"]);
    let plain = create(sessions, clock, &[]);
    assert_eq!(claims(sessions, clock, &serves(&[])), [plain], "a worker without labels");
    assert_eq!(claims(sessions, clock, &serves(&["large", "linux"])), []);
    let now = clock.now();
    let found = sessions.find_due(&serves(&["gpu", "linux"]), now).unwrap().unwrap();
    assert_eq!(found.header.id, gpu);
    assert_eq!(claims(sessions, clock, &serves(&["gpu", "linux"])), [gpu]);
    let untouched = sessions.session(large).unwrap();
    assert_eq!((untouched.state.pending.len(), untouched.state.token), (1, 0), "nothing was consumed");
    assert_eq!(claims(sessions, clock, &serves(&["gpu", "large"])), [large]);
}

fn a_header_names_its_organisation_and_its_harness(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let header = SessionHeader {
        organisation: Some("acme".to_owned()),
        harness: Some(Sha256Digest::of(b"harness")),
        labels: vec!["gpu".to_owned()],
        ..clock.header("triage")
    };
    let id = sessions.create(&header).unwrap().header.id;
    assert_eq!(sessions.session(id).unwrap().header, header);
    sessions.append(id, &[clock.input(message("hello"))], &mut clock.seed()).unwrap();
    assert_eq!(sessions.session(id).unwrap().header, header);
}

fn labels_have_limits(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let many: Vec<String> = (10..40).map(|number| number.to_string()).collect();
    let words = |labels: &[&str]| labels.iter().map(|label| (*label).to_owned()).collect::<Vec<_>>();
    for labels in [many, words(&["b", "a"]), words(&["a", "a"]), words(&[" "]), words(&["a\u{0}"])] {
        let refused = sessions.create(&SessionHeader { labels: labels.clone(), ..clock.header("triage") });
        assert!(
            matches!(
                refused,
                Err(SessionError::Refused(
                    SessionRefusal::TooMany { .. }
                        | SessionRefusal::Field { .. }
                        | SessionRefusal::Empty { .. }
                ))
            ),
            "{labels:?}: {refused:?}"
        );
    }
    let newer = SessionHeader { version: 99, ..clock.header("triage") };
    assert!(matches!(sessions.create(&newer), Err(SessionError::Refused(SessionRefusal::Field { .. }))));
}
