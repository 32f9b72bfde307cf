//! Webhooks of forges: which are believed, and what they start.

use std::fs;

use ring::hmac;
use serde_json::{Value as Json, json};

use super::sessions::staffed_world;
use super::{Reply, Served, with_token};
use crate::support::{World, wait_for};

const SECRET: &str = "a-secret-of-the-forge";
const SCENARIO: &str = r#"{"turns":[[{"finish":{"summary":"x"}}]]}"#;

/// A world whose harness `triage` starts for the label `ready`, with a server that takes these webhooks.
fn served(webhooks: &str) -> (World, Served) {
    let trigger =
        "trigger: event.transition.kind == 'label_changed' && event.transition.label.name == 'ready'\n";
    let world = staffed_world(with_token(World::scripted(trigger, SCENARIO))).env("HOOK_SECRET", SECRET);
    world.write("webhooks.yaml", webhooks);
    let served = Served::start_with(&world, &["--tokens", "../tokens", "--webhooks", "../webhooks.yaml"]);
    (world, served)
}

const GITHUB: &str = "incoming:\n- {name: github, forge: github, secret: HOOK_SECRET}\n";

fn labeled(name: &str) -> String {
    let payload = json!({
        "action": "labeled", "label": { "name": name }, "repository": { "full_name": "acme/widgets" },
        "issue": { "number": 7, "user": { "login": "ann" }, "labels": [{ "name": name }] },
        "sender": { "login": "bob", "type": "User" },
    });
    payload.to_string()
}

fn signature(secret: &str, body: &str) -> String {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), body.as_bytes());
    let digits: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("X-Hub-Signature-256: sha256={digits}")
}

impl Served {
    fn send(&self, name: &str, body: &str, more: &[&str]) -> Reply {
        let host = self.own_host();
        let length = format!("Content-Length: {}", body.len());
        let own = [host.as_str(), "Content-Type: application/json", &length];
        self.ask_with(&format!("POST /v1/webhooks/{name}"), &[&own, more].concat(), body)
    }

    fn send_github(&self, delivery: &str, kind: &str, body: &str) -> Reply {
        let delivery = format!("X-GitHub-Delivery: {delivery}");
        let kind = format!("X-GitHub-Event: {kind}");
        self.send("github", body, &[&signature(SECRET, body), &delivery, &kind])
    }
}

