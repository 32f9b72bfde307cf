//! Which requests pass, and what is charged when a client or a vendor misbehaves.

use super::*;
use crate::AllowedFeatures;

fn post(gateway: &TestGateway, path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    gateway.raw(&format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}"
    ))
}

const HELLO: &str =
    r#"{"model":"claude-sonnet-4-5","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;

#[test]
fn bad_requests_are_refused_in_the_vendors_form_and_cost_nothing() {
    let limits = GatewayLimits { request_bytes: 100, ..GatewayLimits::default() };
    let gateway = gateway(&plain(), TestSetup { limits, ..TestSetup::default() });
    let post = |path: &str, headers: &str, body: &str| {
        let length = body.len();
        gateway.raw(&format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}"
        ))
    };
    for (answer, status, reason) in [
        (post("/v1/other", "", "{}"), "404", "has no /v1/other"),
        (post("/v1/messages", "", "{}"), "400", "missing field `model`"),
        (post("/v1/messages", "content-encoding: gzip\r\n", "{}"), "400", "send it plain"),
        (post("/v1/messages", "", &"x".repeat(101)), "413", "larger than 100 bytes"),
        (
            gateway.raw("GET /v1/messages HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"),
            "400",
            "takes POST",
        ),
    ] {
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        let body = answer.split("\r\n\r\n").nth(1).unwrap_or_default();
        let error: Value = serde_json::from_str(body).unwrap();
        assert!(error["error"]["message"].as_str().unwrap().contains(reason), "{error}");
    }
    assert!(gateway.raw("\0\0\0garbage\r\n\r\n").starts_with("HTTP/1.1 400"));
    assert!(gateway.bodies.lock().unwrap().is_empty());
    assert!(gateway.gateway.usage().is_empty());
}

