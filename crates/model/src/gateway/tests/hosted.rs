//! Claude's format at the addresses of Google and Amazon: every rule of the gateway holds there.

use super::*;
use crate::AllowedFeatures;
use crate::upstream::event_stream::testing::events;

const VERTEX: &str = "/v1/projects/p/locations/eu/publishers/anthropic/models";

fn post(gateway: &TestGateway, path: &str, body: &Value) -> (String, Vec<u8>) {
    let body = body.to_string();
    let mut stream = TcpStream::connect(gateway.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    write!(stream, "POST {path} HTTP/1.0\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        .unwrap();
    let mut answer = Vec::new();
    let _end = stream.read_to_end(&mut answer);
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    (String::from_utf8(answer[..end].to_vec()).unwrap(), answer.split_off(end + 4))
}

fn body(version: &str) -> Value {
    let mut body = crate::wire::codec::write_request(Wire::Messages, &request("go", true));
    for name in ["model", "stream"] {
        body.as_object_mut().unwrap().remove(name);
    }
    body["anthropic_version"] = json!(version);
    body
}

fn vertex() -> Value {
    body("vertex-2023-10-16")
}

fn bedrock() -> Value {
    body("bedrock-2023-05-31")
}

#[test]
fn both_services_are_answered_in_their_own_framing_and_billed() {
    let gateway = gateway(&plain(), TestSetup::default());
    let mut streamed = vertex();
    streamed["stream"] = json!(true);
    // As Claude Code sends it, whether it searches or not.
    streamed["anthropic_beta"] = json!(["web-search-2025-03-05", "effort-2025-11-24"]);
    let (head, answer) =
        post(&gateway, &format!("{VERTEX}/claude-sonnet-4-5@20250929:streamRawPredict"), &streamed);
    assert!(head.contains("text/event-stream"), "{head}");
    let text = String::from_utf8(answer).unwrap();
    assert!(text.contains("event: message_stop") && text.contains("I look."), "{text}");
    let (head, answer) = post(&gateway, &format!("{VERTEX}/claude-sonnet-4-5:rawPredict"), &vertex());
    assert!(head.starts_with("HTTP/1.0 200") && head.contains("application/json"), "{head}");
    assert_eq!(serde_json::from_slice::<Value>(&answer).unwrap()["content"][0]["text"], "I look.");

    let id = "eu.anthropic.claude-sonnet-4-5-20250929-v1%3A0";
    let (head, answer) = post(&gateway, &format!("/model/{id}/invoke-with-response-stream"), &bedrock());
    assert!(head.contains("content-type: application/vnd.amazon.eventstream"), "{head}");
    let text = events(&answer);
    assert!(text.starts_with("event: message_start") && text.contains("I look."), "{text}");
    assert!(text.ends_with("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"), "{text}");
    let (_, answer) = post(&gateway, &format!("/model/{id}/invoke"), &bedrock());
    assert_eq!(serde_json::from_slice::<Value>(&answer).unwrap()["content"][0]["text"], "I look.");

    assert_eq!(gateway.endings(4), [AnswerEnding::Complete; 4]);
    let usage = gateway.gateway.usage();
    let totals = |model: &str| (usage[model].requests, usage[model].usage.input, usage[model].cost.is_some());
    assert_eq!(totals("claude-sonnet-4-5@20250929"), (1, 100, true));
    assert_eq!(totals("eu.anthropic.claude-sonnet-4-5-20250929-v1:0"), (2, 200, true));
    let bodies = gateway.bodies.lock().unwrap();
    assert!(bodies.iter().all(|body| body.get("anthropic_version").is_none() && body["model"].is_string()));
}

#[test]
fn what_is_refused_at_the_vendors_address_is_refused_at_these_too() {
    let models = ModelRules::Named(vec!["claude-sonnet-4-5".to_owned()]);
    let rules = RequestRules { models, ..RequestRules::default() };
    let gateway = gateway(&plain(), TestSetup { rules, ..TestSetup::default() });
    let with = |mut body: Value, name: &str, value: Value| {
        body[name] = value;
        body
    };
    let searching = json!([{ "type": "web_search_20250305", "name": "w" }]);
    let sonnet = "/model/us.anthropic.claude-sonnet-4-5-20250929-v1:0/invoke-with-response-stream".to_owned();
    let at_google = format!("{VERTEX}/claude-sonnet-4-5:rawPredict");
    for (path, body, reason) in [
        (&sonnet, with(bedrock(), "tools", searching.clone()), "`tool:web_search_20250305`"),
        (&at_google, with(vertex(), "tools", searching), "`tool:web_search_20250305`"),
        (&sonnet, with(bedrock(), "anthropic_beta", json!(["mcp-client-2025-11-20"])), "`beta:mcp-client-"),
        (&sonnet, with(bedrock(), "anthropic_beta", json!("x")), "is not a list of names"),
        (&sonnet, with(bedrock(), "model", json!("claude-sonnet-4-5")), "belongs into the address"),
        (&sonnet, vertex(), "is not `bedrock-2023-05-31`"),
        (&at_google, with(vertex(), "stream", json!(true)), "`stream` and the address differ"),
        (&"/model/anthropic.claude-opus-4-1/invoke".to_owned(), bedrock(), "not the model"),
        (&format!("{VERTEX}/claude-opus-4-1:rawPredict"), vertex(), "not the model"),
        (&"/model/claude-sonnet-4-5%3Aonline/invoke".to_owned(), bedrock(), "not the model"),
    ] {
        let (head, answer) = post(&gateway, path, &body);
        let error: Value = serde_json::from_slice(&answer).unwrap();
        assert!(head.starts_with("HTTP/1.0 400"), "{path}: {head}");
        let place = if path.starts_with("/model/") { "/message" } else { "/error/message" };
        assert!(error.pointer(place).unwrap().as_str().unwrap().contains(reason), "{path}: {error}");
    }
    for path in ["/model//invoke", "/model/x/converse", "/v1/projects/p/models/x:rawPredict"] {
        assert!(post(&gateway, path, &bedrock()).0.starts_with("HTTP/1.0 404"), "{path}");
    }
    assert!(gateway.bodies.lock().unwrap().is_empty(), "nothing was sent");
    let (head, _) = post(&gateway, &sonnet, &bedrock());
    assert!(head.starts_with("HTTP/1.0 200"), "{head}");
}

#[test]
fn results_are_masked_and_budgets_hold() {
    let inspect: Inspect = Arc::new(|subject| match subject {
        Inspected::ToolResult { text, .. } if text.contains("s3cret") => {
            Verdict::Replace(text.replace("s3cret", "[redacted]"))
        }
        _ => Verdict::Pass,
    });
    let features = AllowedFeatures::new(vec!["beta:files-api-*".to_owned()]);
    let rules = RequestRules { features, ..RequestRules::default() };
    let budget = BudgetLimits { turns: Some(1), ..BudgetLimits::default() };
    let gateway = gateway(&plain(), TestSetup { inspect, rules, budget, ..TestSetup::default() });
    let written =
        crate::wire::codec::write_request(Wire::Messages, &with_result(request("go", true), "token=s3cret"));
    let mut asked = bedrock();
    asked["messages"] = written["messages"].clone();
    asked["anthropic_beta"] = json!(["files-api-2025-04-14"]);
    let path = "/model/claude-sonnet-4-5/invoke-with-response-stream";
    assert!(post(&gateway, path, &asked).0.starts_with("HTTP/1.0 200"));
    let seen = gateway.bodies.lock().unwrap()[0].to_string();
    assert!(seen.contains("token=[redacted]") && !seen.contains("s3cret"), "{seen}");
    gateway.endings(1);
    let (head, answer) = post(&gateway, path, &bedrock());
    assert!(
        head.starts_with("HTTP/1.0 400") && head.contains("x-amzn-errortype: ValidationException"),
        "{head}"
    );
    assert!(String::from_utf8(answer).unwrap().contains("budget"));
}

#[test]
fn a_stream_that_is_stopped_ends_with_an_exception() {
    let inspect: Inspect = Arc::new(|subject| match subject {
        Inspected::Text { .. } => Verdict::Stop("the answer holds a canary token".to_owned()),
        _ => Verdict::Pass,
    });
    let gateway = gateway(&plain(), TestSetup { inspect, ..TestSetup::default() });
    let (_, answer) = post(&gateway, "/model/claude-sonnet-4-5/invoke-with-response-stream", &bedrock());
    let text = String::from_utf8_lossy(&answer);
    assert!(text.contains("exception") && text.contains("the answer holds a canary token"), "{text}");
    assert!(!text.contains("I look."), "{text}");
}
