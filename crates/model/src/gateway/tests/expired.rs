//! A token that the service refuses before its time, in the middle of many requests, and a token service that is down.

use super::*;
use crate::upstream::{HttpUpstream, NamedCredential, SERVICES, ServiceSettings};
use egress::credentials::{CredentialSource, Secret};
use egress::dial::Dialer;
use egress::dial::testing::TestAuthority;
use egress::resolver::FixedResolver;
use std::io::{BufRead, BufReader};
use std::time::Instant;

/// What the service got: requests for a token, and requests for an answer.
#[derive(Default)]
struct Counted {
    tokens: u64,
    answers: u64,
    /// How often the token service says that it is down.
    outages: u64,
}

/// Google's token service and Vertex AI, which takes no token before the one with this number.
fn service(first_valid: u64) -> (u16, Arc<Mutex<Counted>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let counted: Arc<Mutex<Counted>> = Arc::default();
    let kept = Arc::clone(&counted);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let counted = Arc::clone(&kept);
            std::thread::spawn(move || serve(stream, &counted, first_valid));
        }
    });
    (port, counted)
}

fn serve(stream: TcpStream, counted: &Mutex<Counted>, first_valid: u64) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    let field = |name: &str| {
        let lines = head.lines().map(str::to_owned);
        lines.filter_map(|line| line.strip_prefix(name).map(str::to_owned)).next()
    };
    let mut body = vec![0; field("content-length: ").unwrap().parse().unwrap()];
    reader.read_exact(&mut body)?;
    let (status, answer) = if head.starts_with("POST /token ") {
        let mut counted = counted.lock().unwrap();
        counted.tokens += 1;
        let token = format!("token-{}", counted.tokens);
        let status = if counted.tokens <= counted.outages { 503 } else { 200 };
        (status, json!({ "access_token": token, "expires_in": 3599 }))
    } else {
        counted.lock().unwrap().answers += 1;
        wait_for_eight(counted);
        let number = field("authorization: Bearer token-").and_then(|number| number.parse().ok());
        if number.is_some_and(|number: u64| number >= first_valid) {
            let usage = json!({ "input_tokens": 1, "output_tokens": 1 });
            let content = json!([{ "type": "text", "text": "here" }]);
            (
                200,
                json!({ "id": "m", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
                "content": content, "stop_reason": "end_turn", "usage": usage }),
            )
        } else {
            (401, Value::Null)
        }
    };
    let answer = if answer.is_null() { String::new() } else { answer.to_string() };
    let length = answer.len();
    let head = format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nconnection: close\r\n");
    write!(reader.get_mut(), "{head}content-length: {length}\r\n\r\n{answer}")
}

/// Every request is sent with the first token before one is answered.
fn wait_for_eight(counted: &Mutex<Counted>) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while counted.lock().unwrap().answers < 8 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn vertex(port: u16) -> TestGateway {
    vertex_with(port, RetryLimits::default())
}

fn vertex_with(port: u16, retry: RetryLimits) -> TestGateway {
    let login = json!({
        "type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r",
        "token_uri": format!("http://127.0.0.1:{port}/token"),
    });
    let source = CredentialSource::fixed(Secret::new(login.to_string()));
    let credential = NamedCredential { name: "GOOGLE_APPLICATION_CREDENTIALS".to_owned(), source };
    let base_url = format!("http://127.0.0.1:{port}");
    let config = [("base_url".to_owned(), base_url), ("project".to_owned(), "acme".to_owned())];
    let settings = ServiceSettings { config: config.into(), credentials: vec![credential], learn: None };
    let resolver = FixedResolver::new([("nothing.test", Vec::new())]);
    let dialer = Dialer::new(Arc::new(resolver), TestAuthority::new().roots());
    let service = SERVICES.iter().find(|service| service.name == "vertex").unwrap();
    let upstream = HttpUpstream::new(service, &settings, Arc::new(dialer)).unwrap();
    let credential = Some("the provider `model`, credential GOOGLE_APPLICATION_CREDENTIALS".to_owned());
    let mut setup = TestSetup { credential, retry, ..TestSetup::default() };
    setup.limits.answer_idle = Duration::from_secs(30);
    start_gateway(Upstream::http(upstream), Arc::default(), setup)
}

fn ask_eight_at_once(gateway: &TestGateway) -> Vec<Result<ModelAnswer, ClientError>> {
    std::thread::scope(|scope| {
        let asking: Vec<_> = (0..8).map(|_| scope.spawn(|| gateway.ask(&request("go", false)))).collect();
        asking.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

#[test]
fn eight_requests_with_a_refused_token_get_one_other_token() {
    let (port, counted) = service(2);
    let gateway = vertex(port);
    for answer in ask_eight_at_once(&gateway) {
        answer.unwrap();
    }
    let counted = counted.lock().unwrap();
    assert_eq!((counted.tokens, counted.answers), (2, 16));
    assert_eq!(gateway.gateway.refused_credential(), None);
}

#[test]
fn a_second_refusal_is_the_last_and_names_the_credential() {
    let (port, counted) = service(99);
    let gateway = vertex(port);
    for answer in ask_eight_at_once(&gateway) {
        let error = answer.unwrap_err();
        assert!(matches!(&error, ClientError::Fault { status: 401, .. }), "{error}");
    }
    let counted = counted.lock().unwrap();
    assert_eq!((counted.tokens, counted.answers), (2, 16));
    assert!(gateway.gateway.refused_credential().unwrap().contains("GOOGLE_APPLICATION_CREDENTIALS"));
}

#[test]
fn a_token_service_that_is_down_is_asked_again() {
    let (port, counted) = service(1);
    // Nobody waits for the others here.
    *counted.lock().unwrap() = Counted { outages: 2, answers: 8, tokens: 0 };
    let retry =
        RetryLimits { until: Some(Instant::now() + Duration::from_secs(60)), ..RetryLimits::default() };
    let gateway = vertex_with(port, retry);
    gateway.ask(&request("go", false)).unwrap();
    assert_eq!(counted.lock().unwrap().tokens, 3);
    let is_retry = |event: &ModelEvent| matches!(event, ModelEvent::ModelRetry { .. });
    assert_eq!(gateway.events().iter().filter(|event| is_retry(event)).count(), 2);
    assert_eq!(gateway.gateway.refused_credential(), None);
}
