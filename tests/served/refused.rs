//! What the server refuses, one test each.

use super::{Served, TOKEN, bearer, with_token};
use crate::support::{World, example};

fn served() -> (World, Served) {
    let world = with_token(World::new());
    let served = Served::start(&world);
    (world, served)
}

#[test]
fn a_request_without_a_token() {
    let (_world, served) = served();
    let host = served.own_host();
    for path in ["/v1/runs", "/v1/runs/x/page", "/metrics", "/v1/nothing"] {
        served.ask(&format!("GET {path}"), &[&host]).is_problem(401, "unauthorized");
    }
    let page = served.ask("GET /", &[&host]);
    assert!(page.status == 200 && !page.body.contains(TOKEN), "the page has no data and no token");
    assert!(
        page.head.contains("content-security-policy: default-src 'none'; script-src 'sha256-"),
        "{}",
        page.head
    );
    assert!(page.head.contains("frame-ancestors 'none'"), "{}", page.head);
    assert_eq!(served.ask("GET /v1/openapi.json", &[&host]).json()["openapi"], "3.1.0");
}

#[test]
fn a_request_with_a_wrong_token() {
    let (_world, served) = served();
    let host = served.own_host();
    for wrong in ["Bearer another-token-of-tests", "Bearer ", "Bearer", TOKEN, &format!("Basic {TOKEN}")] {
        let reply = served.ask("GET /v1/runs", &[&host, &format!("Authorization: {wrong}")]);
        reply.is_problem(401, "unauthorized");
        assert!(reply.head.contains("www-authenticate: bearer"), "{}", reply.head);
    }
    assert_eq!(served.ask("GET /v1/runs", &[&host, &bearer()]).status, 200);
}

#[test]
fn a_request_from_a_page_of_another_site() {
    let (_world, served) = served();
    for header in [
        "Origin: https://evil.example",
        "Origin: null",
        "Origin: h\u{e4}h",
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-site",
        "Sec-Fetch-Site: \u{e4}",
    ] {
        served.get_with("/v1/runs", &[header]).is_problem(403, "cross-site");
    }
    let own = format!("Origin: http://{}", served.host);
    let both = served.get_with("/v1/runs", &[&own, "Origin: https://evil.example"]);
    both.is_problem(403, "cross-site");
    assert_eq!(served.get_with("/v1/runs", &[&own, "Sec-Fetch-Site: same-origin"]).status, 200);
}

#[test]
fn a_foreign_name_that_leads_to_this_address() {
    let (_world, served) = served();
    let port = served.host.rsplit(':').next().unwrap();
    for host in
        ["evil.example".to_owned(), format!("evil.example:{port}"), "127.0.0.1".to_owned(), String::new()]
    {
        let host = format!("Host: {host}");
        served.ask("GET /v1/runs", &[&host, &bearer()]).is_problem(421, "unknown-host");
        served.ask("GET /", &[&host]).is_problem(421, "unknown-host");
    }
    let foreign = format!("GET http://evil.example:{port}/v1/runs");
    served.ask(&foreign, &[&served.own_host(), &bearer()]).is_problem(421, "unknown-host");
    assert_eq!(served.ask("GET /v1/runs", &[&format!("Host: localhost:{port}"), &bearer()]).status, 200);
}

#[test]
fn a_path_that_leaves_the_artifacts() {
    let world = with_token(example("hello"));
    assert_eq!(world.run(&["run", "hello", "--quiet"]).code, 0);
    let served = Served::start(&world);
    let list = served.get("/v1/runs").json();
    let id = list["runs"][0]["id"].as_str().unwrap();
    let artifact = format!("/v1/runs/{id}/artifacts/iteration-2/output/agent-result.json");
    let file = served.get(&artifact);
    assert_eq!(file.json()["file"], "greet.sh");
    assert!(file.head.contains("content-disposition: attachment"), "{}", file.head);
    assert!(file.head.contains("x-content-type-options: nosniff"), "{}", file.head);
    for path in [
        "../../../../../../etc/passwd",
        "%2e%2e/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "iteration-2/output/../../events.jsonl",
        "iteration-2%2foutput%2f..%2f..%2frun.json",
        "/etc/passwd",
        "events.jsonl",
        "iteration-2/output/agent-result.json%00",
        "",
    ] {
        served.get(&format!("/v1/runs/{id}/artifacts/{path}")).is_problem(404, "not-found");
    }
    served.get(&format!("/v1/runs/{id}/artifacts/iteration-2/output/%")).is_problem(400, "bad-request");
    for name in ["latest", "..", "%2e%2e", &id[..8], &format!("{id}%2f..")] {
        served.get(&format!("/v1/runs/{name}")).is_problem(404, "not-found");
    }

    // The record lists the path, and something else is there now.
    let place = world.path(&format!("state/fullsend/runs/local/{id}/iteration-2/output"));
    let moved = place.with_file_name("moved");
    std::fs::rename(&place, &moved).unwrap();
    std::os::unix::fs::symlink(&moved, &place).unwrap();
    served.get(&artifact).is_problem(404, "not-found");
    std::fs::remove_file(&place).unwrap();
    std::fs::rename(&moved, &place).unwrap();
    std::fs::write(place.join("agent-result.json"), "{}").unwrap();
    served.get(&artifact).is_problem(409, "unreadable");
}

#[test]
fn a_method_that_a_path_does_not_have() {
    let (_world, served) = served();
    let host = served.own_host();
    for method in ["DELETE", "PUT", "HEAD", "TRACE"] {
        let reply = served.ask(&format!("{method} /v1/runs"), &[&host, &bearer(), "Content-Length: 0"]);
        assert_eq!(reply.status, 405, "{method}: {}", reply.body);
        assert!(reply.head.contains("allow: get"), "{}", reply.head);
    }
}

#[test]
fn a_place_in_a_stream_that_is_no_number() {
    let world = with_token(World::with_harness());
    let served = Served::start(&world);
    let created = served.post("/v1/sessions", &serde_json::json!({ "agent": "triage" }));
    let id = created.json()["id"].as_str().unwrap().to_owned();
    assert!(created.head.contains(&format!("location: /v1/sessions/{id}\r\n")), "{}", created.head);
    for place in ["x", "-1", "1e3", "", "99999999999999999999999", "\u{e4}"] {
        let headers = ["Accept: text/event-stream", &format!("Last-Event-ID: {place}")];
        served.get_with(&format!("/v1/sessions/{id}/events"), &headers).is_problem(400, "bad-request");
    }
    let log = std::fs::read_to_string(world.path("state/fullsend/serve/actions.jsonl")).unwrap();
    assert!(log.contains(&format!("\"made\":\"/v1/sessions/{id}\"")), "{log}");
}

#[test]
fn an_address_that_others_reach_without_a_token_of_its_own() {
    let open = World::new().run(&["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(open.code, 2, "{}", open.all());
    assert!(open.err.contains("0.0.0.0:0 can be reached from outside"), "{}", open.err);
    let short = World::new().env("FULLSEND_SERVE_TOKEN", "short").run(&["serve"]);
    assert_eq!(short.code, 2, "{}", short.all());
    assert!(short.err.contains("FULLSEND_SERVE_TOKEN must have at least 16"), "{}", short.err);
}

/// Its standard output is a log that others read, as that of a container.
#[test]
fn a_token_for_an_address_that_others_reach_is_not_printed() {
    use std::io::{BufRead, BufReader};
    let world = with_token(World::new());
    let mut child = world.spawn_piped(&["serve", "--listen", "0.0.0.0:0"]);
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(line.starts_with("http://0.0.0.0:") && line.ends_with("/\n"), "{line}");
}
