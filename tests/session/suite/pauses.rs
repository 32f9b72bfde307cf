//! Pauses: questions to the outside, their answers, what may and may not happen meanwhile.

use serde_json::{Value, json};

use super::{Place, over_stores};
use crate::fixture::{Clock, directive, ending, interrupt, message, reports, sleeps, worker};
use session::{
    ApprovalDecision, Approvals, ClaimTarget, ClaimedWake, ContextWindow, FailureClass, Payload, RequestId,
    Seq, SessionError, SessionId, SessionRefusal, SessionStatus, Sessions, Sha256Digest, StopReason,
    Timestamp, ToolRequest, ToolRequestRef, WakeCommit, WakeEnding,
};

over_stores!(
    a_pause_waits_for_all_answers_and_nothing_else_ends_it,
    an_answer_counts_once_and_for_its_input,
    an_answer_that_never_comes_expires,
    a_message_and_a_timer_wait_behind_a_pause,
    an_interrupt_ends_a_pause,
    an_approval_is_one_call_with_that_input,
    a_pause_needs_a_question_and_a_failure_may_not_ask,
    a_paused_session_cannot_be_forced_to_run,
);

fn start(sessions: &mut Sessions, clock: &mut Clock) -> SessionId {
    let id = sessions.create(&clock.header("triage")).unwrap().header.id;
    sessions.append(id, &[clock.input(message("deploy it"))], &mut clock.seed()).unwrap();
    id
}

fn claim(sessions: &mut Sessions, clock: &mut Clock) -> Option<ClaimedWake> {
    sessions.claim(ClaimTarget::Due, &worker("a"), &mut clock.seed()).unwrap()
}

/// Runs a wake that asks for these tools; gives the requests.
fn pause(sessions: &mut Sessions, clock: &mut Clock, tools: &Value) -> Vec<ToolRequest> {
    let lease = claim(sessions, clock).unwrap().lease;
    let asks = json!({"response": "may I?", "summary": "s", "outcome": "sleep", "custom_tools": tools});
    let commit = ending(WakeEnding::Directive(directive(&asks)));
    let state = sessions.commit(&lease, &commit, &mut clock.seed()).unwrap();
    assert_eq!(
        (state.status, state.stop_reason),
        (SessionStatus::RequiresAction, StopReason::RequiresAction)
    );
    state.requests
}

fn answer(
    sessions: &mut Sessions,
    clock: &mut Clock,
    id: SessionId,
    request: &ToolRequest,
) -> Result<Vec<Seq>, SessionError> {
    let payload = Payload::UserCustomToolResult {
        request_id: request.id,
        input_digest: request.input_digest,
        output: json!({"url": "https://example.test"}),
        is_error: false,
    };
    sessions.append(id, &[clock.input(payload)], &mut clock.seed())
}

fn a_pause_waits_for_all_answers_and_nothing_else_ends_it(
    _: &Place,
    sessions: &mut Sessions,
    clock: &mut Clock,
) {
    let id = start(sessions, clock);
    let tools = json!([{"name": "deploy", "input": {"v": 1}}, {"name": "notify", "input": {}}]);
    let requests = pause(sessions, clock, &tools);
    let events = sessions.events(id, Seq(0), 100).unwrap();
    let blocking = events.iter().find_map(|event| match &event.payload {
        Payload::SessionStatusChanged { to: SessionStatus::RequiresAction, blocking, .. } => {
            Some(blocking.clone())
        }
        _ => None,
    });
    assert_eq!(blocking.unwrap(), requests.iter().map(|request| request.id).collect::<Vec<_>>());
    answer(sessions, clock, id, &requests[1]).unwrap();
    assert_eq!(sessions.session(id).unwrap().state.status, SessionStatus::RequiresAction);
    clock.pass_ms(86_400_000);
    assert_eq!(claim(sessions, clock), None);
    answer(sessions, clock, id, &requests[0]).unwrap();
    let claimed = claim(sessions, clock).unwrap();
    let context = sessions.context(&claimed.lease, &ContextWindow::default()).unwrap();
    assert_eq!(context.inputs.len(), 2);
    let asked = context.requests.iter().map(|event| match &event.payload {
        Payload::AgentCustomToolUse { tool, input, .. } => (tool.as_str(), input.clone()),
        other => panic!("{other:?}"),
    });
    assert_eq!(asked.collect::<Vec<_>>(), [("deploy", json!({"v": 1})), ("notify", json!({}))]);
    let state = sessions.commit(&claimed.lease, &sleeps(), &mut clock.seed()).unwrap();
    assert_eq!(state.status, SessionStatus::Idle);
    assert!(state.requests.is_empty());
}