#[test]
fn an_event_starts_the_harness_whose_trigger_it_fits_once() {
    let (world, served) = served(GITHUB);
    let other = served.send_github("1", "issues", &labeled("bug"));
    assert_eq!((other.status, other.json()["runs"].clone()), (202, json!([])), "{}", other.body);
    let started = served.send_github("2", "issues", &labeled("ready"));
    assert_eq!(started.status, 202, "{}", started.body);
    assert_eq!(started.json()["runs"][0]["harness"], "triage");
    let id = started.json()["runs"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(served.send_github("2", "issues", &labeled("ready")).json(), started.json());
    let record = wait_for(|| {
        let record = served.get(&format!("/v1/runs/{id}")).json();
        record["outcome"].is_string().then_some(record)
    });
    assert_eq!(record["outcome"], "completed", "{record:#}");
    let events = served.get(&format!("/v1/runs/{id}/events?limit=2")).json();
    assert_eq!(events["events"][1]["by"], "webhook:github");
    wait_for(|| {
        let log = fs::read_to_string(world.path("state/fullsend/serve/actions.jsonl")).unwrap();
        let line = format!("\"by\":\"webhook:github\",\"path\":\"/v1/runs/{id}\",\"status\":201}}");
        log.contains(&line).then_some(())
    });
    assert_eq!(served.get("/v1/runs").json()["runs"].as_array().unwrap().len(), 1);

    let opened = json!({
        "action": "opened", "sender": { "login": "eve" }, "repository": { "full_name": "acme/widgets" },
        "issue": { "number": 8, "user": { "login": "eve" }, "author_association": "NONE" },
    });
    let ignored = served.send_github("3", "issues", &opened.to_string()).json();
    assert_eq!(ignored["ignored"], "the forge does not say that the actor may write to the repository");
    assert_eq!(served.send_github("4", "ping", "{}").json()["ignored"], "events `ping` start nothing");
}

#[test]
fn a_webhook_without_the_right_signature_is_refused() {
    let (world, served) = served(GITHUB);
    let body = labeled("ready");
    let kind = "X-GitHub-Event: issues";
    let good = signature(SECRET, &body);
    served.send("github", &body, &[kind]).is_problem(401, "bad-signature");
    served
        .send("github", &body, &[kind, &signature("another-secret-of-it", &body)])
        .is_problem(401, "bad-signature");
    served.send("github", &body, &[kind, &signature(SECRET, "{}")]).is_problem(401, "bad-signature");
    served.send("github", &body, &[kind, "X-Hub-Signature-256: sha256="]).is_problem(401, "bad-signature");
    let token = format!("X-Gitlab-Token: {SECRET}");
    served.send("github", &body, &[kind, &token, &super::bearer()]).is_problem(401, "bad-signature");
    served.send("nothing", &body, &[kind, &good]).is_problem(404, "not-found");
    served
        .send("github", &body, &[kind, &good, "Origin: https://evil.example"])
        .is_problem(403, "cross-site");
    let length = format!("Content-Length: {}", body.len());
    let foreign = ["Host: evil.example", "Content-Type: application/json", &length, kind, &good];
    served.ask_with("POST /v1/webhooks/github", &foreign, &body).is_problem(421, "unknown-host");
    served.get("/v1/webhooks/github").is_problem(405, "method-not-allowed");
    let large = format!("{{\"x\":\"{}\"}}", "x".repeat(600 << 10));
    served.send("github", &large, &[kind, &signature(SECRET, &large)]).is_problem(413, "too-large");
    served.send("github", "[", &[kind, &signature(SECRET, "[")]).is_problem(400, "bad-request");
    assert_eq!(served.get("/v1/runs").json()["runs"], json!([]), "nothing started");
    let actions = fs::read_to_string(world.path("state/fullsend/serve/actions.jsonl")).unwrap();
    let first: Json = serde_json::from_str(actions.lines().next().unwrap()).unwrap();
    assert_eq!((&first["by"], &first["status"]), (&json!("webhook:github"), &json!(401)));
}

#[test]
fn an_event_of_gitlab_becomes_one_message_to_its_session() {
    let id = "0198c2f0-0000-7000-8000-000000000007";
    let webhooks = format!(
        "incoming:\n- {{name: support, forge: gitlab, secret: HOOK_SECRET, session: {id}, anyone: true}}\n"
    );
    let (_world, served) = served(&webhooks);
    assert_eq!(served.post("/v1/sessions", &json!({ "agent": "triage", "id": id })).status, 201);
    let body = json!({
        "object_attributes": { "action": "open", "iid": 5 }, "user": { "username": "ann" },
        "project": { "path_with_namespace": "acme/widgets" },
    });
    let token = format!("X-Gitlab-Token: {SECRET}");
    let more = ["X-Gitlab-Event: Issue Hook", "Idempotency-Key: delivery-1"];
    served.send("support", &body.to_string(), &more).is_problem(401, "bad-signature");
    for _ in 0..2 {
        let sent = served.send("support", &body.to_string(), &[&more[..], &[&token]].concat());
        assert_eq!((sent.status, &sent.json()["seq"]), (202, &json!(1)), "{}", sent.body);
    }
    let log = served.get(&format!("/v1/sessions/{id}/events")).json();
    assert_eq!(log["events"].as_array().unwrap().len(), 1);
    assert_eq!(log["events"][0]["by"], "webhook:support");
    assert!(log["events"][0]["message"].as_str().unwrap().contains("\"kind\": \"opened\""), "{log:#}");
}

#[test]
fn a_file_of_webhooks_that_cannot_be_used_starts_no_server() {
    let world = with_token(World::new()).env("SHORT", "short").env("HOOK_SECRET", SECRET);
    for (text, code, why) in [
        (
            "incoming: [{name: a, forge: github, secret: UNSET}]\n",
            3,
            "the variable UNSET must hold the secret of `a`",
        ),
        (
            "incoming: [{name: a, forge: github, secret: SHORT}]\n",
            3,
            "the variable SHORT must hold the secret of `a`",
        ),
        (
            "incoming: [{name: a, forge: jira, secret: HOOK_SECRET}]\n",
            3,
            "webhooks of jira are not supported",
        ),
        (
            "incoming: [{name: a/b, forge: github, secret: HOOK_SECRET}]\n",
            3,
            "`a/b` is not the name of a webhook",
        ),
        (
            "incoming: [{name: a, forge: github, secret: HOOK_SECRET, session: x}]\n",
            3,
            "is not the id of a session",
        ),
        ("incoming: [{name: a, forge: github}]\n", 3, "`incoming.0.secret` is missing"),
        ("outbound: []\n", 3, "the webhooks in ../webhooks.yaml cannot be used"),
        (
            "incoming: [{name: a, forge: github, secret: HOOK_SECRET}, {name: a, forge: gitlab, secret: HOOK_SECRET}]\n",
            3,
            "two webhooks are called `a`",
        ),
    ] {
        world.write("webhooks.yaml", text);
        let ran = world.run(&["serve", "--webhooks", "../webhooks.yaml"]);
        assert_eq!(ran.code, code, "{text}: {}", ran.all());
        assert!(ran.err.contains(why), "{text}: {}", ran.err);
    }
}

#[test]
fn trigger_test_says_which_harnesses_an_event_starts() {
    let world = World::scripted("trigger: event.transition.label.name == 'ready'\n", SCENARIO);
    let review = "agent: agents/triage.md\nruntime: native\nproviders: [model]\ntrigger: event.nothing\n";
    world.write("repo/.fullsend/harness/review.yaml", review);
    world.write(
        "repo/.fullsend/harness/manual.yaml",
        "agent: agents/triage.md\nruntime: native\nproviders: [model]\n",
    );
    world.write("payload.json", labeled("ready"));
    let test = ["trigger", "test", "--event", "../payload.json", "--kind", "issues"];
    let all = world.run(&test);
    assert_eq!(all.code, 0, "{}", all.all());
    let lines: Vec<&str> = all.out.lines().collect();
    assert_eq!(lines.len(), 2, "{}", all.out);
    assert!(lines[0].starts_with("review ") && lines[0].contains("does not start: "), "{}", all.out);
    assert!(lines[1].starts_with("triage ") && lines[1].ends_with(" starts"), "{}", all.out);
    let one = world.run(&[&test[..], &["triage", "--json"]].concat());
    let line: Json = serde_json::from_str(&one.out).unwrap();
    assert_eq!(line, json!({ "harness": "triage", "starts": true, "error": null }));
    let ping = world.run(&["trigger", "test", "--event", "../payload.json", "--kind", "ping"]);
    assert!(ping.code == 3 && ping.err.contains("an event `ping`"), "{}", ping.all());
    world.write("event.json", r#"{"transition":{"label":{"name":"bug"}}}"#);
    let own = world.run(&["trigger", "test", "triage", "--event", "../event.json"]);
    assert!(own.out.ends_with(" does not start\n"), "{}", own.all());
}
