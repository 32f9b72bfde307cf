//! Spans and metrics of runs and wakes, sent to a collector: what arrives, and what a run does where none answers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use serde_json::Value as Json;

use crate::python_packages::install;
use crate::support::{World, example, root, skip};
use crate::wakes::stage::{EVERY_WAKE, Stage, finish, sleeps, when};

const PACKAGE: &str = "opentelemetry-proto==1.39.1";
/// Milliseconds: a loaded machine must not make a collector that answers look dead.
const LONG: &str = "10000";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// A collector on the loopback address that keeps what it gets.
struct Collector {
    port: u16,
    seen: Arc<Mutex<Vec<(String, Json)>>>,
}

impl Collector {
    /// Answers every request with this status and body.
    fn start(status: &'static str, body: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen: Arc<Mutex<Vec<(String, Json)>>> = Arc::default();
        let kept = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                // A client that gave up sends nothing.
                let Some(request) = request(&mut stream) else { continue };
                kept.lock().unwrap().push(request);
                let head = "content-type: application/json\r\nconnection: close";
                let length = body.len();
                drop(write!(stream, "HTTP/1.1 {status}\r\n{head}\r\ncontent-length: {length}\r\n\r\n{body}"));
            }
        });
        Self { port, seen }
    }

    fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn seen(&self) -> Vec<(String, Json)> {
        self.seen.lock().unwrap().clone()
    }
}

fn request(stream: &mut TcpStream) -> Option<(String, Json)> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let head = head.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?.parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, serde_json::from_slice(&body).ok()?))
}

fn names(request: &Json, kind: &str) -> Vec<String> {
    let path = format!("/resource{kind}s/0/scope{kind}s/0/{}s", kind.to_lowercase());
    let all = request.pointer(&path).unwrap().as_array().unwrap();
    all.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_run_is_sent_to_the_collector_that_the_environment_names() {
    let collector = Collector::start("200 OK", "{}");
    let world = example("hello")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint())
        .env("OTEL_EXPORTER_OTLP_TIMEOUT", LONG)
        .env("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20secret%20key")
        .env("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=ci")
        .env("TRACEPARENT", &format!("00-{TRACE}-00f067aa0ba902b7-01"));
    let ran = world.run(&["run", "hello", "--quiet"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.all());
    let seen = collector.seen();
    let [(first, spans), (second, metrics)] = &seen[..] else { panic!("{} requests", seen.len()) };
    assert!(
        first.starts_with("post /v1/traces ") && second.starts_with("post /v1/metrics "),
        "{first}{second}"
    );
    for (head, body) in &seen {
        assert!(
            head.contains("x-key: a secret key") && head.contains("content-type: application/json"),
            "{head}"
        );
        let text = body.to_string();
        assert!(text.contains("deployment.environment.name") && !text.contains("a secret key"), "{text}");
        assert!(!text.contains("wrold") && !text.contains("test.sh"), "no content: {text}");
    }
    let spans = spans["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    assert!(spans.iter().all(|span| span["traceId"] == TRACE), "{spans:?}");
    assert_eq!(spans[0]["name"], "invoke_agent hello");
    assert_eq!(
        names(metrics, "Metric"),
        [
            "gen_ai.client.token.usage",
            "gen_ai.client.operation.duration",
            "fullsend.runs",
            "fullsend.run.time",
            "fullsend.run.cost",
        ]
    );

    let spoken = world.env("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true");
    let ran = spoken.run(&["runs", "export", "--otlp", "-"]);
    assert!(ran.out.contains("gen_ai.output.messages") && ran.out.contains("sh test.sh"), "{}", ran.all());
    let disabled = spoken.env("OTEL_SDK_DISABLED", "true");
    assert_eq!(disabled.run(&["run", "hello", "--quiet"]).code, 0);
    assert_eq!(collector.seen().len(), 2, "nothing more is sent");
}

/// One run for each way in which a collector fails.
#[test]
fn a_collector_that_fails_is_one_line_and_changes_nothing() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}", silent.local_addr().unwrap());
    let busy = Collector::start("503 Service Unavailable", "");
    let part = r#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"too\u001b[2J\n::error::many"}}"#;
    let choosy = Collector::start("200 OK", part);
    for (endpoint, timeout, expected) in [
        ("http://127.0.0.1:1".to_owned(), LONG, "127.0.0.1:1"),
        (silent.clone(), "400", "/v1/traces did not respond in time"),
        (busy.endpoint(), LONG, "/v1/traces answered with status 503"),
        (choosy.endpoint(), LONG, "/v1/traces rejected 3 items: too\u{fffd}[2J"),
        (
            "localhost".to_owned(),
            LONG,
            "OTEL_EXPORTER_OTLP_ENDPOINT is not an address such as http://localhost:4318",
        ),
    ] {
        let world = World::with_harness()
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)
            .env("OTEL_EXPORTER_OTLP_TIMEOUT", timeout);
        let ran = world.run(&["run", "triage"]);
        assert_eq!(ran.code, 0, "{}", ran.all());
        let lines: Vec<&str> = ran.err.lines().filter(|line| line.contains("telemetry")).collect();
        let [line] = lines[..] else { panic!("one line: {}", ran.all()) };
        assert!(line.starts_with("warning: the telemetry of this run was not sent: "), "{line}");
        assert!(line.contains(expected), "{line}");
        assert!(!ran.err.contains("\n::error"), "{}", ran.err);
        assert!(ran.err.lines().last().unwrap().starts_with("completed: "), "{}", ran.err);
    }
}

