//! Ingress: what a session takes from outside, and every reason why it does not.

use serde_json::json;

use crate::fixture::{Clock, interrupt, message, result};
use session::{
    ApprovalDecision, Payload, RequestId, Seq, SeqSet, SessionLimits, SessionRefusal, SessionState,
    SessionStatus, Sha256Digest, StopReason, Timestamp, ToolRequest, ToolRequestKind, ToolRequestRef, admit,
};

const NOW: Timestamp = Timestamp(1_000);

struct Bench {
    state: SessionState,
    tool: ToolRequestRef,
    confirmation: ToolRequestRef,
    answered: ToolRequestRef,
    expired: ToolRequestRef,
    unknown: ToolRequestRef,
}

/// A session that waits for several answers.
fn bench() -> Bench {
    let mut clock = Clock::new(2);
    let (tool, confirmation, answered) =
        (clock.question(Some(Timestamp(1_001))), clock.question(None), clock.question(None));
    let expired = clock.question(Some(NOW));
    let unknown = clock.question(None);
    let mut state = SessionState { status: SessionStatus::RequiresAction, ..SessionState::default() };
    let mut add = |question: &ToolRequestRef, kind, answered| {
        let ToolRequestRef { request_id: id, input_digest, expires_ms } = *question;
        state.requests.push(ToolRequest {
            id,
            kind,
            tool: "t".to_owned(),
            input_digest,
            asked: Seq(1),
            expires_ms,
            answered,
        });
    };
    add(&tool, ToolRequestKind::CustomTool, None);
    add(&confirmation, ToolRequestKind::Confirmation, None);
    add(&answered, ToolRequestKind::CustomTool, Some(Seq(2)));
    add(&expired, ToolRequestKind::CustomTool, None);
    Bench { state, tool, confirmation, answered, expired, unknown }
}

fn confirms(question: &ToolRequestRef) -> Payload {
    let ToolRequestRef { request_id, input_digest, .. } = *question;
    Payload::UserToolConfirmation { request_id, input_digest, decision: ApprovalDecision::Deny, note: None }
}

fn check(state: &SessionState, payload: &Payload, expected: &Result<(), SessionRefusal>) {
    assert_eq!(&admit(state, payload, &SessionLimits::default(), NOW), expected, "{payload:?}");
}

#[test]
fn answers_are_matched_by_request_kind_input_and_time_and_count_once() {
    let Bench { state, tool, confirmation, answered, expired, unknown } = bench();
    let id = |question: &ToolRequestRef| question.request_id;
    let other_input = |question: &ToolRequestRef| ToolRequestRef {
        input_digest: Sha256Digest::of(b"x"),
        ..question.clone()
    };
    check(&state, &result(&tool), &Ok(()));
    check(&state, &confirms(&confirmation), &Ok(()));
    check(&state, &result(&unknown), &Err(SessionRefusal::NoSuchRequest { id: id(&unknown) }));
    check(&state, &confirms(&tool), &Err(SessionRefusal::WrongAnswer { id: id(&tool) }));
    check(&state, &result(&confirmation), &Err(SessionRefusal::WrongAnswer { id: id(&confirmation) }));
    check(&state, &result(&answered), &Err(SessionRefusal::AlreadyAnswered { id: id(&answered) }));
    check(&state, &result(&other_input(&tool)), &Err(SessionRefusal::InputDiffers { id: id(&tool) }));
    check(
        &state,
        &confirms(&other_input(&confirmation)),
        &Err(SessionRefusal::InputDiffers { id: id(&confirmation) }),
    );
    check(&state, &result(&expired), &Err(SessionRefusal::Expired { id: id(&expired) }));
}

#[test]
fn only_user_events_come_from_outside() {
    let text = String::new;
    for payload in [
        Payload::AgentMessage { message: text(), summary: text() },
        Payload::SessionStatusIdle { reason: StopReason::EndTurn },
        Payload::RunAttached { run_id: text(), digest: None },
    ] {
        check(&SessionState::default(), &payload, &Err(SessionRefusal::NotAnInput { kind: payload.kind() }));
    }
}

#[test]
fn messages_are_taken_in_every_state_but_the_last() {
    for status in SessionStatus::ALL {
        let state = SessionState { status: *status, ..SessionState::default() };
        let expected =
            if *status == SessionStatus::Terminated { Err(SessionRefusal::Terminated) } else { Ok(()) };
        check(&state, &message("hello"), &expected);
        check(&state, &interrupt(), &expected);
    }
}

#[test]
fn empty_and_oversized_ones_are_refused() {
    let state = SessionState::default();
    check(&state, &message(" \n"), &Err(SessionRefusal::Empty { what: "message" }));
    let outcome = Payload::UserDefineOutcome {
        title: " ".to_owned(),
        detail: String::new(),
        success_criteria: Vec::new(),
    };
    check(&state, &outcome, &Err(SessionRefusal::Empty { what: "title of the goal" }));
    let limit = SessionLimits::default().input_bytes;
    let overhead = serde_json::to_string(&message("")).unwrap().len();
    check(&state, &message(&"x".repeat(limit - overhead)), &Ok(()));
    let too_long = Err(SessionRefusal::TooLarge { what: "user.message", size: limit + 1, limit });
    check(&state, &message(&"x".repeat(limit - overhead + 1)), &too_long);
    let Bench { state, tool, .. } = bench();
    let Payload::UserCustomToolResult { request_id, input_digest, .. } = result(&tool) else {
        unreachable!()
    };
    let output = json!("x".repeat(limit));
    let payload = Payload::UserCustomToolResult { request_id, input_digest, output, is_error: true };
    assert!(matches!(
        admit(&state, &payload, &SessionLimits::default(), NOW),
        Err(SessionRefusal::TooLarge { what: "user.custom_tool_result", .. })
    ));
}

#[test]
fn a_flooded_session_still_takes_an_interrupt() {
    let limit = SessionLimits::default().pending_inputs;
    let pending: SeqSet = (1..=limit as u64).map(Seq).collect();
    let mut state = SessionState { status: SessionStatus::Running, pending, ..SessionState::default() };
    let full = |count| Err(SessionRefusal::TooMany { what: "inputs are already waiting", count, limit });
    check(&state, &message("one more"), &full(limit));
    check(&state, &interrupt(), &Ok(()));
    state.interrupts = [Seq(limit as u64 + 1)].into_iter().collect();
    check(&state, &interrupt(), &full(limit + 1));
}

#[test]
fn a_refusal_says_what_and_why() {
    let id: RequestId = "018bcfe5-6800-7000-8000-000000000001".parse().unwrap();
    assert_eq!(
        SessionRefusal::AlreadyAnswered { id }.to_string(),
        format!("request {id} is already answered")
    );
    assert_eq!(
        SessionRefusal::TooMany { what: "inputs are already waiting", count: 3, limit: 2 }.to_string(),
        "3 inputs are already waiting, the limit is 2"
    );
}
