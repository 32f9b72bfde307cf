//! Ingress: what a session takes from outside, and every reason why it does not.

use serde_json::json;
use session::digest::Digest;
use session::event::{Decision, Payload, Question};
use session::id::RequestId;
use session::ingress::admit;
use session::limits::Limits;
use session::moment::Timestamp;
use session::refusal::Refusal;
use session::sequence::{Seq, SeqSet};
use session::state::{Request, RequestKind, State};
use session::status::{Status, StopReason};

use crate::fixture::{Clock, interrupt, message, result};

const NOW: Timestamp = Timestamp(1_000);

struct Bench {
    state: State,
    tool: Question,
    confirmation: Question,
    answered: Question,
    expired: Question,
    unknown: Question,
}

/// A session that waits for several answers.
fn bench() -> Bench {
    let mut clock = Clock::new(2);
    let (tool, confirmation, answered) =
        (clock.question(Some(Timestamp(1_001))), clock.question(None), clock.question(None));
    let (expired, unknown) = (clock.question(Some(NOW)), clock.question(None));
    let mut state = State { status: Status::RequiresAction, ..State::default() };
    let mut add = |question: &Question, kind, answered| {
        let Question { request_id: id, input_digest, expires_ms } = *question;
        state.requests.push(Request {
            id,
            kind,
            tool: "t".to_owned(),
            input_digest,
            asked: Seq(1),
            expires_ms,
            answered,
        });
    };
    add(&tool, RequestKind::CustomTool, None);
    add(&confirmation, RequestKind::Confirmation, None);
    add(&answered, RequestKind::CustomTool, Some(Seq(2)));
    add(&expired, RequestKind::CustomTool, None);
    Bench { state, tool, confirmation, answered, expired, unknown }
}

fn confirms(question: &Question) -> Payload {
    let Question { request_id, input_digest, .. } = *question;
    Payload::UserToolConfirmation { request_id, input_digest, decision: Decision::Deny, note: None }
}

fn check(state: &State, payload: &Payload, expected: &Result<(), Refusal>) {
    assert_eq!(&admit(state, payload, &Limits::default(), NOW), expected, "{payload:?}");
}

#[test]
fn answers_are_matched_by_request_kind_input_and_time_and_count_once() {
    let Bench { state, tool, confirmation, answered, expired, unknown } = bench();
    let id = |question: &Question| question.request_id;
    let other_input = |question: &Question| Question { input_digest: Digest::of(b"x"), ..question.clone() };
    check(&state, &result(&tool), &Ok(()));
    check(&state, &confirms(&confirmation), &Ok(()));
    check(&state, &result(&unknown), &Err(Refusal::NoSuchRequest { id: id(&unknown) }));
    check(&state, &confirms(&tool), &Err(Refusal::WrongAnswer { id: id(&tool) }));
    check(&state, &result(&confirmation), &Err(Refusal::WrongAnswer { id: id(&confirmation) }));
    check(&state, &result(&answered), &Err(Refusal::AlreadyAnswered { id: id(&answered) }));
    check(&state, &result(&other_input(&tool)), &Err(Refusal::InputDiffers { id: id(&tool) }));
    check(
        &state,
        &confirms(&other_input(&confirmation)),
        &Err(Refusal::InputDiffers { id: id(&confirmation) }),
    );
    check(&state, &result(&expired), &Err(Refusal::Expired { id: id(&expired) }));
}

#[test]
fn only_user_events_come_from_outside() {
    let text = String::new;
    for payload in [
        Payload::AgentMessage { message: text(), summary: text() },
        Payload::SessionStatusIdle { reason: StopReason::EndTurn },
        Payload::RunAttached { run_id: text(), digest: None },
    ] {
        check(&State::default(), &payload, &Err(Refusal::NotAnInput { kind: payload.kind() }));
    }
}

#[test]
fn messages_are_taken_in_every_state_but_the_last() {
    for status in Status::ALL {
        let state = State { status: *status, ..State::default() };
        let expected = if *status == Status::Terminated { Err(Refusal::Terminated) } else { Ok(()) };
        check(&state, &message("hello"), &expected);
        check(&state, &interrupt(), &expected);
    }
}

#[test]
fn empty_and_oversized_ones_are_refused() {
    let state = State::default();
    check(&state, &message(" \n"), &Err(Refusal::Empty { what: "message" }));
    let outcome = Payload::UserDefineOutcome {
        title: " ".to_owned(),
        detail: String::new(),
        success_criteria: Vec::new(),
    };
    check(&state, &outcome, &Err(Refusal::Empty { what: "title of the outcome" }));
    let limit = Limits::default().input_bytes;
    let overhead = serde_json::to_string(&message("")).unwrap().len();
    check(&state, &message(&"x".repeat(limit - overhead)), &Ok(()));
    let too_long = Err(Refusal::TooLarge { what: "user.message", size: limit + 1, limit });
    check(&state, &message(&"x".repeat(limit - overhead + 1)), &too_long);
    let Bench { state, tool, .. } = bench();
    let Payload::UserCustomToolResult { request_id, input_digest, .. } = result(&tool) else {
        unreachable!()
    };
    let output = json!("x".repeat(limit));
    let payload = Payload::UserCustomToolResult { request_id, input_digest, output, is_error: true };
    assert!(matches!(
        admit(&state, &payload, &Limits::default(), NOW),
        Err(Refusal::TooLarge { what: "user.custom_tool_result", .. })
    ));
}

#[test]
fn a_flooded_session_still_takes_an_interrupt() {
    let limit = Limits::default().pending_inputs;
    let pending: SeqSet = (1..=limit as u64).map(Seq).collect();
    let mut state = State { status: Status::Running, pending, ..State::default() };
    let full = |count| Err(Refusal::TooMany { what: "inputs wait already", count, limit });
    check(&state, &message("one more"), &full(limit));
    check(&state, &interrupt(), &Ok(()));
    state.interrupts = [Seq(limit as u64 + 1)].into_iter().collect();
    check(&state, &interrupt(), &full(limit + 1));
}

#[test]
fn a_refusal_says_what_and_why() {
    let id: RequestId = "018bcfe5-6800-7000-8000-000000000001".parse().unwrap();
    assert_eq!(Refusal::AlreadyAnswered { id }.to_string(), format!("request {id} was answered before"));
    assert_eq!(
        Refusal::TooMany { what: "inputs wait already", count: 3, limit: 2 }.to_string(),
        "3 inputs wait already, the limit is 2"
    );
}
