//! Webhooks that the server sends: signed, tried again, kept over a restart, and given up in the end.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use serde_json::{Value as Json, json};

use super::sessions::{ALICE, VICTOR, staffed_world};
use super::{Served, with_token};
use crate::support::{World, wait_for};
use crate::wakes::stage::{EVERY_WAKE, Stage, finish, when};

const KEY: [u8; 32] = [7; 32];
const SCENARIO: &str = r#"{"turns":[[{"finish":{"summary":"x"}}]]}"#;

/// What a receiver answers.
#[derive(Clone, Copy)]
enum Answering {
    Status(u16),
    /// Parts of a head that never ends.
    Drip,
}

struct Received {
    head: Vec<(String, String)>,
    body: String,
}

impl Received {
    fn header(&self, name: &str) -> &str {
        self.head.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    fn json(&self) -> Json {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The signature of Standard Webhooks, computed here.
    fn is_signed(&self) -> bool {
        let content =
            format!("{}.{}.{}", self.header("webhook-id"), self.header("webhook-timestamp"), self.body);
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &KEY), content.as_bytes());
        self.header("webhook-signature") == format!("v1,{}", STANDARD.encode(tag))
    }
}

/// A server on this machine that takes webhooks: it answers each as it is told, the last way for all further ones.
struct Receiver {
    address: String,
    received: Arc<Mutex<Vec<Received>>>,
    answers: Arc<Mutex<Vec<Answering>>>,
}

impl Receiver {
    fn start(answers: &[Answering]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let received = Arc::<Mutex<Vec<Received>>>::default();
        let answers = Arc::new(Mutex::new(answers.to_vec()));
        let receiver = Self { address, received: Arc::clone(&received), answers: Arc::clone(&answers) };
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let received = Arc::clone(&received);
                let answers = Arc::clone(&answers);
                std::thread::spawn(move || answer(stream, &received, &answers));
            }
        });
        receiver
    }

    fn set(&self, answer: Answering) {
        *self.answers.lock().unwrap() = vec![answer];
    }

    /// Waits until this many have come, and looks at them.
    fn after<T>(&self, count: usize, look: impl Fn(&[Received]) -> T) -> T {
        wait_for(|| {
            let received = self.received.lock().unwrap();
            (received.len() >= count).then(|| look(&received))
        })
    }
}

