//! Runs that an operator starts and cancels over HTTP.

use std::fs;

use serde_json::{Value as Json, json};

use super::sessions::{ALICE, VICTOR, staffed_world};
use super::{Served, bearer, with_token};
use crate::support::{World, wait_for};

const QUICK: &str = r#"{"turns":[[{"finish":{"summary":"x"}}]]}"#;
const SLOW: &str = r#"{"turns":[[{"shell":"sleep 600"}],[{"finish":{"summary":"x"}}]]}"#;

fn served(scenario: &str, more: &[&str]) -> (World, Served) {
    served_with("timeout_minutes: 20\n", scenario, more)
}

fn served_with(harness: &str, scenario: &str, more: &[&str]) -> (World, Served) {
    let world = staffed_world(with_token(World::scripted(harness, scenario)));
    let served = Served::start_with(&world, &[&["--tokens", "../tokens"], more].concat());
    (world, served)
}

fn events(served: &Served, id: &str) -> Vec<Json> {
    let list = served.get(&format!("/v1/runs/{id}/events?limit=1000")).json();
    list["events"].as_array().unwrap().clone()
}

fn start(served: &Served, body: &Json) -> String {
    let started = served.post_as(ALICE, "/v1/runs", body, &[]);
    assert_eq!(started.status, 201, "{}", started.body);
    let id = started.json()["id"].as_str().unwrap().to_owned();
    assert!(started.head.contains(&format!("location: /v1/runs/{id}\r\n")), "{}", started.head);
    id
}

#[test]
fn an_operator_starts_a_run_and_follows_it_to_its_end() {
    let (world, served) = served_with("required_env: [TOPIC]\n", QUICK, &[]);
    let body = json!({
        "harness": "triage", "prompt": "look", "vars": { "TOPIC": "a b" }, "max_usd": 0.5,
        "inputs": [{ "name": "report.txt", "content": "it fails" }],
    });
    let id = start(&served, &body);
    let stream = served.get_with(&format!("/v1/runs/{id}/events"), &["Accept: text/event-stream"]);
    assert!(stream.body.ends_with("event: end\ndata: {}\n\n"), "{}", stream.body);
    let events = events(&served, &id);
    assert_eq!(
        (&events[1]["type"], &events[1]["by"], &events[1]["action"]),
        (&json!("operator_action"), &json!("alice"), &json!("start"))
    );
    let overridden: Vec<&Json> =
        events.iter().filter(|event| event["type"] == "override").map(|event| &event["field"]).collect();
    assert_eq!(overridden, [&json!("budget.usd"), &json!("${TOPIC}")]);
    let record = wait_for(|| {
        let record = served.get(&format!("/v1/runs/{id}")).json();
        record["outcome"].is_string().then_some(record)
    });
    assert_eq!(record["outcome"], "completed", "{record:#}");
    // The log says the outcome before the record is written.
    wait_for(|| (world.run(&["runs", "verify", &id]).code == 0).then_some(()));
    wait_for(|| {
        let left = fs::read_dir(world.path("state/fullsend/serve")).unwrap().flatten();
        let names: Vec<_> = left.map(|entry| entry.file_name().into_string().unwrap()).collect();
        (!names.iter().any(|name| name.starts_with("start-") && name != "start-keys")).then_some(())
    });
    let actions = fs::read_to_string(world.path("state/fullsend/serve/actions.jsonl")).unwrap();
    let action: Json = serde_json::from_str(actions.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&action["by"], &action["path"], &action["status"]),
        (&json!("alice"), &json!("/v1/runs"), &json!(201))
    );
}

#[test]
fn a_key_starts_one_run_even_across_a_restart() {
    let (world, served) = served(QUICK, &[]);
    let body = json!({ "harness": "triage" });
    let send = |served: &Served, body: &Json| {
        served.post_as(ALICE, "/v1/runs", body, &["Idempotency-Key: delivery-7"])
    };
    let first = send(&served, &body);
    assert_eq!(first.status, 201, "{}", first.body);
    assert_eq!(send(&served, &body).json(), first.json());
    send(&served, &json!({ "harness": "triage", "prompt": "x" })).is_problem(409, "refused");
    let path = format!("/v1/runs/{}", first.json()["id"].as_str().unwrap());
    wait_for(|| served.get(&path).json()["outcome"].is_string().then_some(()));
    drop(served);
    let served = Served::start_with(&world, &["--tokens", "../tokens"]);
    assert_eq!(send(&served, &body).json(), first.json());
    assert_eq!(served.get("/v1/runs").json()["runs"].as_array().unwrap().len(), 1);
}

#[test]
fn a_run_is_cancelled_wherever_it_was_started_and_the_log_says_by_whom() {
    let (world, served) = served(SLOW, &["--max-runs", "1"]);
    let own = start(&served, &json!({ "harness": "triage" }));
    served.post_as(ALICE, "/v1/runs", &json!({ "harness": "triage" }), &[]).is_problem(429, "too-many-runs");
    let mut other = world.spawn(&["run", "triage"]);
    let foreign = wait_for(|| {
        let list = served.get("/v1/runs?outcome=running").json();
        let ids = list["runs"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap().to_owned());
        ids.into_iter().find(|id| *id != own)
    });
    for id in [&own, &foreign] {
        let path = format!("/v1/runs/{id}/cancel");
        let cancelled = served.post_as(ALICE, &path, &json!({}), &[]);
        assert_eq!((cancelled.status, &cancelled.json()["id"]), (202, &json!(id)), "{}", cancelled.body);
        let record = wait_for(|| {
            let record = served.get(&format!("/v1/runs/{id}")).json();
            record["outcome"].is_string().then_some(record)
        });
        assert_eq!(record["outcome"], "interrupted");
        let events = events(&served, id);
        let by: Vec<&Json> = events.iter().filter(|event| event["action"] == "cancel").collect();
        assert_eq!((by.len(), &by[0]["by"]), (1, &json!("alice")));
        wait_for(|| (served.post_as(ALICE, &path, &json!({}), &[]).status == 409).then_some(()));
    }
    other.wait().unwrap();
    let unknown = "/v1/runs/00000000-0000-7000-8000-000000000000/cancel";
    served.post(unknown, &json!({})).is_problem(404, "not-found");
}

