//! Every service with every wire format that it takes, and what can happen to a request: one fake vendor over real sockets,
//! which speaks each service's own addresses and framing.

use super::*;
use crate::translate;
use crate::upstream::event_stream;
use crate::upstream::{HttpUpstream, NamedCredential, SERVICES, Service, ServiceSettings};
use crate::wire::codec;
use egress::credentials::{CredentialSource, Secret};
use egress::dial::Dialer;
use egress::dial::testing::TestAuthority;
use egress::resolver::FixedResolver;
use std::io::{BufRead, BufReader};
use std::time::Instant;

use crate::scripted::{Emission, ScriptedAnswer};

const USAGE: &str = r#"{"usage": {"input": 100, "output": 10, "cache_read": 5}}"#;

/// The vendor's behaviour, chosen by a word in the request.
fn scenario() -> Value {
    let usage: Value = serde_json::from_str(USAGE).unwrap();
    let branch = |word: &str, turn: Value| json!({"when": {"user_contains": word}, "turns": [turn]});
    let too_long = "prompt is too long: 9 tokens > 8 maximum";
    json!({
        "turns": [[{"text": "plain words"}, usage]],
        "branches": [
            branch("CALL", json!([{"text": "I look."}, {"shell": "ls"}, usage])),
            branch("TWICE", json!([{"shell": "ls"}, {"shell": "pwd"}, usage])),
            branch("THINK", json!([{"thinking": "hm"}, {"text": "plain words"}, usage])),
            branch("DENIED", json!([{"error": 401, "message": "wrong key", "times": 99}])),
            branch("LIMITED", json!([{"error": 429, "message": "slow down", "times": 1}, {"text": "plain words"}, usage])),
            branch("BUSY", json!([{"error": 529, "message": "busy", "times": 1}, {"text": "plain words"}, usage])),
            branch("LONG", json!([{"error": 400, "message": too_long, "times": 99}])),
            branch("CUT", json!([{"text": "half"}, {"cut": true}])),
        ],
    })
}

/// The wire format of a service's own address; `None`: the service has no such address.
fn wire_of(path: &str) -> Option<Wire> {
    let path = path.split('?').next().unwrap_or(path);
    let ends = |end: &str| path.ends_with(end);
    match path {
        _ if ends(":streamRawPredict") || ends(":rawPredict") || ends("/messages") => Some(Wire::Messages),
        _ if ends("/invoke") || ends("/invoke-with-response-stream") => Some(Wire::Messages),
        _ if ends("/responses") => Some(Wire::Responses),
        _ if ends("/chat/completions") => Some(Wire::Chat),
        _ => None,
    }
}

/// A body as the vendor itself gets it: services that put the model and the delivery into the path leave them out.
fn completed(path: &str, body: &[u8]) -> Vec<u8> {
    let mut body: Value = serde_json::from_slice(body).unwrap();
    if path.contains("/models/") || path.starts_with("/model/") {
        assert!(body.get("model").is_none(), "the path has the model: {path}");
        body["model"] = json!("claude-sonnet-4-5");
    }
    if path.starts_with("/model/") {
        body["stream"] = json!(path.ends_with("with-response-stream"));
    }
    body.to_string().into_bytes()
}

/// The request whose tokens are counted, in the form that each service documents; `None`: not a count.
fn counted_body(path: &str, body: &[u8]) -> Option<Value> {
    let value: Value = serde_json::from_slice(body).unwrap();
    let path = path.split('?').next().unwrap_or(path);
    if path == "/v1/messages/count_tokens" {
        assert!(value.get("max_tokens").is_none(), "Extra inputs are not permitted: {value}");
        return Some(value);
    }
    if path.ends_with("/publishers/anthropic/models/count-tokens:rawPredict") {
        assert_eq!(value["anthropic_version"], "vertex-2023-10-16");
        assert_eq!(value["model"], "claude-sonnet-4-5@20250929");
        return Some(value);
    }
    if path == "/model/anthropic.claude-sonnet-4-5-20250929-v1%3A0/count-tokens" {
        let inner = value["input"]["invokeModel"]["body"].as_str().unwrap();
        let inner: Value =
            serde_json::from_slice(&data_encoding::BASE64.decode(inner.as_bytes()).unwrap()).unwrap();
        assert_eq!(
            (&inner["anthropic_version"], &inner["max_tokens"]),
            (&json!("bedrock-2023-05-31"), &json!(1))
        );
        return Some(inner);
    }
    None
}

