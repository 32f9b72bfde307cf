//! The gateway over real sockets: our own client on one side, the scripted model on the other.

mod budget;
mod count_tokens;
mod expired;
mod hosted;
mod matrix;
mod requests;
mod retries;
mod streams;

use super::*;
use crate::client::{ClientError, ModelClient};
use crate::event::AnswerEnding;
use crate::price::Money;
use crate::scripted::{Scenario, ScriptedModel};
use crate::wire::fault::FaultKind;
use crate::wire::{
    ContentBlock, Message, MessageRole, ModelAnswer, ModelRequest, TokenUsage, Tool, ToolCall, ToolResult,
    Wire,
};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use tokio::runtime::Runtime;

struct TestGateway {
    address: SocketAddr,
    events: Arc<Mutex<Vec<ModelEvent>>>,
    bodies: Arc<Mutex<Vec<Value>>>,
    gateway: Arc<Gateway>,
    serving: Option<GatewayServer>,
    runtime: Runtime,
}

struct TestSetup {
    rules: RequestRules,
    check: Option<CheckClient>,
    budget: BudgetLimits,
    shared_budgets: SharedBudgets,
    prices: PriceList,
    inspect: Inspect,
    limits: GatewayLimits,
    retry: RetryLimits,
    fallback: Vec<String>,
    credential: Option<String>,
    start: Option<StartSignal>,
}

impl Default for TestSetup {
    fn default() -> Self {
        let backoff = BackoffLimits { first_wait: Duration::from_millis(5), ..BackoffLimits::default() };
        let limits =
            GatewayLimits { answer_idle: Duration::from_millis(400), backoff, ..GatewayLimits::default() };
        Self {
            rules: RequestRules::default(),
            check: None,
            budget: BudgetLimits::default(),
            shared_budgets: SharedBudgets::default(),
            prices: PriceList::built_in(),
            inspect: inspect::pass_all(),
            limits,
            retry: RetryLimits::default(),
            fallback: Vec::new(),
            credential: None,
            start: None,
        }
    }
}

fn gateway(scenario: &Value, setup: TestSetup) -> TestGateway {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let got = Arc::clone(&bodies);
    let scenario = Scenario::parse("s.json", scenario.to_string().as_bytes()).unwrap();
    let model = ScriptedModel::new(scenario).with_log(move |received| {
        got.lock().unwrap().push(serde_json::from_slice(received.body).unwrap());
    });
    start_gateway(Upstream::scripted(model), bodies, setup)
}

/// `bodies`: what the upstream gets.
fn start_gateway(upstream: Upstream, bodies: Arc<Mutex<Vec<Value>>>, setup: TestSetup) -> TestGateway {
    let events = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&events);
    let TestSetup {
        rules,
        check,
        budget,
        shared_budgets,
        prices,
        inspect,
        limits,
        retry,
        fallback,
        credential,
        start,
    } = setup;
    let known_results = HashSet::new();
    let on_event: OnModelEvent = Arc::new(move |event| seen.lock().unwrap().push(event));
    let gateway = Arc::new(Gateway::new(GatewayConfig {
        upstream,
        rules,
        budget,
        shared_budgets,
        prices,
        inspect,
        hold_back: Arc::new(|| 0),
        chunk_format: ChunkFormat::NONE,
        on_event,
        limits,
        retry,
        fallback,
        credential,
        start,
        known_results,
    }));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let serving = {
        let _inside = runtime.enter();
        super::start(listener, Arc::clone(&gateway), check).unwrap()
    };
    TestGateway { address, events, bodies, gateway, serving: Some(serving), runtime }
}

impl TestGateway {
    fn ask(&self, request: &ModelRequest) -> Result<ModelAnswer, ClientError> {
        ModelClient::new(self.address, Wire::Messages).ask(request, &mut |_| {})
    }

    fn events(&self) -> Vec<ModelEvent> {
        self.events.lock().unwrap().clone()
    }

