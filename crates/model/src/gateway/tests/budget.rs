//! Budgets of the gateway: dollars, turns and tokens.

use super::*;

#[test]
fn a_dollar_budget_refuses_a_model_without_a_price() {
    let usd = Some(Money::from_usd(10.0).unwrap());
    let gateway = gateway(
        &plain(),
        TestSetup { budget: BudgetLimits { usd, ..BudgetLimits::default() }, ..TestSetup::default() },
    );
    let mut request = request("go", true);
    request.model = "unheard-of".into();
    let error = gateway.ask(&request).unwrap_err().to_string();
    assert!(error.contains("unheard-of has no price"), "{error}");
}

#[test]
fn turns_and_tokens_are_bounded_too() {
    for (budget, reason) in [
        (BudgetLimits { turns: Some(2), ..BudgetLimits::default() }, "2 of 2 turns are used"),
        (BudgetLimits { tokens: Some(2600), ..BudgetLimits::default() }, "of 2600 tokens are spent"),
    ] {
        let gateway = gateway(
            &json!({"turns": [[{"text": "x"}, {"usage": {"output": 700}}]]}),
            TestSetup { budget, ..TestSetup::default() },
        );
        gateway.ask(&request("one", true)).unwrap();
        gateway.ask(&request("two", false)).unwrap();
        let error = gateway.ask(&request("three", true)).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

fn dollars(usd: f64) -> TestSetup {
    let usd = Some(Money::from_usd(usd).unwrap());
    TestSetup { budget: BudgetLimits { usd, ..BudgetLimits::default() }, ..TestSetup::default() }
}

#[test]
fn an_answer_is_shortened_to_what_is_left() {
    for (wire, field) in [
        (Wire::Messages, "max_tokens"),
        (Wire::Responses, "max_output_tokens"),
        (Wire::Chat, "max_completion_tokens"),
    ] {
        let gateway = gateway(&plain(), dollars(0.03));
        let mut request = request("go", true);
        // $0.48 at $15 the million.
        request.max_tokens = Some(32_000);
        ModelClient::new(gateway.address, wire).ask(&request, &mut |_| {}).unwrap();
        let asked = gateway.bodies.lock().unwrap()[0][field].as_u64().unwrap();
        assert!((1024..=2000).contains(&asked), "{wire:?}: {asked}");
        let shortened = gateway.events().iter().find_map(|event| match event {
            ModelEvent::ModelRequest { shortened_to, .. } => *shortened_to,
            _ => None,
        });
        assert_eq!(shortened, Some(asked), "{wire:?}");
    }
}

#[test]
fn thinking_keeps_its_room_when_an_answer_is_shortened() {
    let gateway = gateway(&plain(), dollars(0.03));
    let body = r#"{"model":"claude-sonnet-4-5","max_tokens":9000,"thinking":{"type":"enabled","budget_tokens":1500},
        "messages":[{"role":"user","content":"go"}]}"#;
    let answer = gateway.raw(&format!(
        "POST /v1/messages HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ));
    assert!(answer.contains("the budget of this run does not allow"), "{answer}");
}

#[test]
fn a_refusal_shows_what_was_asked_reserved_spent_and_left() {
    let scenario = json!({"turns": [[{"text": "x"}, {"usage": {"input": 0, "output": 1000}}]]});
    let gateway = gateway(&scenario, dollars(0.02));
    gateway.ask(&request("one", true)).unwrap();
    let error = gateway.ask(&request("two", true)).unwrap_err().to_string();
    for part in [
        "$0.0150 of $0.0200 are spent",
        "reserved for requests that are not answered yet: $0.0000",
        "left: $0.0050",
        "this request can cost $0.01",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn an_error_in_the_middle_of_an_answer_is_not_free() {
    let scenario = json!({"turns": [[{"text": "half of an answer"}, {"error": 529, "times": 99}]]});
    let gateway = gateway(&scenario, dollars(0.02));
    assert!(gateway.ask(&request("one", true)).is_err());
    assert_eq!(gateway.endings(1), [AnswerEnding::Fault]);
    let spent = gateway.gateway.usage()["claude-sonnet-4-5"].cost.unwrap();
    // 1000 tokens of output were reserved.
    assert!(spent >= Money::from_usd(0.015).unwrap(), "{spent}");
    let error = gateway.ask(&request("two", true)).unwrap_err().to_string();
    assert!(error.contains("are spent"), "{error}");
}

/// Reads so many bytes of an answer and hangs up.
fn hang_up_after(address: SocketAddr, bytes: usize) {
    let body = crate::wire::codec::write_request(Wire::Messages, &request("go", true)).to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(
        stream,
        "POST /v1/messages HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    // A refusal is shorter.
    let _short = stream.read_exact(&mut vec![0; bytes]);
}

#[test]
fn streams_that_hang_up_never_exceed_the_budget_and_are_never_charged_less() {
    let usage = json!({"usage": {"input": 100, "output": 800}});
    let scenario = json!({"turns": [[{"text": "a"}, {"sleep_ms": 30}, {"text": "b"}, {"sleep_ms": 30}, {"text": "c"}, usage]]});
    let most = Money::from_usd(0.1).unwrap();
    // What the model wrote: 100 tokens at $3 and 800 at $15 the million.
    let real = 100 * 3000 + 800 * 15_000;
    for drain_ms in [5000, 1] {
        let mut setup = dollars(0.1);
        setup.limits.drain_time = Duration::from_millis(drain_ms);
        let gateway = gateway(&scenario, setup);
        std::thread::scope(|scope| {
            for lane in 0..8_usize {
                let address = gateway.address;
                scope.spawn(move || {
                    for round in 0..3_usize {
                        hang_up_after(address, 1 + (lane * 389 + round * 241) % 1500);
                    }
                });
            }
        });
        let sent = gateway.bodies.lock().unwrap().len();
        gateway.endings(sent);
        let spent = gateway.gateway.usage()["claude-sonnet-4-5"].cost.unwrap();
        assert!(spent <= most, "{spent} with {drain_ms} ms");
        assert!(spent.0 >= sent as u64 * real, "{spent} for {sent} requests with {drain_ms} ms");
    }
}

#[test]
fn what_the_vendor_counted_once_is_not_reserved_by_its_bytes_again() {
    // 40,000 bytes at $6 the million are $0.24; the vendor counts 5,000 tokens, which are $0.015.
    let scenario = json!({"turns": [
        [{"shell": "ls"}, {"usage": {"input": 5000, "output": 10}}],
        [{"text": "x"}, {"usage": {"input": 5100, "output": 10}}]]});
    let gateway = gateway(&scenario, dollars(0.26));
    let long = request(&"x".repeat(40_000), true);
    gateway.ask(&long).unwrap();
    gateway.endings(1);
    gateway.ask(&with_result(long, "file")).unwrap();
    gateway.endings(2);
    let other = gateway.ask(&request(&"y".repeat(45_000), true)).unwrap_err();
    assert!(other.to_string().contains("the budget of this run does not allow"), "{other}");
}

/// A budget that another run has spent from.
struct Shared(Mutex<SharedState>, &'static str);

impl SharedBudget for Shared {
    fn field(&self) -> &str {
        self.1
    }

    fn state(&self) -> Result<SharedState, String> {
        Ok(*self.0.lock().unwrap())
    }

    fn reserve(&self, amount: Money) -> Result<bool, String> {
        let mut state = self.0.lock().unwrap();
        let fits = amount <= state.left();
        state.reserved = if fits { state.reserved.plus(amount) } else { state.reserved };
        Ok(fits)
    }

    fn settle(&self, reserved: Money, spent: Money) {
        let mut state = self.0.lock().unwrap();
        *state = SharedState {
            limit: state.limit,
            spent: state.spent.plus(spent),
            reserved: state.reserved.minus(reserved),
        };
    }
}

fn shared(limit: f64, spent: f64) -> (Arc<Shared>, TestSetup) {
    let dollars = |usd| Money::from_usd(usd).unwrap();
    let state = SharedState { limit: dollars(limit), spent: dollars(spent), reserved: Money(0) };
    let budget = Arc::new(Shared(Mutex::new(state), "budget.day_usd"));
    let shared_budgets = SharedBudgets::new(vec![budget.clone()]);
    (budget, TestSetup { shared_budgets, ..TestSetup::default() })
}

#[test]
fn a_shared_budget_shortens_then_refuses_and_gets_back_what_was_not_spent() {
    let (budget, setup) = shared(1.0, 0.97);
    let gateway = gateway(&plain(), setup);
    let mut long = request("go", true);
    long.max_tokens = Some(32_000);
    gateway.ask(&long).unwrap();
    let asked = gateway.bodies.lock().unwrap()[0]["max_tokens"].as_u64().unwrap();
    assert!((1024..=2000).contains(&asked), "{asked}");
    // The answer is settled after its last byte.
    let warned = (0..200).find_map(|_| {
        let warning = gateway.events().into_iter().find_map(|event| match event {
            ModelEvent::BudgetWarning { spent } => Some(spent),
            _ => None,
        });
        if warning.is_none() {
            std::thread::sleep(Duration::from_millis(10));
        }
        warning
    });
    assert!(warned.unwrap().contains("(`budget.day_usd`)"));
    let state = *budget.0.lock().unwrap();
    assert_eq!(state.reserved, Money(0));
    assert!(state.spent > Money::from_usd(0.97).unwrap(), "{state:?}");

    budget.0.lock().unwrap().spent = state.limit;
    let error = gateway.ask(&long).unwrap_err().to_string();
    for part in
        ["`budget.day_usd` does not allow", "$1.0000 of $1.0000 are spent", "left: $0.0000", "can cost $0.4"]
    {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert!(gateway.gateway.budget_refused().unwrap().contains("`budget.day_usd`"));
}

#[test]
fn each_budget_warns_once() {
    let limit = Money::from_usd(1.0).unwrap();
    let spent = Money::from_usd(0.85).unwrap();
    let state = SharedState { limit, spent, reserved: Money(0) };
    let fields = ["budget.day_usd", "budget.organisation_day_usd"];
    let shared = fields.map(|field| Arc::new(Shared(Mutex::new(state), field)) as Arc<dyn SharedBudget>);
    let budget = BudgetLimits { turns: Some(2), ..BudgetLimits::default() };
    let shared_budgets = SharedBudgets::new(shared.to_vec());
    let gateway = gateway(&plain(), TestSetup { budget, shared_budgets, ..TestSetup::default() });
    for word in ["one", "two"] {
        gateway.ask(&request(word, true)).unwrap();
    }
    gateway.endings(2);
    let warnings = || -> Vec<String> {
        let text = |event| match event {
            ModelEvent::BudgetWarning { spent } => Some(spent),
            _ => None,
        };
        gateway.events().into_iter().filter_map(text).collect()
    };
    // The last answer is settled after its last byte.
    for _ in 0..200 {
        if warnings().len() >= 3 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let all = warnings();
    for words in ["(`budget.day_usd`)", "(`budget.organisation_day_usd`)", "2 of 2 turns are used"] {
        assert_eq!(all.iter().filter(|text| text.contains(words)).count(), 1, "{words}: {all:?}");
    }
    assert_eq!(all.len(), 3, "{all:?}");
}

#[test]
fn a_shared_budget_refuses_a_model_without_a_price() {
    let (_, setup) = shared(10.0, 0.0);
    let gateway = gateway(&plain(), setup);
    let mut request = request("go", true);
    request.model = "unheard-of".into();
    let error = gateway.ask(&request).unwrap_err().to_string();
    assert!(error.contains("unheard-of has no price"), "{error}");
}