/// Serves one request of a connection, which it closes then.
fn serve(model: &ScriptedModel, bodies: &Mutex<Vec<Value>>, stream: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    let field = |line: &str| line.strip_prefix("content-length: ").and_then(|length| length.parse().ok());
    let length: usize = head.lines().find_map(field).unwrap();
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let path = head.split(' ').nth(1).unwrap().to_owned();
    if let Some(counted) = counted_body(&path, &body) {
        bodies.lock().unwrap().push(counted);
        let name = if path.ends_with("/count-tokens") { "inputTokens" } else { "input_tokens" };
        let answer = json!({ name: 77 }).to_string();
        let length = answer.len();
        return write!(reader.get_mut(), "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{answer}");
    }
    let wire = wire_of(&path).unwrap_or_else(|| panic!("no service has {path}"));
    let body = completed(&path, &body);
    bodies.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
    let request = codec::read_request(wire, &body).unwrap();
    let ScriptedAnswer { status, content_type, emissions } = model.answer(wire, &request, &body);
    let is_framed = path.ends_with("with-response-stream") && status == 200;
    let content_type = if is_framed { "application/vnd.amazon.eventstream" } else { content_type };
    let stream = reader.get_mut();
    write!(stream, "HTTP/1.1 {status} X\r\ncontent-type: {content_type}\r\nconnection: close\r\n\r\n")?;
    for emission in emissions {
        match emission {
            Emission::Bytes(bytes) if is_framed => {
                stream.write_all(&event_stream::testing::framed(&bytes))?;
            }
            Emission::Bytes(bytes) => stream.write_all(&bytes)?,
            Emission::Sleep(_) => {}
            Emission::Cut => return Ok(()),
        }
    }
    Ok(())
}

pub(super) fn vendor() -> (u16, Arc<Mutex<Vec<Value>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let scenario = Scenario::parse("s.json", scenario().to_string().as_bytes()).unwrap();
    let model = Arc::new(ScriptedModel::new(scenario));
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&bodies);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let model = Arc::clone(&model);
            let bodies = Arc::clone(&kept);
            std::thread::spawn(move || serve(&model, &bodies, stream));
        }
    });
    (port, bodies)
}

pub(super) fn service_gateway(
    name: &str,
    wire: Option<&str>,
    port: u16,
    bodies: Arc<Mutex<Vec<Value>>>,
) -> TestGateway {
    let retry =
        RetryLimits { until: Some(Instant::now() + Duration::from_secs(60)), ..RetryLimits::default() };
    let credential = Some(format!("the provider `{name}`"));
    let mut setup = TestSetup { retry, credential, ..TestSetup::default() };
    setup.limits.answer_idle = Duration::from_secs(60);
    service_gateway_with(name, wire, port, bodies, setup)
}

pub(super) fn service_gateway_with(
    name: &str,
    wire: Option<&str>,
    port: u16,
    bodies: Arc<Mutex<Vec<Value>>>,
    setup: TestSetup,
) -> TestGateway {
    let service = SERVICES.iter().find(|service| service.name == name).unwrap();
    let credential = |name: &str| NamedCredential {
        name: name.to_owned(),
        source: CredentialSource::fixed(Secret::new("value-of-the-credential".to_owned())),
    };
    let base_url = format!("http://127.0.0.1:{port}");
    let wire = wire.unwrap_or_default();
    let config =
        [("base_url", base_url.as_str()), ("region", "eu-west-1"), ("project", "acme"), ("wire", wire)];
    let settings = ServiceSettings {
        config: config.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        credentials: match name {
            "bedrock" => vec![credential("AWS_ACCESS_KEY_ID"), credential("AWS_SECRET_ACCESS_KEY")],
            _ => vec![credential("KEY")],
        },
        learn: None,
    };
    let resolver = FixedResolver::new([("nothing.test", Vec::new())]);
    let dialer = Dialer::new(Arc::new(resolver), TestAuthority::new().roots());
    let upstream = HttpUpstream::new(service, &settings, Arc::new(dialer)).unwrap();
    start_gateway(Upstream::http(upstream), bodies, setup)
}