    /// The answer reaches the client before the gateway has settled it.
    fn endings(&self, count: usize) -> Vec<AnswerEnding> {
        for _ in 0..200 {
            let endings: Vec<AnswerEnding> = self.events().iter().filter_map(ending).collect();
            if endings.len() >= count {
                return endings;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{:?}", self.events());
    }

    fn raw(&self, text: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = Vec::new();
        // A connection that the gateway resets has said what it had to say.
        let _end = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }
}

fn ending(event: &ModelEvent) -> Option<AnswerEnding> {
    match event {
        ModelEvent::ModelAnswer { ending, .. } => Some(*ending),
        _ => None,
    }
}

fn request(text: &str, stream: bool) -> ModelRequest {
    let schema = json!({"properties": {"command": {"type": "string"}}});
    let tool = Tool { name: "Bash".into(), description: String::new(), schema };
    let messages = vec![Message::user(text)];
    let max_tokens = Some(1000);
    ModelRequest {
        model: "claude-sonnet-4-5".into(),
        messages,
        tools: vec![tool],
        max_tokens,
        stream,
        ..ModelRequest::default()
    }
}

fn with_result(mut request: ModelRequest, text: &str) -> ModelRequest {
    let call = ToolCall { id: "c1".into(), name: "Bash".into(), input: json!({"command": "ls"}) };
    let result = ToolResult { id: "c1".into(), parts: vec![text.to_owned()], is_error: false };
    request
        .messages
        .push(Message { role: MessageRole::Assistant, blocks: vec![ContentBlock::ToolCall(call)] });
    request
        .messages
        .push(Message { role: MessageRole::User, blocks: vec![ContentBlock::ToolResult(result)] });
    request
}

const PLAIN: &str = r#"{"turns": [
    [{"text": "I look."}, {"shell": "ls"}, {"usage": {"input": 100, "output": 10, "cache_read": 5}}],
    [{"text": "Done."}, {"usage": {"input": 200, "output": 20}}]]}"#;

fn plain() -> Value {
    serde_json::from_str(PLAIN).unwrap()
}

#[test]
fn both_deliveries_pass_and_are_counted() {
    let gateway = gateway(&plain(), TestSetup::default());
    for stream in [true, false] {
        let answer = gateway.ask(&request("go", stream)).unwrap();
        assert_eq!(answer.blocks[0], ContentBlock::Text("I look.".into()));
        assert!(
            matches!(&answer.blocks[1], ContentBlock::ToolCall(call) if call.input == json!({"command": "ls"}))
        );
        gateway.ask(&with_result(request("go", stream), "file")).unwrap();
    }
    assert_eq!(gateway.endings(4), [AnswerEnding::Complete; 4]);
    let usage = &gateway.gateway.usage()["claude-sonnet-4-5"];
    assert_eq!(usage.requests, 4);
    assert_eq!(usage.usage, TokenUsage { input: 600, output: 60, cache_read: 10, ..TokenUsage::default() });
    // 600 at $3, 60 at $15 and 10 at $0.30 the million.
    assert_eq!(usage.cost, Some(Money(600 * 3000 + 60 * 15_000 + 10 * 300)));
}

#[test]
fn every_format_passes_and_is_counted_alike() {
    let gateway = gateway(&plain(), TestSetup::default());
    for wire in Wire::ALL {
        for stream in [true, false] {
            let client = ModelClient::new(gateway.address, wire);
            let answer = client.ask(&request("go", stream), &mut |_| {}).unwrap();
            assert_eq!(answer.blocks[0], ContentBlock::Text("I look.".into()), "{wire:?}");
            assert_eq!(
                answer.usage,
                TokenUsage { input: 100, output: 10, cache_read: 5, ..TokenUsage::default() }
            );
        }
    }
    assert_eq!(gateway.endings(6), [AnswerEnding::Complete; 6]);
    let usage = &gateway.gateway.usage()["claude-sonnet-4-5"];
    assert_eq!((usage.requests, usage.usage.input, usage.usage.cache_read), (6, 600, 30));
}