fn answer(stream: TcpStream, received: &Mutex<Vec<Received>>, answers: &Mutex<Vec<Answering>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut head = Vec::new();
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|length| length > 2) {
        if let Some((name, value)) = line.trim_end().split_once(": ") {
            head.push((name.to_lowercase(), value.to_owned()));
        }
        line.clear();
    }
    let mut request = Received { head, body: String::new() };
    let mut body = vec![0; request.header("content-length").parse().unwrap_or(0)];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    request.body = String::from_utf8(body).unwrap();
    let answer = {
        let mut answers = answers.lock().unwrap();
        if answers.len() > 1 { answers.remove(0) } else { answers[0] }
    };
    received.lock().unwrap().push(request);
    let mut stream = stream;
    match answer {
        Answering::Status(status) => {
            drop(write!(stream, "HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"));
        }
        Answering::Drip => {
            drop(stream.write_all(b"HTTP/1.1 200 OK\r\nX: "));
            while stream.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

/// A world whose servers report these events to the receiver.
fn reporting(world: World, receiver: &Receiver, more: &str) -> World {
    let secret = format!("whsec_{}", STANDARD.encode(KEY));
    let world = staffed_world(with_token(world)).env("OUT_SECRET", &secret);
    let url = format!("http://{}/path-of-chat?token=a-query", receiver.address);
    world.write(
        "webhooks.yaml",
        format!("outgoing:\n- {{name: chat, url: '{url}', secret: OUT_SECRET{more}}}\n"),
    );
    world
}

fn serve(world: &World) -> Served {
    Served::start_with(world, &["--tokens", "../tokens", "--webhooks", "../webhooks.yaml"])
}

fn deliveries(served: &Served, state: &str) -> Vec<Json> {
    let listed = served.get(&format!("/v1/deliveries?state={state}"));
    assert_eq!(listed.status, 200, "{}", listed.body);
    listed.json()["deliveries"].as_array().unwrap().clone()
}

#[test]
fn a_finished_run_is_reported_signed_and_sent_again_after_an_error() {
    let receiver = Receiver::start(&[Answering::Status(500), Answering::Status(204)]);
    let world = reporting(World::scripted("", SCENARIO), &receiver, ", events: [run.finished]");
    assert_eq!(world.run(&["run", "triage", "--quiet"]).code, 0);
    let served = serve(&world);
    let ran = world.run(&["run", "triage", "--quiet"]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    receiver.after(2, |received| {
        let [first, second] = received else { panic!("{} requests", received.len()) };
        assert!(first.is_signed() && second.is_signed(), "{:?}", second.head);
        assert!(first.header("webhook-id").starts_with("msg_"));
        assert_eq!(first.header("webhook-id"), second.header("webhook-id"));
        assert_eq!(first.body, second.body);
        assert_eq!(first.json()["type"], "run.finished");
        assert_eq!(first.json()["data"]["outcome"], "completed");
        let runs = served.get("/v1/runs").json();
        assert_eq!(first.json()["data"], runs["runs"][0], "only the run after the start of the server");
    });
    wait_for(|| deliveries(&served, "waiting").is_empty().then_some(()));
    assert_eq!(deliveries(&served, "dead"), Vec::<Json>::new());
    let log = world.path("state/fullsend/serve/deliveries.jsonl");
    let log = wait_for(|| fs::read_to_string(&log).ok().filter(|text| text.lines().count() == 2));
    let lines: Vec<Json> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["problem"], "the receiver answered with status 500");
    assert_eq!((&lines[1]["result"], &lines[1]["attempt"]), (&json!("delivered"), &json!(2)));
    let metrics = served.get("/metrics").body;
    for line in [
        "fullsend_webhook_attempts_total{webhook=\"chat\",result=\"delivered\"} 1\n",
        "fullsend_webhook_attempts_total{webhook=\"chat\",result=\"failed\"} 1\n",
        "fullsend_webhook_deliveries{webhook=\"chat\",state=\"waiting\"} 0\n",
    ] {
        assert!(metrics.contains(line), "{metrics}");
    }
    for secret in ["whsec_", &STANDARD.encode(KEY), "path-of-chat", "a-query"] {
        assert!(!log.contains(secret) && !metrics.contains(secret), "{secret}");
    }
}

#[test]
fn a_delivery_outlives_the_server() {
    let receiver = Receiver::start(&[Answering::Status(503)]);
    let world = reporting(World::scripted("", SCENARIO), &receiver, "");
    let served = serve(&world);
    assert_eq!(world.run(&["run", "triage", "--quiet"]).code, 0);
    receiver.after(1, |_| ());
    drop(served);
    // Nobody serves meanwhile.
    assert_eq!(world.run(&["run", "triage", "--quiet"]).code, 0);
    receiver.set(Answering::Status(200));
    let served = serve(&world);
    wait_for(|| {
        let received = receiver.received.lock().unwrap();
        let runs = received.iter().map(|one| one.json()["data"]["id"].clone());
        let mut distinct: Vec<String> = runs.map(|id| id.to_string()).collect();
        distinct.sort_unstable();
        distinct.dedup();
        (distinct.len() == 2).then_some(())
    });
    wait_for(|| deliveries(&served, "waiting").is_empty().then_some(()));
    let received = receiver.received.lock().unwrap();
    let first = &received[0];
    let again = received.iter().filter(|one| one.header("webhook-id") == first.header("webhook-id"));
    assert!(again.count() >= 2, "the same delivery was sent again");
    drop(received);

    // A directory that cannot be read for a moment makes no run new.
    let runs = world.path("state/fullsend/runs/local");
    let away = world.path("state/fullsend/away");
    fs::rename(&runs, &away).unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    fs::rename(&away, &runs).unwrap();
    assert_eq!(world.run(&["run", "triage", "--quiet"]).code, 0);
    let distinct = |received: &[Received], what: fn(&Received) -> String| {
        received.iter().map(what).collect::<std::collections::BTreeSet<_>>().len()
    };
    wait_for(|| {
        let received = receiver.received.lock().unwrap();
        (distinct(&received, |one| one.json()["data"]["id"].to_string()) == 3).then_some(())
    });
    wait_for(|| deliveries(&served, "waiting").is_empty().then_some(()));
    let received = receiver.received.lock().unwrap();
    assert_eq!(distinct(&received, |one| one.header("webhook-id").to_owned()), 3);
}

#[test]
fn a_receiver_that_drips_is_left_and_one_that_is_gone_is_not_asked_again() {
    let receiver = Receiver::start(&[Answering::Drip, Answering::Status(410)]);
    let world = reporting(World::with_harness(), &receiver, ", timeout_seconds: 1");
    let served = serve(&world);
    let session =
        served.post("/v1/sessions", &json!({ "agent": "triage" })).json()["id"].as_str().unwrap().to_owned();
    assert_eq!(served.post(&format!("/v1/sessions/{session}/terminate"), &json!({})).status, 200);
    receiver.after(2, |received| {
        assert_eq!(received[0].header("webhook-id"), received[1].header("webhook-id"));
        assert_eq!(received[0].json()["type"], "session.terminated");
        assert_eq!(received[0].json()["data"]["session"], session);
    });
    let dead = wait_for(|| Some(deliveries(&served, "dead")).filter(|dead| !dead.is_empty()));
    assert_eq!((&dead[0]["status"], &dead[0]["attempts"]), (&json!(410), &json!(2)), "{dead:?}");
    assert_eq!((&dead[0]["webhook"], &dead[0]["next_attempt"]), (&json!("chat"), &Json::Null));
    let log = fs::read_to_string(world.path("state/fullsend/serve/deliveries.jsonl")).unwrap();
    assert!(log.contains("no answer within 1 seconds"), "{log}");

    receiver.set(Answering::Status(200));
    let retry = "/v1/deliveries/retry";
    served.post_as(VICTOR, retry, &json!({}), &[]).is_problem(403, "not-an-operator");
    served.post(retry, &json!({ "id": "x" })).is_problem(400, "bad-request");
    assert_eq!(served.post(retry, &json!({ "ids": ["msg_other"] })).json()["retried"], 0);
    assert_eq!(served.post_as(ALICE, retry, &json!({}), &[]).json()["retried"], 1);
    let actions = fs::read_to_string(world.path("state/fullsend/serve/actions.jsonl")).unwrap();
    let by: Vec<&str> = actions.lines().filter(|line| line.contains("/v1/deliveries/retry")).collect();
    assert!(by.last().is_some_and(|line| line.contains("\"by\":\"alice\"")), "{actions}");
    receiver
        .after(3, |received| assert_eq!(received[2].header("webhook-id"), received[0].header("webhook-id")));
    wait_for(|| {
        (deliveries(&served, "dead").is_empty() && deliveries(&served, "waiting").is_empty()).then_some(())
    });
    served.get("/v1/deliveries?state=x").is_problem(400, "bad-request");
    served.get("/v1/deliveries?cursor=x").is_problem(400, "bad-request");
}

#[test]
fn a_file_of_outgoing_webhooks_that_cannot_be_used_starts_no_server() {
    let secret = format!("whsec_{}", STANDARD.encode(KEY));
    let world = with_token(World::new()).env("OUT_SECRET", &secret).env("PLAIN", "a-secret-of-another-kind");
    let good = "name: a, secret: OUT_SECRET";
    for (entry, why) in [
        (
            format!("{good}, url: 'ftp://a.example/'"),
            "`url` of `a`: the address `ftp://a.example/` cannot be used",
        ),
        (format!("{good}, url: 'http://a.example/'"), "http://a.example/ is not allowed over plain http"),
        (format!("{good}, url: 'https://169.254.169.254/x'"), "169.254.169.254 is a "),
        (format!("{good}, url: 'https://user@a.example/'"), "it must name a host, without a user"),
        (
            "name: a, url: 'https://a.example/', secret: UNSET".to_owned(),
            "the variable UNSET must hold the signing secret",
        ),
        (
            "name: a, url: 'https://a.example/', secret: PLAIN".to_owned(),
            "the variable PLAIN must hold the signing secret",
        ),
        (format!("{good}, url: 'https://a.example/', events: [run.finish]"), "did you mean `run.finished`?"),
        (
            format!("{good}, url: 'https://a.example/', timeout_seconds: 90"),
            "must be between 1 and 30, not 90",
        ),
        (
            "name: a b, url: 'https://a.example/', secret: OUT_SECRET".to_owned(),
            "`a b` is not the name of a webhook",
        ),
        (
            format!("{good}, url: 'https://a.example/'}}, {{{good}, url: 'https://b.example/'"),
            "two webhooks are called `a`",
        ),
    ] {
        world.write("webhooks.yaml", format!("outgoing: [{{{entry}}}]\n"));
        let ran = world.run(&["serve", "--webhooks", "../webhooks.yaml"]);
        assert_eq!(ran.code, 3, "{entry}: {}", ran.all());
        assert!(ran.err.contains(why), "{entry}: {}", ran.err);
        assert!(!ran.err.contains("whsec_Bw") && !ran.err.contains("another-kind"), "{}", ran.err);
    }
}

#[test]
fn what_a_session_needs_from_people_is_reported() {
    let receiver = Receiver::start(&[Answering::Status(200)]);
    let asks = json!({
        "response": "I ask for a ticket.", "summary": "Asked for a ticket.", "outcome": "sleep",
        "custom_tools": [{ "name": "tracker.open", "input": { "title": "Broken" }, "expires_seconds": 172_800 }],
    });
    let mut stage = Stage::new(&[
        when("refused", json!([[{ "error": 400, "message": "no such model", "times": 99 }]])),
        when(EVERY_WAKE, json!([finish(asks)])),
    ]);
    stage.world = reporting(stage.world, &receiver, "");
    let served = serve(&stage.world);
    let refused = stage.told("refused");
    stage.wakes(&refused, 1);
    let asked = stage.told("please open a ticket");
    stage.wakes(&asked, 10);
    let request = served.get(&format!("/v1/sessions/{asked}")).json()["requests"][0].clone();
    let find = |kind: &str| {
        wait_for(|| {
            let received = receiver.received.lock().unwrap();
            received.iter().map(Received::json).find(|one| one["type"] == kind)
        })
    };
    let dead = find("session.dead_letter");
    assert_eq!((&dead["data"]["session"], &dead["data"]["seq"]), (&json!(refused), &json!(1)), "{dead:#}");
    let needs = find("session.requires_action");
    assert_eq!(needs["data"]["session"], asked, "{needs:#}");
    assert_eq!(
        (&needs["data"]["action"], &needs["data"]["tool"]),
        (&json!("answer"), &json!("tracker.open"))
    );
    assert_eq!(needs["data"]["request"], request["id"]);
    assert_eq!(needs["data"]["input_digest"], request["input_digest"]);
    assert!(!needs.to_string().contains("Broken"), "inputs are left out: {needs}");
}