#[test]
fn what_cannot_be_started_is_said_and_starts_nothing() {
    let (world, served) = served(QUICK, &[]);
    let wrong = |body: Json, status: u16, name: &str, why: &str| {
        let reply = served.post("/v1/runs", &body);
        reply.is_problem(status, name);
        assert!(reply.body.contains(why), "{}", reply.body);
    };
    let with = |name: &str, value: Json| json!({ "harness": "triage", name: value });
    wrong(json!({}), 400, "bad-request", "missing field `harness`");
    wrong(with("policy", json!("x")), 400, "bad-request", "unknown field `policy`");
    for name in ["nobody", "ask", "--help", "../triage", "", "https://example.com/x.yaml"] {
        wrong(json!({ "harness": name }), 422, "not-started", "there is no harness");
    }
    for name in ["PATH", "FULLSEND_SIGN_KEY", "HTTPS_PROXY", "LD_PRELOAD", "GITHUB_OUTPUT", "XDG_DATA_HOME"] {
        wrong(with("vars", json!({ name: "x" })), 422, "not-started", "cannot be set by a caller");
    }
    for name in ["A B", "ANTHROPIC_BASE_URL", "TOPIC"] {
        wrong(with("vars", json!({ name: "x" })), 422, "not-started", "does not take the variable");
    }
    // What names a file of the host is not for callers, although the harness names it.
    let file = "agent: agents/triage.md\nruntime: native\nproviders: [model]\noutput_schema: schemas/triage.json\n\
                env: {sandbox: {COPY: '${WHERE}', OWN: '${OWN}'}}\n\
                host_files: [{src: '${WHERE}', dest: /sandbox/workspace/x, optional: true}]\n";
    world.write("repo/.fullsend/harness/files.yaml", file);
    let body = |name: &str| json!({ "harness": "files", "vars": { name: "/etc/passwd" } });
    wrong(body("WHERE"), 422, "not-started", "does not take the variable `WHERE`");
    wrong(body("OWN"), 422, "not-started", "WHERE, which is not set");
    for name in ["../x", "", ".env", "a/b"] {
        let inputs = json!([{ "name": name, "content": "" }]);
        wrong(with("inputs", inputs), 422, "not-started", "is not the name of an input");
    }
    wrong(with("runtime", json!("nothing")), 422, "not-started", "nothing");
    assert_eq!(served.get("/v1/runs").json()["runs"], json!([]));
}

#[test]
fn the_runs_that_were_started_end_with_the_server() {
    let (world, mut served) = served(SLOW, &[]);
    let id = start(&served, &json!({ "harness": "triage" }));
    let pid = rustix::process::Pid::from_child(&served.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(served.child.wait().unwrap().success());
    let record = fs::read_to_string(world.path(&format!("state/fullsend/runs/local/{id}/run.json"))).unwrap();
    let record: Json = serde_json::from_str(&record).unwrap();
    assert_eq!(record["outcome"], "interrupted", "the server waits for the record");
}

#[test]
fn the_files_of_a_run_whose_server_was_killed_are_removed() {
    let world = staffed_world(with_token(World::scripted("", QUICK)));
    let own = std::process::id();
    let place = world.path("state/fullsend/serve");
    // No process has this id: it is beyond the largest.
    for name in ["start-4194305-x".to_owned(), format!("start-{own}-y"), "start-keys".to_owned()] {
        fs::create_dir_all(place.join(name)).unwrap();
    }
    let _served = Served::start_with(&world, &["--tokens", "../tokens"]);
    assert!(!place.join("start-4194305-x").exists());
    assert!(place.join(format!("start-{own}-y")).exists() && place.join("start-keys").exists());
}

#[test]
fn a_start_and_a_cancellation_need_an_operator_of_this_server() {
    let (_world, served) = served(QUICK, &[]);
    let id = "00000000-0000-7000-8000-000000000000";
    let body = json!({ "harness": "triage" }).to_string();
    for path in ["/v1/runs".to_owned(), format!("/v1/runs/{id}/cancel"), "/v1/sessions/import".to_owned()] {
        let ask = |host: &str, more: &[&str]| {
            let length = format!("Content-Length: {}", body.len());
            let own = [host, "Content-Type: application/json", &length];
            served.ask_with(&format!("POST {path}"), &[&own, more].concat(), &body)
        };
        let host = served.own_host();
        ask(&host, &[]).is_problem(401, "unauthorized");
        ask(&host, &["Authorization: Bearer another-token-of-tests"]).is_problem(401, "unauthorized");
        let viewer = format!("Authorization: Bearer {VICTOR}");
        ask(&host, &[&viewer]).is_problem(403, "not-an-operator");
        ask(&host, &[&bearer(), "Origin: https://evil.example"]).is_problem(403, "cross-site");
        ask(&host, &[&bearer(), "Sec-Fetch-Site: cross-site"]).is_problem(403, "cross-site");
        ask("Host: evil.example", &[&bearer()]).is_problem(421, "unknown-host");
    }
    assert_eq!(served.get("/v1/runs").json()["runs"], json!([]), "nothing happened");
}