#[test]
fn a_chat_stream_that_did_not_ask_for_usage_is_counted_and_not_shown_it() {
    let gateway = gateway(&plain(), TestSetup::default());
    let body = r#"{"model":"gpt-5","stream":true,"messages":[{"role":"user","content":"go"}],"tools":[{"type":"function","function":{"name":"Bash"}}]}"#;
    let answer = gateway.raw(&format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ));
    assert!(answer.contains("[DONE]") && !answer.contains("usage"), "{answer}");
    gateway.endings(1);
    assert_eq!(gateway.gateway.usage()["gpt-5"].usage.output, 10);
}

#[test]
fn the_judge_rewrites_a_result_before_the_model_sees_it() {
    let inspect: Inspect = Arc::new(|subject| match subject {
        Inspected::ToolResult { tool: Some("Bash"), text, .. } if text.contains("s3cret") => {
            Verdict::Replace(text.replace("s3cret", "[redacted]"))
        }
        _ => Verdict::Pass,
    });
    let gateway = gateway(&plain(), TestSetup { inspect, ..TestSetup::default() });
    gateway.ask(&with_result(request("go", true), "token=s3cret")).unwrap();
    let bodies = gateway.bodies.lock().unwrap();
    assert!(bodies[0].to_string().contains("token=[redacted]") && !bodies[0].to_string().contains("s3cret"));
}

#[test]
fn the_judge_rewrites_what_stands_beside_results() {
    let inspect: Inspect = Arc::new(|subject| match subject {
        Inspected::UserText { text, .. } if text.contains("s3cret") => {
            Verdict::Replace(text.replace("s3cret", "[redacted]"))
        }
        _ => Verdict::Pass,
    });
    let gateway = gateway(&plain(), TestSetup { inspect, ..TestSetup::default() });
    gateway.ask(&request("the task printed s3cret", true)).unwrap();
    let bodies = gateway.bodies.lock().unwrap();
    assert!(
        bodies[0].to_string().contains("printed [redacted]") && !bodies[0].to_string().contains("s3cret")
    );
}

#[test]
fn a_stop_ends_this_request_and_all_later_ones() {
    let inspect: Inspect = Arc::new(|subject| match subject {
        Inspected::ToolResult { text, .. } if text.contains("canary") => {
            Verdict::Stop("a canary left".into())
        }
        _ => Verdict::Pass,
    });
    let gateway = gateway(&plain(), TestSetup { inspect, ..TestSetup::default() });
    for request in [with_result(request("go", true), "the canary"), request("innocent", true)] {
        let error = gateway.ask(&request).unwrap_err();
        assert!(
            matches!(&error, ClientError::Fault { status: 403, fault } if fault.message.contains("canary")),
            "{error}"
        );
        assert!(!error.is_transient());
    }
    assert!(gateway.events().iter().any(|event| matches!(event, ModelEvent::Stop { .. })));
    assert!(gateway.bodies.lock().unwrap().is_empty());
}

#[test]
fn answers_are_judged_in_both_deliveries() {
    let inspect: Inspect = Arc::new(|subject| match subject {
        Inspected::Text { text } => Verdict::Replace(text.replace("s3cret", "[gone]")),
        Inspected::ToolCall { tool, input, .. } => Verdict::Deny(format!("{tool} with {input}")),
        _ => Verdict::Pass,
    });
    let scenario = json!({"turns": [[{"text": "a s3cret, "}, {"shell": "ls"}]]});
    let gateway = gateway(&scenario, TestSetup { inspect, ..TestSetup::default() });
    for stream in [true, false] {
        let answer = gateway.ask(&request("go", stream)).unwrap();
        assert_eq!(answer.blocks[0], ContentBlock::Text("a [gone], ".into()));
        let refused = r#"[fullsend denied the call to Bash: Bash with {"command":"ls"}]"#;
        assert_eq!(answer.blocks[1], ContentBlock::Text(refused.into()));
        assert_eq!(answer.stop, crate::wire::StopReason::EndTurn);
    }
}