fn an_answer_counts_once_and_for_its_input(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = start(sessions, clock);
    let requests = pause(sessions, clock, &json!([{"name": "deploy", "input": {"v": 1}}]));
    let forged = ToolRequest { input_digest: Sha256Digest::of_json(&json!({"v": 2})), ..requests[0].clone() };
    let refused = answer(sessions, clock, id, &forged);
    assert!(matches!(refused, Err(SessionError::Refused(SessionRefusal::InputDiffers { .. }))));
    let unknown = ToolRequest { id: RequestId::generate(&mut clock.seed()), ..requests[0].clone() };
    let refused = answer(sessions, clock, id, &unknown);
    assert!(matches!(refused, Err(SessionError::Refused(SessionRefusal::NoSuchRequest { .. }))));
    answer(sessions, clock, id, &requests[0]).unwrap();
    let refused = answer(sessions, clock, id, &requests[0]);
    assert!(matches!(refused, Err(SessionError::Refused(SessionRefusal::AlreadyAnswered { .. }))));
    let lease = claim(sessions, clock).unwrap().lease;
    sessions.commit(&lease, &sleeps(), &mut clock.seed()).unwrap();
    let refused = answer(sessions, clock, id, &requests[0]);
    assert!(matches!(refused, Err(SessionError::Refused(SessionRefusal::NoSuchRequest { .. }))));
}

fn an_answer_that_never_comes_expires(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = start(sessions, clock);
    let tools = json!([{"name": "deploy", "input": {}, "expires_seconds": 60}, {"name": "ask", "input": {}}]);
    let requests = pause(sessions, clock, &tools);
    let expiry = Timestamp(clock.now_ms + 60_000);
    assert_eq!(sessions.survey().unwrap().next_due, Some(expiry));
    clock.pass_ms(59_999);
    assert_eq!(claim(sessions, clock), None);
    clock.pass_ms(1);
    let refused = answer(sessions, clock, id, &requests[0]);
    assert!(matches!(refused, Err(SessionError::Refused(SessionRefusal::Expired { .. }))));
    let claimed = claim(sessions, clock).unwrap();
    assert_eq!(claimed.session.state.wake.as_ref().unwrap().expired, requests[..1]);
    let context = sessions.context(&claimed.lease, &ContextWindow::default()).unwrap();
    assert_eq!(context.requests.len(), 2, "the agent is told what it asked, in vain and still");
    let transient = WakeEnding::Failed { class: FailureClass::Transient, message: "busy".to_owned() };
    sessions.commit(&claimed.lease, &ending(transient), &mut clock.seed()).unwrap();
    clock.pass_ms(5_000);
    let claimed = claim(sessions, clock).unwrap();
    assert_eq!(
        claimed.session.state.wake.as_ref().unwrap().expired,
        requests[..1],
        "and so is the next attempt"
    );
    let state = sessions.commit(&claimed.lease, &sleeps(), &mut clock.seed()).unwrap();
    assert_eq!(state.status, SessionStatus::RequiresAction, "the other question is still open");
    assert_eq!(claim(sessions, clock), None);
    answer(sessions, clock, id, &requests[1]).unwrap();
    assert!(claim(sessions, clock).is_some());
}

fn a_message_and_a_timer_wait_behind_a_pause(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = start(sessions, clock);
    let lease = claim(sessions, clock).unwrap().lease;
    let asks = json!({"summary": "s", "outcome": "continue", "custom_tools": [{"name": "deploy", "input": {}}],
                      "queued_wakes": [{"reason": "look", "delay_seconds": 5}]});
    let commit = ending(WakeEnding::Directive(directive(&asks)));
    let state = sessions.commit(&lease, &commit, &mut clock.seed()).unwrap();
    assert_eq!(
        (state.status, state.wakes.len()),
        (SessionStatus::RequiresAction, 1),
        "a pause wins over going on"
    );
    sessions.append(id, &[clock.input(message("how is it?"))], &mut clock.seed()).unwrap();
    clock.pass_ms(10_000);
    assert_eq!(claim(sessions, clock), None);
    assert_eq!(sessions.session(id).unwrap().state.requests.len(), 1, "a message does not drop the question");
    answer(sessions, clock, id, &state.requests[0]).unwrap();
    let claimed = claim(sessions, clock).unwrap();
    let wake = claimed.session.state.wake.as_ref().unwrap();
    assert_eq!((wake.inputs.len(), wake.woken.len()), (2, 1), "all that waited comes together");
}

