//! The status machine: every event in every state, and what may follow what.

use serde_json::json;

use crate::fixture::{Clock, interrupt, message, result};
use session::{
    ApprovalDecision, CompletedSpan, ErrorClass, Payload, SeqSet, SessionState, SessionStatus, Sha256Digest,
    SpanId, SpanResult, StartedSpan, StopReason, ToolRequestRef, WakeEnd, WakeId, WakeStart,
};

/// A session in the making: a state, and what later events must name.
struct Bench {
    clock: Clock,
    state: SessionState,
    wake: WakeId,
    tool: ToolRequestRef,
    confirmation: ToolRequestRef,
}

impl Bench {
    fn new() -> Self {
        let mut clock = Clock::new(1);
        let tool = clock.question(None);
        let confirmation = clock.question(None);
        let wake = WakeId::generate(&mut clock.seed());
        Self { clock, state: SessionState::default(), wake, tool, confirmation }
    }

    fn apply(&mut self, payload: Payload) -> Result<SessionStatus, &'static str> {
        let from_wake = !payload.is_input();
        let event = self.clock.event(self.state.head.next(), from_wake.then_some(self.wake), payload);
        self.state.apply(&event).map_err(|illegal| illegal.why)?;
        Ok(self.state.status)
    }

    fn span(&self) -> SpanId {
        self.wake.into()
    }

    fn starts(&self) -> Payload {
        let inputs = self.state.pending.clone();
        let attempt = self.state.wake.as_ref().map_or(0, |wake| wake.attempt) + 1;
        let token = self.state.token + 1;
        let start = WakeStart { token, attempt, inputs, woken: Vec::new(), expired: Vec::new() };
        let name = "wake".to_owned();
        let span = StartedSpan::Wake(start);
        Payload::SpanStarted { span_id: self.span(), parent_id: None, name, span }
    }

    fn ends(&self, result: SpanResult, end: WakeEnd) -> Payload {
        Payload::SpanCompleted { span_id: self.span(), result, span: CompletedSpan::Wake(Box::new(end)) }
    }

    fn consumes_all(&self) -> WakeEnd {
        let inputs = self.state.wake.as_ref().map_or_else(SeqSet::default, |wake| wake.inputs.clone());
        let consumed = inputs.iter().chain(self.state.interrupts.iter()).collect();
        WakeEnd { consumed, ..WakeEnd::default() }
    }

    fn asks(&self) -> Payload {
        let input = json!({"n": 1});
        let question = self.tool.clone();
        Payload::AgentCustomToolUse { tool: "deploy".to_owned(), input, question }
    }

    fn asks_to_confirm(&self) -> Payload {
        Payload::AgentToolUse {
            tool: "shell".to_owned(),
            input: json!({"n": 1}),
            output: None,
            is_error: false,
            confirmation: Some(self.confirmation.clone()),
        }
    }

    fn confirms(&self) -> Payload {
        let ToolRequestRef { request_id, input_digest, .. } = self.confirmation;
        Payload::UserToolConfirmation {
            request_id,
            input_digest,
            decision: ApprovalDecision::Allow,
            note: None,
        }
    }

    /// The session in one of the states of the table.
    fn at(name: &str) -> Self {
        let mut bench = Self::new();
        match name {
            "idle" => {}
            "running" => bench.run(&[]),
            "rescheduling" => {
                bench.apply(message("hello")).unwrap();
            }
            "retrying" => {
                bench.apply(message("hello")).unwrap();
                bench.run(&[]);
                let retry_at_ms = Some(bench.clock.now());
                let end = WakeEnd { retry_at_ms, ..WakeEnd::default() };
                bench.apply(bench.ends(SpanResult::Error, end)).unwrap();
            }
            "wants_tool" => bench.pause(Self::asks),
            "wants_confirmation" => bench.pause(Self::asks_to_confirm),
            "terminated" => {
                bench.apply(status_changed(SessionStatus::Terminated)).unwrap();
            }
            _ => unreachable!(),
        }
        bench
    }

    fn run(&mut self, events: &[Payload]) {
        self.apply(self.starts()).unwrap();
        for payload in events {
            self.apply(payload.clone()).unwrap();
        }
    }

    fn pause(&mut self, ask: fn(&Self) -> Payload) {
        let question = ask(self);
        self.run(&[question]);
        self.apply(self.ends(SpanResult::Blocked, self.consumes_all())).unwrap();
    }
}

fn status_changed(to: SessionStatus) -> Payload {
    let reason = String::new();
    let blocking = Vec::new();
    let queued = Vec::new();
    Payload::SessionStatusChanged {
        from: SessionStatus::Idle,
        to,
        reason,
        blocking,
        queued,
        cancelled: Vec::new(),
    }
}

