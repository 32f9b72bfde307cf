//! Sessions as an operator creates, feeds, follows and ends them, and as a viewer may not.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value as Json, json};

use super::{Served, bearer, with_token};
use crate::support::World;

pub const ALICE: &str = "the-token-of-alice";
pub const VICTOR: &str = "the-token-of-victor";

/// Two more callers: an operator and a viewer.
pub fn staffed_world(world: World) -> World {
    let file = world.write("tokens", format!("# people\nalice operator {ALICE}\n\nvictor viewer {VICTOR}\n"));
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    world
}

fn staffed() -> (World, Served) {
    let world = staffed_world(with_token(World::with_harness()));
    let served = Served::start_with(&world, &["--tokens", "../tokens"]);
    (world, served)
}

fn create(served: &Served) -> String {
    let created = served.post("/v1/sessions", &json!({ "agent": "triage" }));
    assert_eq!(created.status, 201, "{}", created.body);
    format!("/v1/sessions/{}", created.json()["id"].as_str().unwrap())
}

fn message(text: &str) -> Json {
    json!({ "type": "user.message", "message": text })
}

#[test]
fn an_operator_acts_and_every_event_says_who() {
    let (_world, served) = staffed();
    let path = create(&served);
    let act = |action: &str, body: &Json| {
        let reply = served.post_as(ALICE, &format!("{path}/{action}"), body, &[]);
        assert_eq!(reply.status, 200, "{action}: {}", reply.body);
        reply.json()
    };
    assert_eq!(act("events", &message("look into it"))["seq"], 1);
    assert_eq!(act("interrupt", &json!({ "note": "stop" }))["seq"], 2);
    let due = json!({ "due_ms": 4_000_000_000_000_u64, "key": "daily" });
    let queued = act("wakes", &due);
    assert_eq!(queued["due_ms"], 4_000_000_000_000_u64);
    assert_eq!(act("wakes", &due)["wake"], queued["wake"], "the key is queued once");
    let shown = served.get(&path).json();
    assert_eq!(shown["status"], "rescheduling");
    assert_eq!(shown["wakes"].as_array().unwrap().len(), 1);
    let listed = served.get("/v1/sessions?agent=triage&status=rescheduling").json();
    assert_eq!(listed["sessions"][0]["next_wake_ms"], 4_000_000_000_000_u64);
    assert_eq!(served.get("/v1/sessions?status=idle").json()["sessions"], json!([]));

    let bundle = served.get(&format!("{path}/export"));
    assert!(bundle.status == 200 && bundle.body.contains("look into it"), "{}", bundle.body);
    assert_eq!(act("terminate", &json!({ "reason": "done" }))["status"], "terminated");
    let events = served.get(&format!("{path}/events")).json();
    let events = events["events"].as_array().unwrap();
    assert_eq!(events.len(), 4, "{events:?}");
    assert!(events.iter().all(|event| event["by"] == "alice"), "{events:?}");
    let late = served.post(&format!("{path}/events"), &message("too late"));
    late.is_problem(409, "refused");

    let archived = act("archive", &json!({}));
    assert!(fs::read_to_string(archived["file"].as_str().unwrap()).unwrap().contains("look into it"));
    served.get(&path).is_problem(404, "not-found");
}

#[test]
fn a_viewer_reads_and_may_not_act() {
    let (_world, served) = staffed();
    let path = create(&served);
    let host = served.own_host();
    let viewer = format!("Authorization: Bearer {VICTOR}");
    let shown = served.ask(&format!("GET {path}"), &[&host, &viewer]);
    assert_eq!(shown.json()["status"], "idle");
    let denied = [
        ("/v1/sessions".to_owned(), json!({ "agent": "triage" })),
        (format!("{path}/events"), message("hello")),
        (format!("{path}/interrupt"), json!({})),
        (format!("{path}/wakes"), json!({ "delay_ms": 1 })),
        (format!("{path}/terminate"), json!({})),
        (format!("{path}/archive"), json!({})),
        (format!("{path}/dead-letters/retry"), json!({})),
        (format!("{path}/requests/{}/answer", path.rsplit('/').next().unwrap()), json!({})),
        (format!("{path}/requests/{}/confirm", path.rsplit('/').next().unwrap()), json!({})),
    ];
    for (path, body) in denied {
        served.post_as(VICTOR, &path, &body, &[]).is_problem(403, "not-an-operator");
    }
    let after = served.get(&path).json();
    assert_eq!(after["head"], 0, "nothing happened");
    assert_eq!(served.get("/v1/sessions").json()["sessions"].as_array().unwrap().len(), 1);
}

#[test]
fn an_input_that_is_sent_again_with_its_key_is_stored_once() {
    let (_world, served) = staffed();
    let path = create(&served);
    let events = format!("{path}/events");
    let send = |text: &str| served.post_as(ALICE, &events, &message(text), &["Idempotency-Key: delivery-7"]);
    let first = send("once").json();
    assert_eq!(send("once").json(), first);
    send("something else").is_problem(409, "refused");
    assert_eq!(served.get(&path).json()["head"], 1);
    served.post_as(ALICE, &events, &message("x"), &["Idempotency-Key: "]).is_problem(400, "bad-request");
}

