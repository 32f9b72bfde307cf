//! Runs as they are listed, read and streamed.

use std::fs;
use std::io::{BufRead, BufReader};

use fullsend::event::RunEvent;
use fullsend::event::log::Emitter;
use serde_json::{Value as Json, json};

use super::{Served, bearer, with_token};
use crate::support::{World, example, wait_for};

#[test]
fn runs_are_listed_and_read() {
    let world = with_token(example("hello"));
    assert_eq!(world.run(&["run", "hello", "--quiet"]).code, 0);
    let served = Served::start(&world);

    let list = served.get("/v1/runs").json();
    let id = list["runs"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(list["runs"][0]["harness"], "hello");
    assert_eq!(list["runs"][0]["outcome"], "completed");
    assert_eq!(list["runs"][0]["refused"], 1);
    assert_eq!(list["next"], Json::Null);
    assert_eq!(served.get("/v1/runs?outcome=skipped").json()["runs"], json!([]));
    assert_eq!(served.get("/v1/runs?harness=hel%6co").json()["runs"][0]["id"], id.as_str());
    for query in ["limit=0", "limit=x", "cursor=x", "outcome=x", "harness=%"] {
        served.get(&format!("/v1/runs?{query}")).is_problem(400, "bad-request");
    }
    assert_eq!(served.get(&format!("/v1/runs/{id}")).json()["run_id"], id.as_str());
    assert_eq!(served.get(&format!("/v1/runs/{id}/page")).json()["verification"]["status"], "verified");
    let first = served.get(&format!("/v1/runs/{id}/events?limit=2")).json();
    assert_eq!(first["events"][0]["type"], "run_started");
    assert_eq!(first["next"], 2);
    let second = served.get(&format!("/v1/runs/{id}/events?limit=1&after=2")).json();
    assert_eq!(second["events"][0]["seq"], 3);

    let all = served.get(&format!("/v1/runs/{id}/events?limit=1000")).json();
    let last = all["events"].as_array().unwrap().len();
    assert_eq!(all["next"], Json::Null);
    let stream = format!("/v1/runs/{id}/events");
    let whole = served.get_with(&stream, &["Accept: text/event-stream"]);
    assert!(whole.head.contains("content-type: text/event-stream"), "{}", whole.head);
    assert_eq!(ids(&whole.body), (1..=last as u64).collect::<Vec<_>>());
    let after = format!("Last-Event-ID: {}", last - 2);
    let rest = served.get_with(&stream, &["Accept: text/event-stream", &after]);
    assert_eq!(ids(&rest.body), [last as u64 - 1, last as u64]);
    assert!(rest.body.ends_with("event: end\ndata: {}\n\n"), "{}", rest.body);
    let wrong = ["Accept: text/event-stream", "Last-Event-ID: x"];
    served.get_with(&stream, &wrong).is_problem(400, "bad-request");

    // Connections that have just ended may still be counted.
    let metrics = wait_for(|| {
        let text = served.get("/metrics").body;
        (text.contains("\nfullsend_serve_connections 1\n") && text.contains("\nfullsend_serve_streams 0\n"))
            .then_some(text)
    });
    assert!(metrics.contains("\nfullsend_runs{outcome=\"completed\"} 1\n"), "{metrics}");
    assert!(metrics.contains("_total{result=\"refused\"} 6\n"), "{metrics}");
}

/// The numbers of a stream's events, in the order in which they came.
fn ids(stream: &str) -> Vec<u64> {
    stream.lines().filter_map(|line| line.strip_prefix("id: ")).map(|id| id.parse().unwrap()).collect()
}

/// A run whose log the test writes.
fn fake(world: &World, number: usize) -> (String, Emitter) {
    let id = format!("0198c2f0-0000-7000-8000-{number:012}");
    let place = world.path(&format!("state/fullsend/runs/acme/widgets/{id}"));
    fs::create_dir_all(&place).unwrap();
    let emitter = Emitter::create(&place.join("events.jsonl"), |_| {}).unwrap();
    let started = json!({ "type": "run_started", "run_id": id, "harness": format!("h{}", number % 2), "runtime": "native",
                          "repository": "", "fullsend": "" });
    emitter.emit(serde_json::from_value(started).unwrap());
    (id, emitter)
}

#[test]
fn a_list_is_read_page_by_page_newest_first() {
    let world = with_token(World::new());
    let made: Vec<String> = (0..7).map(|number| fake(&world, number).0).collect();
    let served = Served::start(&world);
    for (filter, step) in [("", 1), ("&harness=h0", 2)] {
        let mut seen = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = served.get(&format!("/v1/runs?limit=2{filter}{cursor}")).json();
            let ids =
                page["runs"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap().to_owned());
            seen.extend(ids);
            assert_eq!(page["runs"][0]["owner"], "acme/widgets");
            let Some(next) = page["next"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        let expected: Vec<String> = made.iter().step_by(step).rev().cloned().collect();
        assert_eq!(seen, expected, "{filter}");
    }
}

/// The events of a stream until one with this number came.
fn read_until(reader: &mut impl BufRead, last: u64) -> Vec<u64> {
    let mut seen = Vec::new();
    while seen.last() != Some(&last) {
        let mut line = String::new();
        assert!(reader.read_line(&mut line).unwrap() > 0, "the stream ended after {seen:?}");
        seen.extend(ids(&line));
    }
    seen
}

#[test]
fn a_reader_that_comes_back_after_a_restart_gets_every_event_once() {
    let world = with_token(World::new());
    let (id, emitter) = fake(&world, 1);
    let emit = |count: usize| (0..count).for_each(|_| emitter.emit(RunEvent::AgentStarted { iteration: 1 }));
    let first = format!("GET /v1/runs/{id}/events");
    let open = |served: &Served, after: u64| {
        let headers =
            [&served.own_host(), &bearer(), "Accept: text/event-stream", &format!("Last-Event-ID: {after}")];
        BufReader::new(served.open(&first, &headers, ""))
    };
    emit(9);
    let served = Served::start(&world);
    // This one reads nothing, and blocks nobody.
    let _stuck = open(&served, 0);
    let mut seen = read_until(&mut open(&served, 0), 10);
    drop(served);
    emit(5);
    let served = Served::start(&world);
    let mut reader = open(&served, 10);
    seen.extend(read_until(&mut reader, 15));
    emit(2);
    seen.extend(read_until(&mut reader, 17));
    assert_eq!(seen, (1..=17).collect::<Vec<_>>());
    drop(emitter);
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut reader, &mut rest).unwrap();
    assert!(rest.contains("event: end\n"), "the runner is gone: {rest}");
}

#[test]
fn a_live_run_is_streamed_to_its_end() {
    let scenario = r#"{"turns":[[{"text":"I wait."},{"shell":"sleep 1"}],[{"finish":{"summary":"x"}}]]}"#;
    let world = with_token(World::scripted("timeout_minutes: 2\n", scenario));
    let served = Served::start(&world);
    let mut running = world.spawn(&["run", "triage"]);
    let id = wait_for(|| {
        served.get("/v1/runs?outcome=running").json()["runs"][0]["id"].as_str().map(str::to_owned)
    });
    let reply = served.get_with(&format!("/v1/runs/{id}/events"), &["Accept: text/event-stream"]);
    assert!(running.wait().unwrap().success());
    let log =
        fs::read_to_string(world.path(&format!("state/fullsend/runs/local/{id}/events.jsonl"))).unwrap();
    let sent: Vec<&str> = reply.body.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    assert_eq!(sent[..sent.len() - 1], log.lines().collect::<Vec<_>>());
    assert_eq!(reply.body.lines().rfind(|line| line.starts_with("event: ")), Some("event: end"));
}

#[test]
fn runs_are_added_up_by_day_harness_and_repository() {
    let world = with_token(example("hello"));
    assert_eq!(world.run(&["run", "hello", "--quiet"]).code, 0);
    assert_eq!(world.run(&["run", "hello", "--quiet"]).code, 0);
    let served = Served::start(&world);
    let oldest = served.get("/v1/runs").json()["runs"][1].clone();
    let each = oldest["usd"].as_f64().unwrap();
    let day = &oldest["started"].as_str().unwrap()[..10];
    for (by, key) in [("harness", "hello"), ("repository", "repo")] {
        let report = served.get(&format!("/v1/costs?by={by}")).json();
        assert_eq!((&report["by"], &report["rows"][0]["key"]), (&json!(by), &json!(key)), "{report}");
        assert_eq!(
            (&report["rows"][0]["runs"], &report["total"]["runs"]),
            (&json!(2), &json!(2)),
            "{report}"
        );
        assert!((report["total"]["usd"].as_f64().unwrap() - 2.0 * each).abs() < 1e-9, "{report}");
        let printed = world.run(&["runs", "cost", "--by", by, "--json"]);
        assert_eq!(serde_json::from_str::<Json>(&printed.out).unwrap(), report, "{}", printed.all());
    }
    assert_eq!(served.get(&format!("/v1/costs?since={day}")).json()["total"]["runs"], 2);
    assert_eq!(served.get("/v1/costs?since=2999-01-01").json()["rows"], json!([]));
    for query in ["by=x", "since=yesterday", "since=2030-02-30"] {
        served.get(&format!("/v1/costs?{query}")).is_problem(400, "bad-request");
    }
    served.ask("GET /v1/costs", &[&served.own_host()]).is_problem(401, "unauthorized");

    let printed = world.run(&["runs", "cost", "--since", "7d"]);
    let lines: Vec<Vec<&str>> = printed.out.lines().map(|line| line.split_whitespace().collect()).collect();
    let cost = format!("${:.4}", 2.0 * each);
    assert_eq!(lines[0][..3], ["day", "runs", "cost"], "{}", printed.all());
    let last = lines.last().unwrap();
    assert_eq!(last[..3], ["total", "2", cost.as_str()], "{}", printed.all());
    let wrong = world.run(&["runs", "cost", "--since", "yesterday"]);
    assert_eq!(wrong.code, 2, "{}", wrong.all());
    assert!(wrong.err.contains("use YYYY-MM-DD, or a number of days such as 7d"), "{}", wrong.err);
}