fn payload(bench: &mut Bench, name: &str) -> Payload {
    let span_id = SpanId::generate(&mut bench.clock.seed());
    let text = String::new;
    match name {
        "user.message" => message("hi"),
        "user.define_outcome" => {
            Payload::UserDefineOutcome { title: text(), detail: text(), success_criteria: Vec::new() }
        }
        "user.interrupt" => interrupt(),
        "user.tool_confirmation" => bench.confirms(),
        "user.custom_tool_result" => result(&bench.tool),
        "agent.message" => Payload::AgentMessage { message: text(), summary: text() },
        "agent.tool_use" => {
            let tool = text();
            let input = json!({});
            Payload::AgentToolUse { tool, input, output: None, is_error: false, confirmation: None }
        }
        "agent.custom_tool_use" => {
            let input = json!({"n": 1});
            let question = bench.clock.question(None);
            Payload::AgentCustomToolUse { tool: text(), input, question }
        }
        "agent.directive_error" => Payload::AgentDirectiveError { error: text(), excerpt: text() },
        "status_changed to rescheduling" => status_changed(SessionStatus::Rescheduling),
        "status_changed to running" => status_changed(SessionStatus::Running),
        "status_changed to terminated" => status_changed(SessionStatus::Terminated),
        "session.status_idle" => Payload::SessionStatusIdle { reason: StopReason::EndTurn },
        "session.error" => {
            let class = ErrorClass::Transient;
            Payload::SessionError { class, message: text(), attempt: 1, retry_at_ms: None }
        }
        "span.started wake" => bench.starts(),
        "span.completed wake" => bench.ends(SpanResult::Success, bench.consumes_all()),
        "span.started tool" => {
            Payload::SpanStarted { span_id, parent_id: None, name: text(), span: StartedSpan::Tool }
        }
        "span.completed tool" => {
            Payload::SpanCompleted { span_id, result: SpanResult::Success, span: CompletedSpan::Tool }
        }
        "run.attached" => Payload::RunAttached { run_id: text(), digest: None },
        _ => unreachable!("{name}"),
    }
}

/// What each event makes of each state. A dash: it is refused, and the state stays as it was.
const TABLE: &str = "
event                          | idle         | running | rescheduling | retrying     | wants_tool      | wants_confirmation | terminated
user.message                   | rescheduling | running | rescheduling | rescheduling | requires_action | requires_action    | -
user.define_outcome            | rescheduling | running | rescheduling | rescheduling | requires_action | requires_action    | -
user.interrupt                 | idle         | running | rescheduling | idle         | idle            | idle               | -
user.tool_confirmation         | -            | -       | -            | -            | -               | rescheduling       | -
user.custom_tool_result        | -            | -       | -            | -            | rescheduling    | -                  | -
agent.message                  | -            | running | -            | -            | -               | -                  | -
agent.tool_use                 | -            | running | -            | -            | -               | -                  | -
agent.custom_tool_use          | -            | running | -            | -            | -               | -                  | -
agent.directive_error          | -            | running | -            | -            | -               | -                  | -
status_changed to rescheduling | -            | -       | rescheduling | rescheduling | -               | -                  | -
status_changed to running      | -            | running | -            | -            | -               | -                  | -
status_changed to terminated   | terminated   | terminated | terminated | terminated  | terminated      | terminated         | -
session.status_idle            | idle         | -       | -            | -            | -               | -                  | -
session.error                  | -            | running | -            | -            | -               | -                  | -
span.started wake              | running      | -       | running      | running      | running         | running            | -
span.completed wake            | -            | idle    | -            | -            | -               | -                  | -
span.started tool              | -            | running | -            | -            | -               | -                  | -
span.completed tool            | -            | running | -            | -            | -               | -                  | -
run.attached                   | -            | running | -            | -            | -               | -                  | -
";

#[test]
fn every_event_in_every_state() {
    let mut rows = TABLE.trim().lines().map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let states = rows.next().unwrap();
    let mut cells = 0;
    for row in rows {
        for (state, expected) in states.iter().zip(&row).skip(1) {
            let mut bench = Bench::at(state);
            let before = bench.state.clone();
            let event = payload(&mut bench, row[0]);
            let got = bench.apply(event).map_or("-", SessionStatus::word);
            assert_eq!(got, *expected, "{} in {state}", row[0]);
            if got == "-" {
                assert_eq!(bench.state, before, "a refused {} changed {state}", row[0]);
            }
            cells += 1;
        }
    }
    assert_eq!(cells, 19 * 7);
}

#[test]
fn sequence_numbers_are_dense() {
    let mut bench = Bench::new();
    bench.apply(message("one")).unwrap();
    for wrong in [0, 1, 3] {
        let event = bench.clock.event(session::Seq(wrong), None, message("two"));
        assert!(bench.state.apply(&event).is_err(), "{wrong}");
    }
}