#[test]
fn what_is_wrong_with_an_action_is_said() {
    let (_world, served) = staffed();
    let path = create(&served);
    let unknown = served.post("/v1/sessions", &json!({ "agent": "nobody" }));
    unknown.is_problem(400, "bad-request");
    assert!(unknown.body.contains("nobody"), "{}", unknown.body);
    for (action, body) in [
        ("events", json!({ "type": "agent.message", "message": "x", "summary": "" })),
        ("events", message("  ")),
        ("events", json!({ "type": "user.message", "message": "x", "more": 1 })),
        ("wakes", json!({})),
        ("wakes", json!({ "cron": "never" })),
        ("dead-letters/retry", json!({})),
        ("interrupt", json!([])),
    ] {
        served.post(&format!("{path}/{action}"), &body).is_problem(400, "bad-request");
    }
    let digest = "0".repeat(64);
    let answer = json!({ "input_digest": digest, "output": 42 });
    let request = path.rsplit('/').next().unwrap();
    served.post(&format!("{path}/requests/{request}/answer"), &answer).is_problem(409, "refused");
    served.post(&format!("{path}/requests/x/answer"), &answer).is_problem(404, "not-found");
    let large = message(&"x".repeat(600 << 10));
    served.post(&format!("{path}/events"), &large).is_problem(413, "too-large");
    let form: [&str; 4] = [&served.own_host(), &bearer(), "Content-Type: text/plain", "Content-Length: 2"];
    served.ask_with(&format!("POST {path}/events"), &form, "{}").is_problem(415, "not-json");
    for path in ["/v1/sessions/x", "/v1/sessions/00000000-0000-7000-8000-000000000000"] {
        served.get(path).is_problem(404, "not-found");
    }
}

#[test]
fn a_session_is_followed_as_it_grows() {
    let (_world, served) = staffed();
    let path = create(&served);
    let events = format!("{path}/events");
    for text in ["one", "two"] {
        served.post(&events, &message(text));
    }
    let headers: [&str; 4] = [&served.own_host(), &bearer(), "Accept: text/event-stream", "Last-Event-ID: 1"];
    let mut lines = BufReader::new(served.open(&format!("GET {events}"), &headers, "")).lines();
    let mut next = || {
        let data = lines.find_map(|line| line.unwrap().strip_prefix("data: ").map(str::to_owned)).unwrap();
        serde_json::from_str::<Json>(&data).unwrap()
    };
    let second = next();
    assert_eq!(
        (&second["seq"], &second["message"], &second["by"]),
        (&json!(2), &json!("two"), &json!("operator"))
    );
    served.post(&events, &message("three"));
    assert_eq!(next()["message"], "three");
    served.post(&format!("{path}/terminate"), &json!({}));
    assert_eq!(next()["to"], "terminated");
    assert_eq!(next(), json!({}), "the end");
}

#[test]
fn a_file_of_tokens_is_private_and_checked() {
    let world = World::new();
    let file = world.write("tokens", format!("alice operator {ALICE}\n"));
    let open = world.run(&["serve", "--tokens", "../tokens"]);
    assert_eq!(open.code, 2, "{}", open.all());
    assert!(open.err.contains("../tokens holds tokens, and other users may read it"), "{}", open.err);
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    for line in ["alice", "alice king the-token-of-alice", "alice viewer short"] {
        fs::write(&file, line).unwrap();
        let wrong = world.run(&["serve", "--tokens", "../tokens"]);
        assert!(wrong.code == 2 && wrong.err.contains("../tokens:1"), "{}", wrong.all());
    }
}

#[test]
fn an_exported_session_is_imported_once() {
    let (world, served) = staffed();
    let path = create(&served);
    served.post(&format!("{path}/events"), &message("look into it"));
    let bundle = served.get(&format!("{path}/export")).body;
    let send = |body: &str, kind: &str| {
        let length = format!("Content-Length: {}", body.len());
        let host = served.own_host();
        let alice = format!("Authorization: Bearer {ALICE}");
        served.ask_with("POST /v1/sessions/import", &[&host, &alice, &length, kind], body)
    };
    let file = "Content-Type: application/octet-stream";
    send(&bundle, file).is_problem(409, "refused");
    assert_eq!(served.post(&format!("{path}/archive"), &json!({})).status, 200);
    let changed = bundle.replace("look into it", "look away");
    send(&changed, file).is_problem(400, "bad-request");
    send(&bundle[..bundle.len() / 2], file).is_problem(400, "bad-request");
    send("", file).is_problem(400, "bad-request");
    send(&bundle, "Content-Type: application/json").is_problem(415, "not-a-file");
    served.get(&path).is_problem(404, "not-found");

    let imported = send(&bundle, file);
    assert_eq!(imported.status, 201, "{}", imported.body);
    assert!(imported.head.contains(&format!("location: {path}\r\n")), "{}", imported.head);
    assert_eq!((&imported.json()["head"], &imported.json()["left_out"]), (&json!(1), &json!([])));
    assert_eq!(served.get(&format!("{path}/events")).json()["events"][0]["message"], "look into it");
    let actions = fs::read_to_string(world.path("state/fullsend/serve/actions.jsonl")).unwrap();
    let last: Json = serde_json::from_str(actions.lines().last().unwrap()).unwrap();
    assert_eq!((&last["by"], &last["path"]), (&json!("alice"), &json!("/v1/sessions/import")));
}