#[test]
fn a_stop_in_an_answer_reaches_the_client_as_a_reason() {
    let inspect: Inspect = Arc::new(|subject| match subject {
        Inspected::ToolCall { .. } => Verdict::Stop("a canary in a call".into()),
        _ => Verdict::Pass,
    });
    for stream in [true, false] {
        let gateway = gateway(&plain(), TestSetup { inspect: Arc::clone(&inspect), ..TestSetup::default() });
        let error = gateway.ask(&request("go", stream)).unwrap_err();
        assert!(error.to_string().contains("a canary in a call") && !error.is_transient(), "{error}");
        assert_eq!(gateway.endings(1), [AnswerEnding::Stopped]);
        assert!(gateway.ask(&request("again", stream)).is_err());
    }
}

#[test]
fn only_new_results_are_fresh() {
    let fresh = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&fresh);
    let inspect: Inspect = Arc::new(move |subject| {
        if let Inspected::ToolResult { text, fresh, .. } = subject {
            noted.lock().unwrap().push(((*text).to_owned(), *fresh));
        }
        Verdict::Pass
    });
    let gateway = gateway(&plain(), TestSetup { inspect, ..TestSetup::default() });
    for _ in 0..2 {
        gateway.ask(&with_result(request("go", true), "one")).unwrap();
    }
    assert_eq!(*fresh.lock().unwrap(), [("one".to_owned(), true), ("one".to_owned(), false)]);
    assert_eq!(gateway.gateway.seen_results().len(), 2, "the result, and the words of the user");
}

#[test]
fn the_first_request_waits_for_the_start_hook() {
    let (hook, started) = tokio::sync::watch::channel(false);
    let start = Some(StartSignal { started, patience: Duration::from_secs(10) });
    let gateway = gateway(&plain(), TestSetup { start, ..TestSetup::default() });
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| gateway.ask(&request("go", true)));
        std::thread::sleep(Duration::from_millis(50));
        assert!(gateway.bodies.lock().unwrap().is_empty(), "held");
        hook.send_replace(true);
        asking.join().unwrap().unwrap();
    });
}

#[test]
fn a_start_hook_that_never_comes_stops_the_run() {
    let (hook, started) = tokio::sync::watch::channel(false);
    let start = Some(StartSignal { started, patience: Duration::from_millis(30) });
    let gateway = gateway(&plain(), TestSetup { start, ..TestSetup::default() });
    let error = gateway.ask(&request("go", true)).unwrap_err().to_string();
    assert!(error.contains("start hook did not reach"), "{error}");
    assert!(gateway.events().iter().any(|event| matches!(event, ModelEvent::Stop { .. })));
    assert!(gateway.bodies.lock().unwrap().is_empty());
    drop(hook);
}

#[test]
fn faults_of_the_upstream_reach_the_client_as_what_they_are() {
    let scenario = json!({"turns": [[{"text": "x"}]], "branches": [
        {"when": {"user_contains": "busy"}, "turns": [[{"error": 529}]]},
        {"when": {"user_contains": "cut"}, "turns": [[{"text": "half"}, {"cut": true}]]},
        {"when": {"user_contains": "tired"}, "turns": [[{"text": "half"}, {"error": 529}]]},
        {"when": {"user_contains": "silent"}, "turns": [[{"text": "half"}, {"sleep_ms": 5000}, {"text": "late"}]]}]});
    let gateway = gateway(&scenario, TestSetup::default());
    let fail = |text: &str| gateway.ask(&request(text, true)).unwrap_err();
    let busy = fail("busy");
    assert!(
        matches!(&busy, ClientError::Fault { status: 529, fault } if fault.kind == FaultKind::Overloaded),
        "{busy}"
    );
    assert!(fail("cut").is_transient());
    assert!(fail("tired").is_transient());
    assert!(fail("silent").is_transient());
    gateway.ask(&request("fine", true)).unwrap();
    assert_eq!(
        gateway.endings(5),
        [
            AnswerEnding::Fault,
            AnswerEnding::Cut,
            AnswerEnding::Fault,
            AnswerEnding::Cut,
            AnswerEnding::Complete
        ]
    );
}

