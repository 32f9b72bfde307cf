//! Counts of tokens, at the address of each service, through to the upstream's own.

use super::matrix::{service_gateway, vendor};
use super::*;

const VERTEX: &str = "/v1/projects/p/locations/eu/publishers/anthropic/models/count-tokens:rawPredict";

fn post(gateway: &TestGateway, path: &str, body: &Value) -> (u16, Value) {
    let body = body.to_string();
    let mut stream = TcpStream::connect(gateway.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let length = body.len();
    write!(stream, "POST {path} HTTP/1.0\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    let _end = stream.read_to_string(&mut answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_default())
}

fn messages(model: &str, text: &str) -> Value {
    json!({ "model": model, "messages": [{ "role": "user", "content": text }] })
}

fn without_model(mut body: Value, version: &str) -> Value {
    body.as_object_mut().unwrap().remove("model");
    body["anthropic_version"] = json!(version);
    body
}

fn bedrock_count(inner: &Value) -> Value {
    let inner = data_encoding::BASE64.encode(inner.to_string().as_bytes());
    json!({ "input": { "invokeModel": { "body": inner } } })
}

#[test]
fn each_service_counts_at_its_own_address() {
    let model = "claude-sonnet-4-5-20250929";
    let at_vertex = {
        let mut body = without_model(messages(model, "count me"), "vertex-2023-10-16");
        body["model"] = json!("claude-sonnet-4-5@20250929");
        body
    };
    let mut invocation = without_model(messages(model, "count me"), "bedrock-2023-05-31");
    invocation["max_tokens"] = json!(1);
    let at_bedrock = bedrock_count(&invocation);
    let bedrock_path = "/model/eu.anthropic.claude-sonnet-4-5-20250929-v1%3A0/count-tokens";
    let own = "/v1/messages/count_tokens?beta=true";
    for (service, path, body, field) in [
        ("anthropic", own, messages(model, "count me"), "input_tokens"),
        ("vertex", own, messages(model, "count me"), "input_tokens"),
        ("vertex", VERTEX, at_vertex, "input_tokens"),
        ("bedrock", own, messages(model, "count me"), "input_tokens"),
        ("bedrock", bedrock_path, at_bedrock, "inputTokens"),
    ] {
        let (port, bodies) = vendor();
        let gateway = service_gateway(service, None, port, bodies);
        let (status, answer) = post(&gateway, path, &body);
        assert_eq!((status, answer), (200, json!({ field: 77 })), "{service} {path}");
        let sent = gateway.bodies.lock().unwrap().clone();
        assert_eq!(sent.len(), 1, "{service} {path}");
        assert_eq!(sent[0]["messages"][0]["content"], "count me", "{service} {path}");
        assert!(sent[0].get("stream").is_none(), "{service} {path}: {}", sent[0]);
        assert!(gateway.gateway.usage().is_empty(), "a count is not billed");
        let counted = gateway
            .events()
            .into_iter()
            .any(|event| matches!(event, ModelEvent::TokensCounted { tokens: Some(77), .. }));
        assert!(counted, "{service} {path}");
    }
}

#[test]
fn a_service_without_counts_says_so() {
    let (port, bodies) = vendor();
    let gateway = service_gateway("openai", Some("chat"), port, bodies);
    let (status, answer) = post(&gateway, "/v1/messages/count_tokens", &messages("m", "count me"));
    assert_eq!(status, 404, "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("does not count tokens"), "{answer}");
    assert!(gateway.bodies.lock().unwrap().is_empty());
}

#[test]
fn the_rules_for_requests_hold_for_counts() {
    let (port, bodies) = vendor();
    let inspect: Inspect = Arc::new(|subject| match subject {
        Inspected::Counted { text } if text.contains("s3cret") => {
            Verdict::Replace(text.replace("s3cret", "[redacted]"))
        }
        _ => Verdict::Pass,
    });
    let models = ModelRules::Named(vec!["claude-sonnet-4-5".to_owned()]);
    let rules = RequestRules { models, ..RequestRules::default() };
    let budget = BudgetLimits { turns: Some(0), ..BudgetLimits::default() };
    let setup = TestSetup { inspect, rules, budget, ..TestSetup::default() };
    let gateway = matrix::service_gateway_with("anthropic", None, port, bodies, setup);
    let path = "/v1/messages/count_tokens";
    let mut searching = messages("claude-sonnet-4-5", "go");
    searching["tools"] = json!([{ "type": "web_search_20250305", "name": "w" }]);
    for (body, words) in
        [(messages("claude-opus-4-5", "go"), "not the model"), (searching, "`tool:web_search_20250305`")]
    {
        let (status, answer) = post(&gateway, path, &body);
        assert_eq!(status, 400, "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(words), "{answer}");
    }
    assert!(gateway.bodies.lock().unwrap().is_empty());
    let mut asked = messages("claude-sonnet-4-5", "the key is s3cret");
    let result = json!({ "type": "tool_result", "tool_use_id": "t", "content": "and s3cret" });
    let call = json!({ "type": "tool_use", "id": "t", "name": "Bash", "input": {} });
    asked["messages"].as_array_mut().unwrap().extend([
        json!({ "role": "assistant", "content": [call] }),
        json!({ "role": "user", "content": [result] }),
    ]);
    let (status, answer) = post(&gateway, path, &asked);
    assert_eq!(status, 200, "{answer}");
    let sent = gateway.bodies.lock().unwrap()[0].to_string();
    assert!(sent.contains("the key is [redacted]") && sent.contains("and [redacted]"), "{sent}");
    assert!(!sent.contains("s3cret"), "{sent}");
}