fn ask(gateway: &TestGateway, wire: Wire, word: &str, stream: bool) -> Result<ModelAnswer, ClientError> {
    ModelClient::new(gateway.address, wire).ask(&request(word, stream), &mut |_| {})
}

/// A request with a picture, as the wire format writes one.
fn with_image(wire: Wire) -> Value {
    let mut body = codec::write_request(wire, &request("a picture", true));
    let picture = "data:image/png;base64,iVBORw0K";
    let (field, content) = match wire {
        Wire::Messages => {
            let source = json!({"type": "base64", "media_type": "image/png", "data": "iVBORw0K"});
            ("messages", json!([{"type": "text", "text": "look"}, {"type": "image", "source": source}]))
        }
        Wire::Responses => {
            let image = json!({"type": "input_image", "image_url": picture});
            ("input", json!([{"type": "input_text", "text": "look"}, image]))
        }
        Wire::Chat => {
            let image = json!({"type": "image_url", "image_url": {"url": picture}});
            ("messages", json!([{"type": "text", "text": "look"}, image]))
        }
    };
    body[field].as_array_mut().unwrap().last_mut().unwrap()["content"] = content;
    body
}

/// Answers that are complete. Returns how many there were.
fn complete_answers(gateway: &TestGateway, wire: Wire, place: &str) -> u64 {
    let calls = |answer: &ModelAnswer| {
        let is_call = |block: &&ContentBlock| matches!(block, ContentBlock::ToolCall(_));
        answer.blocks.iter().filter(is_call).count()
    };
    let mut count = 0;
    for stream in [true, false] {
        for (word, expected) in
            [("text", 0), ("CALL", 1), ("TWICE", 2), ("THINK", 0), ("LIMITED", 0), ("BUSY", 0)]
        {
            let answer = ask(gateway, wire, &format!("{word} {stream}"), stream);
            let answer = answer.unwrap_or_else(|error| panic!("{place} {word}: {error}"));
            assert_eq!(calls(&answer), expected, "{place} {word}");
            assert_eq!((answer.usage.input, answer.usage.cache_read), (100, 5), "{place} {word}");
            count += 1;
        }
    }
    let body = with_image(wire).to_string();
    let answer = gateway.raw(&format!(
        "POST {} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        wire.path(),
        body.len()
    ));
    assert!(answer.contains("plain words"), "{place}: {answer}");
    let last = gateway.bodies.lock().unwrap().last().unwrap().to_string();
    assert!(last.contains("iVBORw0K"), "{place}: {last}");
    count + 1
}

/// The wire formats that a service takes as they are; and, if its provider says `wire: chat`, those that are translated.
fn served_wires(service: &Service) -> Vec<(Wire, Option<&'static str>)> {
    let own = service.wires.iter().map(|wire| (*wire, None));
    let has_chat = service.wires.contains(&Wire::Chat);
    let translated = Wire::ALL.into_iter().filter(|wire| translate::target(*wire, &[Wire::Chat]).is_some());
    own.chain(translated.filter(|_| has_chat).map(|wire| (wire, Some("chat")))).collect()
}