#[test]
fn what_the_vendor_would_do_by_itself_is_refused_and_nothing_is_sent() {
    let gateway = gateway(&plain(), TestSetup::default());
    let with = |more: &str| HELLO.replacen('{', &format!("{{{more},"), 1);
    for (headers, body, feature) in [
        ("", with(r#""mcp_servers":[{"type":"url","url":"https://x.example"}]"#), "`field:mcp_servers`"),
        ("", with(r#""tools":[{"type":"web_search_20250305","name":"w"}]"#), "`tool:web_search_20250305`"),
        ("anthropic-beta: mcp-client-2025-11-20\r\n", HELLO.to_owned(), "`beta:mcp-client-2025-11-20`"),
        ("", with(r#""tools":[],"tools":[{"type":"web_search_20250305","name":"w"}]"#), "occurs twice"),
    ] {
        let answer = post(&gateway, "/v1/messages?beta=true", headers, &body);
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains(feature), "{answer}");
    }
    let answer = post(&gateway, "/v1/messages?beta=false", "", HELLO);
    assert!(answer.contains("`query:beta=false`"), "{answer}");
    let values = format!(r#"{{"model":"m","messages":[{}0]}}"#, "0,".repeat(300_000));
    assert!(post(&gateway, "/v1/messages", "", &values).contains("too many values"));
    assert!(gateway.bodies.lock().unwrap().is_empty());
    let refused = |event: &&ModelEvent| matches!(event, ModelEvent::ModelRefused { .. });
    assert_eq!(gateway.events().iter().filter(refused).count(), 6);
}

#[test]
fn only_the_wires_the_models_and_the_programs_of_the_run_pass() {
    let allowed = vec!["client:/usr/bin/python3".to_owned(), "tool:web_search_*".to_owned()];
    let rules = RequestRules {
        wires: vec![Wire::Messages],
        models: ModelRules::Named(vec!["sonnet".to_owned()]),
        features: AllowedFeatures::new(allowed),
    };
    let program = Arc::new(Mutex::new(Err("/usr/bin/curl".to_owned())));
    let asked = Arc::clone(&program);
    let check: CheckClient = Arc::new(move |_, _| asked.lock().unwrap().clone());
    let scenario = json!({"turns": [[{"text": "hello"}]]});
    let gateway = gateway(&scenario, TestSetup { rules, check: Some(check), ..TestSetup::default() });
    let answer = post(&gateway, "/v1/messages", "", HELLO);
    assert!(answer.contains("this request came from /usr/bin/curl"), "{answer}");
    *program.lock().unwrap() = Err("/usr/bin/python3".to_owned());
    assert!(post(&gateway, "/v1/messages", "", HELLO).starts_with("HTTP/1.1 200 "));
    *program.lock().unwrap() = Ok(());
    let searching = HELLO.replacen('{', r#"{"tools":[{"type":"web_search_20250305","name":"w"}],"#, 1);
    assert!(post(&gateway, "/v1/messages", "", &searching).starts_with("HTTP/1.1 200 "));
    let answer = post(&gateway, "/v1/messages", "", &HELLO.replace("sonnet", "opus"));
    assert!(answer.contains("not the model `claude-opus-4-5`"), "{answer}");
    let answer = post(&gateway, "/v1/chat/completions", "", HELLO);
    assert!(answer.contains("does not use /v1/chat/completions"), "{answer}");
}

#[test]
fn documents_system_texts_and_tool_descriptions_are_inspected() {
    let inspect: Inspect = Arc::new(|subject| match subject {
        Inspected::SystemText { text, .. }
        | Inspected::Document { text, .. }
        | Inspected::ToolResult { text, .. }
        | Inspected::ToolDescription { text, .. } => Verdict::Replace(text.replace("s3cret", "[gone]")),
        _ => Verdict::Pass,
    });
    let gateway = gateway(&plain(), TestSetup { inspect, ..TestSetup::default() });
    let document = |text: &str| json!({"type": "document", "source": {"type": "text", "data": text}});
    let search = json!({"type": "search_result", "source": "x", "title": "t s3cret", "content": [{"type": "text", "text": "c s3cret"}]});
    let body = json!({
        "model": "claude-sonnet-4-5", "max_tokens": 9, "system": [{"type": "text", "text": "one s3cret"}],
        "tools": [{"name": "T", "description": "d s3cret", "input_schema": {"properties": {"a": {"description": "a s3cret", "enum": ["x", "e s3cret"]}}}}],
        "messages": [
            {"role": "user", "content": [document("u s3cret")]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "T", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [document("r s3cret"), search]}]},
        ],
    });
    let answer = post(&gateway, "/v1/messages", "", &body.to_string());
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let sent = gateway.bodies.lock().unwrap()[0].to_string();
    assert!(!sent.contains("s3cret") && sent.matches("[gone]").count() == 8, "{sent}");
}

/// The cost of the single request.
fn charged(gateway: &TestGateway) -> (TokenUsage, bool) {
    gateway.endings(1);
    let events = gateway.events();
    let answer = events.iter().find_map(|event| match event {
        ModelEvent::ModelAnswer { usage, estimated, .. } => Some((*usage, *estimated)),
        _ => None,
    });
    answer.unwrap()
}

#[test]
fn a_client_that_hangs_up_pays_for_the_whole_answer() {
    let scenario = json!({"turns": [[
        {"text": "first"}, {"sleep_ms": 300}, {"text": "second"}, {"usage": {"input": 600, "output": 60}}]]});
    let gateway = gateway(&scenario, TestSetup::default());
    let body = HELLO.replacen('{', r#"{"stream":true,"#, 1);
    let mut stream = TcpStream::connect(gateway.address).unwrap();
    let head =
        format!("POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(head.as_bytes()).unwrap();
    let mut some = [0; 64];
    stream.read_exact(&mut some).unwrap();
    drop(stream);
    let (usage, estimated) = charged(&gateway);
    assert_eq!((usage.input, usage.output, estimated), (600, 60, false));
    assert_eq!(gateway.endings(1), [AnswerEnding::ClientGone]);
}

#[test]
fn an_answer_that_is_cut_or_without_usage_costs_what_was_reserved() {
    for acts in [json!([{"text": "first"}, {"cut": true}]), json!([{"text": "free"}, {"usage": {}}])] {
        for stream in [true, false] {
            let gateway = gateway(&json!({ "turns": [acts] }), TestSetup::default());
            drop(gateway.ask(&request("go", stream)));
            let (usage, estimated) = charged(&gateway);
            assert!(estimated && usage.output == 1000 && usage.input > 100, "{acts} {stream} {usage:?}");
            assert!(gateway.gateway.usage()["claude-sonnet-4-5"].cost.unwrap() > Money(1000 * 15_000));
        }
    }
}

#[test]
fn a_long_context_is_asked_for_as_the_service_wants_it() {
    let gateway = gateway(&plain(), TestSetup::default());
    let mut request = request("go", true);
    request.model = "claude-sonnet-4-5[1m]".into();
    gateway.ask(&request).unwrap();
    assert_eq!(gateway.bodies.lock().unwrap()[0]["model"], "claude-sonnet-4-5");
}

#[test]
fn a_conversation_that_does_not_fit_is_told() {
    let words = "prompt is too long: 210000 tokens > 200000 maximum";
    let scenario = json!({"turns": [[{"error": 400, "message": words, "times": 9}]]});
    let gateway = gateway(&scenario, TestSetup::default());
    let error = gateway.ask(&request("go", true)).unwrap_err();
    assert!(error.to_string().contains(words), "the vendor's words pass: {error}");
    let told = gateway.gateway.too_long().unwrap();
    assert_eq!(told, format!("the conversation does not fit into the context of claude-sonnet-4-5: {words}"));
    assert!(gateway.events().iter().any(|event| matches!(event, ModelEvent::ContextTooLong { .. })));
}