#[test]
fn a_client_that_goes_away_is_noticed_while_the_model_is_silent() {
    let scenario = json!({"turns": [[{"text": "half"}, {"sleep_ms": 60_000}]]});
    let limits = GatewayLimits { answer_idle: Duration::from_secs(60), ..GatewayLimits::default() };
    let gateway = gateway(&scenario, TestSetup { limits, ..TestSetup::default() });
    let body = crate::wire::codec::write_request(Wire::Messages, &request("go", true)).to_string();
    let mut stream = TcpStream::connect(gateway.address).unwrap();
    write!(stream, "POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        .unwrap();
    stream.read_exact(&mut [0; 64]).unwrap();
    drop(stream);
    assert_eq!(gateway.endings(1), [AnswerEnding::ClientGone]);
}

#[test]
fn stopping_lets_the_answer_under_way_end() {
    let scenario = json!({"turns": [[{"text": "a"}, {"sleep_ms": 150}, {"text": "b"}]]});
    let mut gateway = gateway(&scenario, TestSetup::default());
    let address = gateway.address;
    let asking = std::thread::spawn(move || {
        ModelClient::new(address, Wire::Messages).ask(&request("go", true), &mut |_| {}).unwrap()
    });
    while gateway.bodies.lock().unwrap().is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let serving = gateway.serving.take().unwrap();
    gateway.runtime.block_on(serving.stop(Duration::from_secs(5)));
    assert_eq!(asking.join().unwrap().blocks.len(), 2);
    assert!(gateway.ask(&request("late", true)).is_err());
}

#[test]
fn eight_at_once_never_spend_more_than_the_budget() {
    // One request may need (body bytes at $6) + (1000 at $15) of a million, and really costs $0.003 + $0.015.
    let usage = json!({"usage": {"input": 1000, "output": 1000}});
    let scenario = json!({"turns": [[{"sleep_ms": 20}, {"text": "x"}, usage]]});
    let most = Money::from_usd(0.1).unwrap();
    let setup = TestSetup {
        budget: BudgetLimits { usd: Some(most), ..BudgetLimits::default() },
        ..TestSetup::default()
    };
    let gateway = gateway(&scenario, setup);
    let long = "x".repeat(1000);
    let outcomes: Vec<bool> = std::thread::scope(|scope| {
        let asks: Vec<_> = (0..8)
            .map(|lane| {
                let gateway = &gateway;
                let long = &long;
                scope.spawn(move || {
                    (0..8)
                        .map(|n| gateway.ask(&request(&format!("{lane} {n} {long}"), true)).is_ok())
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        asks.into_iter().flat_map(|ask| ask.join().unwrap()).collect()
    });
    let passed = outcomes.iter().filter(|passed| **passed).count();
    let spent = gateway.gateway.usage()["claude-sonnet-4-5"].cost.unwrap();
    assert!(spent <= most, "{spent}");
    // Five times $0.018 fit; a sixth would not.
    assert_eq!(passed, 5, "{spent}");
    let events = gateway.events();
    let count = |wanted: fn(&ModelEvent) -> bool| events.iter().filter(|event| wanted(event)).count();
    assert_eq!(count(|event| matches!(event, ModelEvent::BudgetWarning { .. })), 1);
    assert_eq!(count(|event| matches!(event, ModelEvent::BudgetSpent { .. })), 1);
    let error = gateway.ask(&request("more", true)).unwrap_err().to_string();
    assert!(error.contains("$0.0900 of $0.1000 are spent") && error.contains("`budget`"), "{error}");
}