#[test]
fn every_service_passes_or_refuses_what_a_request_can_meet() {
    for service in SERVICES {
        for (wire, named) in served_wires(service) {
            let place = format!("{} {} {named:?}", service.name, wire.name());
            let (port, bodies) = vendor();
            let gateway = service_gateway(service.name, named, port, bodies);
            let count = complete_answers(&gateway, wire, &place);
            gateway.endings(usize::try_from(count).unwrap());
            let total: u64 = gateway.gateway.usage().values().map(|used| used.requests).sum();
            let input: u64 = gateway.gateway.usage().values().map(|used| used.usage.input).sum();
            let output: u64 = gateway.gateway.usage().values().map(|used| used.usage.output).sum();
            assert_eq!(
                (total, input, output),
                (count, count * 100, count * 10),
                "{place}: the vendor's own count"
            );

            let denied = ask(&gateway, wire, "DENIED", true).unwrap_err();
            assert!(matches!(&denied, ClientError::Fault { status: 401, .. }), "{place}: {denied}");
            assert_eq!(
                gateway.gateway.refused_credential(),
                Some(format!("the provider `{}`", service.name))
            );
            let long = ask(&gateway, wire, "LONG", true).unwrap_err();
            assert!(matches!(&long, ClientError::Fault { status: 400, .. }), "{place}: {long}");
            assert!(gateway.gateway.too_long().is_some(), "{place}");
            let cut = ask(&gateway, wire, "CUT", true).unwrap_err();
            assert!(cut.is_transient(), "{place}: {cut}");
            gateway.endings(usize::try_from(count).unwrap() + 3);
            let cut_output: u64 = gateway.gateway.usage().values().map(|used| used.usage.output).sum();
            assert!(cut_output >= output + 1000, "{place}: a cut answer costs what was reserved");
        }
    }
}

/// The addresses at which a client asks for a stream of this service, each with its body: the vendor's own, and the service's.
fn stream_requests(service: &Service, wire: Wire) -> Vec<(String, Value)> {
    let body = codec::write_request(wire, &request("go", true));
    let mut all = vec![(wire.path().to_owned(), body.clone())];
    let hosted = |version: &str| {
        let mut body = body.clone();
        body.as_object_mut().unwrap().remove("model");
        body["anthropic_version"] = json!(version);
        body
    };
    match service.name {
        "vertex" => {
            let path = "/v1/projects/p/locations/eu/publishers/anthropic/models/claude-sonnet-4-5";
            all.push((format!("{path}:streamRawPredict"), hosted("vertex-2023-10-16")));
        }
        "bedrock" => {
            let mut body = hosted("bedrock-2023-05-31");
            body.as_object_mut().unwrap().remove("stream");
            all.push(("/model/claude-sonnet-4-5/invoke-with-response-stream".to_owned(), body));
        }
        _ => {}
    }
    all
}

/// Sends a request, reads so many bytes of the answer and hangs up.
fn hang_up_after(address: SocketAddr, path: &str, body: &Value, bytes: usize) {
    let body = body.to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
    write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
    // A refusal is shorter.
    let _short = stream.read_exact(&mut vec![0; bytes]);
}

#[test]
fn at_every_service_streams_that_hang_up_never_exceed_the_budget_and_are_never_charged_less() {
    // What the vendor counts for each answer: 100 tokens at $3, 5 from the cache at $0.30 and 10 at $15 the million.
    let real = 100 * 3000 + 5 * 300 + 10 * 15_000;
    for service in SERVICES {
        let ways = served_wires(service).into_iter().flat_map(|(wire, named)| {
            stream_requests(service, wire).into_iter().map(move |request| (named, request))
        });
        for (named, (path, body)) in ways {
            let place = format!("{} {path} {named:?}", service.name);
            let (port, bodies) = vendor();
            let limit = Money::from_usd(0.1).unwrap();
            let budget = BudgetLimits { usd: Some(limit), ..BudgetLimits::default() };
            let mut setup = TestSetup { budget, ..TestSetup::default() };
            setup.limits.answer_idle = Duration::from_secs(60);
            let gateway = service_gateway_with(service.name, named, port, bodies, setup);
            std::thread::scope(|scope| {
                for lane in 0..8_usize {
                    let address = gateway.address;
                    let path = &path;
                    let body = &body;
                    scope.spawn(move || {
                        for round in 0..3_usize {
                            hang_up_after(address, path, body, 1 + (lane * 389 + round * 241) % 1500);
                        }
                    });
                }
            });
            let sent = gateway.bodies.lock().unwrap().len();
            gateway.endings(sent);
            let spent = gateway.gateway.usage()["claude-sonnet-4-5"].cost.unwrap();
            assert!(sent > 0 && spent <= limit, "{place}: {spent} for {sent} requests");
            assert!(spent.0 >= sent as u64 * real, "{place}: {spent} for {sent} requests");
        }
    }
}