fn an_interrupt_ends_a_pause(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = start(sessions, clock);
    let requests = pause(sessions, clock, &json!([{"name": "deploy", "input": {}}]));
    sessions.append(id, &[clock.input(interrupt())], &mut clock.seed()).unwrap();
    let state = sessions.session(id).unwrap().state;
    assert_eq!((state.status, state.stop_reason), (SessionStatus::Idle, StopReason::Interrupted));
    let refused = answer(sessions, clock, id, &requests[0]);
    assert!(matches!(refused, Err(SessionError::Refused(SessionRefusal::NoSuchRequest { .. }))));
}

fn tool_use(clock: &mut Clock, input: &Value) -> (Payload, ToolRequestRef) {
    let request_id = RequestId::generate(&mut clock.seed());
    let question =
        ToolRequestRef { request_id, input_digest: Sha256Digest::of_json(input), expires_ms: None };
    let confirmation = Some(question.clone());
    let tool = "shell".to_owned();
    let input = input.clone();
    let output = None;
    (Payload::AgentToolUse { tool, input, output, is_error: false, confirmation }, question)
}

fn an_approval_is_one_call_with_that_input(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = start(sessions, clock);
    let lease = claim(sessions, clock).unwrap().lease;
    let (asks, question) = tool_use(clock, &json!({"command": "rm a"}));
    let commit = WakeCommit { reports: reports(clock, &[asks]), ..ending(WakeEnding::Paused) };
    let state = sessions.commit(&lease, &commit, &mut clock.seed()).unwrap();
    assert_eq!(state.status, SessionStatus::RequiresAction);
    let confirms = |input_digest| Payload::UserToolConfirmation {
        request_id: question.request_id,
        input_digest,
        decision: ApprovalDecision::Allow,
        note: None,
    };
    let other = Sha256Digest::of_json(&json!({"command": "rm b"}));
    let refused = sessions.append(id, &[clock.input(confirms(other))], &mut clock.seed());
    assert!(matches!(refused, Err(SessionError::Refused(SessionRefusal::InputDiffers { .. }))));
    sessions.append(id, &[clock.input(confirms(question.input_digest))], &mut clock.seed()).unwrap();
    let claimed = claim(sessions, clock).unwrap();
    let context = sessions.context(&claimed.lease, &ContextWindow::default()).unwrap();
    let mut approvals = Approvals::of(&context.session.state, &context.inputs);
    assert_eq!(approvals.take("shell", other), None);
    assert_eq!(approvals.take("other", question.input_digest), None);
    let approval = approvals.take("shell", question.input_digest).unwrap();
    assert_eq!((approval.decision, approval.request_id), (ApprovalDecision::Allow, question.request_id));
    assert_eq!(approvals.take("shell", question.input_digest), None, "one approval is one call");
}

fn a_pause_needs_a_question_and_a_failure_may_not_ask(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = start(sessions, clock);
    let lease = claim(sessions, clock).unwrap().lease;
    let refused = sessions.commit(&lease, &ending(WakeEnding::Paused), &mut clock.seed());
    assert!(matches!(refused, Err(SessionError::Refused(SessionRefusal::RequestMismatch))));
    let (asks, _) = tool_use(clock, &json!({}));
    let malformed = WakeEnding::Malformed { error: String::new(), excerpt: String::new() };
    let commit = WakeCommit { reports: reports(clock, &[asks]), ..ending(malformed) };
    let refused = sessions.commit(&lease, &commit, &mut clock.seed());
    assert!(matches!(refused, Err(SessionError::Refused(SessionRefusal::RequestMismatch))));
    assert_eq!(sessions.session(id).unwrap().state.status, SessionStatus::Running);
}

fn a_paused_session_cannot_be_forced_to_run(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = start(sessions, clock);
    let requests = pause(sessions, clock, &json!([{"name": "deploy", "input": {}}]));
    let refused = sessions.claim(ClaimTarget::Session(id), &worker("a"), &mut clock.seed());
    let Err(SessionError::Refused(SessionRefusal::Blocked { requests: blocking })) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(blocking, [requests[0].id]);
}