#[test]
fn what_a_wake_is_given_stays_pending_until_it_is_consumed() {
    let mut bench = Bench::at("rescheduling");
    bench.run(&[message("later")]);
    assert_eq!(bench.state.pending.len(), 2);
    let status = bench.apply(bench.ends(SpanResult::Success, bench.consumes_all())).unwrap();
    assert_eq!(
        status,
        SessionStatus::Rescheduling,
        "the message that came meanwhile waits for the next wake"
    );
    assert_eq!(bench.state.pending.len(), 1);
}

#[test]
fn another_attempt_has_the_same_id_and_inputs_and_a_higher_token() {
    let mut bench = Bench::at("retrying");
    bench.apply(message("meanwhile")).unwrap();
    assert_eq!(bench.apply(bench.starts()), Err("a retry must have the same inputs"));
    let Payload::SpanStarted { span_id, parent_id, name, span: StartedSpan::Wake(mut start) } =
        bench.starts()
    else {
        unreachable!()
    };
    start.inputs = bench.state.wake.as_ref().unwrap().inputs.clone();
    type Spoil = fn(&mut WakeStart);
    let wrong: [(&str, Spoil); 3] = [
        ("its token is not higher than the last one", |start| start.token -= 1),
        ("its attempt number is not the next one", |start| start.attempt = 1),
        ("its inputs are not pending", |start| {
            start.inputs = [session::Seq(99)].into_iter().collect();
        }),
    ];
    for (why, change) in wrong {
        let mut start = start.clone();
        change(&mut start);
        let name = name.clone();
        let span = StartedSpan::Wake(start);
        assert_eq!(bench.apply(Payload::SpanStarted { span_id, parent_id, name, span }), Err(why));
    }
    let other = SpanId::generate(&mut bench.clock.seed());
    let span = StartedSpan::Wake(start);
    let start_of =
        |span_id| Payload::SpanStarted { span_id, parent_id, name: name.clone(), span: span.clone() };
    assert_eq!(bench.apply(start_of(other)), Err("another wake must be retried first"));
    assert_eq!(bench.apply(start_of(span_id)), Ok(SessionStatus::Running));
}

#[test]
fn an_interrupt_drops_the_attempt_that_waits_and_its_inputs_but_no_later_message() {
    let mut bench = Bench::at("retrying");
    bench.apply(message("later")).unwrap();
    assert_eq!(bench.apply(interrupt()), Ok(SessionStatus::Rescheduling));
    assert_eq!(bench.state.pending.len(), 1);
    assert!(bench.state.wake.is_none());
}

#[test]
fn several_questions_at_once_each_answered_once() {
    let mut bench = Bench::new();
    let first = bench.asks();
    let second = bench.asks_to_confirm();
    bench.run(&[first, second]);
    bench.apply(bench.ends(SpanResult::Blocked, bench.consumes_all())).unwrap();
    assert_eq!(bench.apply(result(&bench.tool)), Ok(SessionStatus::RequiresAction));
    assert_eq!(bench.apply(result(&bench.tool)), Err("the request is already answered"));
    let confirmation = bench.confirms();
    assert_eq!(bench.apply(confirmation), Ok(SessionStatus::Rescheduling));
    bench.run(&[]);
    assert_eq!(bench.apply(bench.ends(SpanResult::Success, bench.consumes_all())), Ok(SessionStatus::Idle));
    assert!(bench.state.requests.is_empty());
}

#[test]
fn a_question_is_bound_to_its_input() {
    let mut bench = Bench::new();
    bench.run(&[]);
    let question = ToolRequestRef { input_digest: Sha256Digest::of(b"other"), ..bench.tool.clone() };
    let payload = Payload::AgentCustomToolUse { tool: "deploy".to_owned(), input: json!({"n": 1}), question };
    assert_eq!(bench.apply(payload), Err("the digest is of another input"));
}

#[test]
fn events_read_back_and_the_set_is_closed() {
    let mut bench = Bench::new();
    for name in TABLE.trim().lines().skip(1).map(|line| line.split('|').next().unwrap().trim()) {
        let payload = payload(&mut bench, name);
        let event = bench.clock.event(session::Seq(7), None, payload);
        let text = serde_json::to_string(&event).unwrap();
        assert_eq!(serde_json::from_str::<session::SessionEvent>(&text).unwrap(), event, "{name}");
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["type"], event.payload.kind());
    }
    for bad in [
        r#"{"type":"user.shout"}"#,
        r#"{"type":"user.message","message":"a","extra":1}"#,
        r#"{"message":"a"}"#,
    ] {
        assert!(serde_json::from_str::<Payload>(bad).is_err(), "{bad}");
    }
}
