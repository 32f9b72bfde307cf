//! Workers that wait for sessions are listed, over HTTP and by `session workers`, until they end.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value as Json, json};

use super::{Served, with_token};
use crate::support::{World, wait_for};

const HOSTILE: &str = "<img src=x onerror=hacked>\u{1b}[31m";

#[test]
fn a_worker_without_a_lease_is_listed_until_it_ends() {
    let world = with_token(World::with_harness());
    let served = Served::start(&world);
    let none = world.run(&["session", "workers"]);
    assert_eq!((none.code, none.out.as_str()), (0, ""), "{}", none.err);
    assert!(none.err.contains("no worker waits for sessions of this store"), "{}", none.err);
    assert_eq!(served.get("/v1/workers").json()["workers"], json!([]));

    let mut child = world.spawn(&[
        "worker",
        "--concurrency",
        "3",
        "--agent",
        "triage",
        "--label",
        "gpu",
        "--label",
        HOSTILE,
    ]);
    let listed = wait_for(|| {
        let list = served.get("/v1/workers").json();
        (list["workers"][0].is_object()).then_some(list)
    });
    let worker = &listed["workers"][0];
    assert_eq!(
        (&worker["agent"], &worker["labels"], &worker["concurrency"]),
        (&json!("triage"), &json!(["gpu", HOSTILE]), &json!(3)),
        "{listed:#}"
    );
    assert_eq!(worker["repositories"].as_array().unwrap().len(), 1, "{listed:#}");
    assert!(!worker["host"].as_str().unwrap().is_empty(), "{listed:#}");
    assert!(worker["seen_ms"].as_i64().unwrap() >= worker["started_ms"].as_i64().unwrap(), "{listed:#}");
    assert_eq!(served.get("/v1/work").json()["leases"], json!([]), "it holds none");

    let printed = world.run(&["session", "workers"]).out;
    assert!(printed.contains(" agent triage label gpu label <img"), "{printed}");
    assert!(!printed.contains('\u{1b}'), "{printed:?}");
    let lines = world.run(&["session", "workers", "--json"]).out;
    assert_eq!(serde_json::from_str::<Json>(&lines).unwrap()["name"], worker["name"]);

    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(served.get("/v1/workers").json()["workers"], json!([]));
}

#[test]
fn a_worker_that_only_drains_is_not_listed() {
    let world = with_token(World::with_harness());
    assert_eq!(world.run(&["worker", "--drain"]).code, 0);
    assert_eq!(Served::start(&world).get("/v1/workers").json()["workers"], json!([]));
}

/// The number by which an autoscaler sets the number of workers.
#[test]
fn sessions_that_are_due_are_counted() {
    let world = with_token(World::with_harness());
    let served = Served::start(&world);
    let due = || {
        let metrics = served.get("/metrics").body;
        let line = metrics.lines().find_map(|line| line.strip_prefix("fullsend_sessions_due "));
        line.unwrap_or_else(|| panic!("{metrics}")).to_owned()
    };
    assert_eq!(due(), "0");
    for delay_ms in [0, 0, 3_600_000] {
        let id = served.post("/v1/sessions", &json!({ "agent": "triage" })).json()["id"].clone();
        let wake = json!({ "delay_ms": delay_ms, "reason": "look" });
        let queued = served.post(&format!("/v1/sessions/{}/wakes", id.as_str().unwrap()), &wake);
        assert!(queued.json()["wake"].is_string(), "{}", queued.body);
    }
    assert_eq!(due(), "2", "one is due in an hour");
}