/// It sends the head of its answer, and then a byte from time to time, for a minute.
#[test]
fn a_collector_that_drips_does_not_hold_a_run() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let (sender, left) = mpsc::channel();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        drop(request(&mut stream));
        drop(stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 60000\r\n\r\n"));
        let is_gone = (0..600).any(|_| {
            std::thread::sleep(Duration::from_millis(100));
            stream.write_all(b" ").is_err()
        });
        sender.send(is_gone).unwrap();
    });
    let world = World::with_harness()
        .env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &endpoint)
        .env("OTEL_EXPORTER_OTLP_TIMEOUT", "400");
    assert_eq!(world.run(&["run", "triage", "--quiet"]).code, 0);
    assert!(left.recv_timeout(Duration::from_secs(90)).unwrap(), "the run waited for the whole answer");
}

#[test]
fn every_wake_is_sent() {
    let collector = Collector::start("200 OK", "");
    let mut stage = Stage::new(&[when(EVERY_WAKE, serde_json::json!([finish(sleeps("Hello."))]))]);
    stage.world = stage
        .world
        .env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &format!("{}/x", collector.endpoint()))
        .env("OTEL_EXPORTER_OTLP_TIMEOUT", LONG);
    let id = stage.told("hello");
    stage.wakes(&id, 0);
    let seen = collector.seen();
    let [(head, spans)] = &seen[..] else { panic!("{} requests", seen.len()) };
    assert!(head.starts_with("post /x "), "{head}");
    assert_eq!(names(spans, "Span")[0], "invoke_agent helper");
}

/// The receiver parses every request with the messages of the protocol, refuses unknown fields, and checks the ids.
#[test]
fn a_receiver_with_the_protocols_own_messages_takes_a_run() {
    let python = match install("opentelemetry-proto", "otlp receiver", &[PACKAGE]) {
        Ok(place) => place.join("bin/python3"),
        Err(why) => return skip("otlp receiver", why.lines().last().unwrap_or("pip failed")),
    };
    let receiver = root().join("tests/fakes/otlp.py");
    let mut child = Command::new(python).arg(receiver).stdout(Stdio::piped()).spawn().unwrap();
    let (sender, said) = mpsc::channel();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    std::thread::spawn(move || {
        let lines = stdout.lines().map_while(Result::ok);
        lines.for_each(|line| drop(sender.send(line)));
    });
    let next = || said.recv_timeout(Duration::from_secs(60)).unwrap_or_default();
    let endpoint = format!("http://127.0.0.1:{}", next());
    let world = example("hello")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)
        .env("OTEL_EXPORTER_OTLP_TIMEOUT", LONG)
        .env("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true");
    let ran = world.run(&["run", "hello", "--quiet"]);
    let spans = next();
    let metrics = next();
    drop(child.kill());
    drop(child.wait());
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.all());
    assert!(spans.starts_with("/v1/traces 2") && spans.contains("spans, 1 root"), "{spans}");
    assert_eq!(metrics, "/v1/metrics 5 metrics");
}
