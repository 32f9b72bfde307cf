//! What leaves the sandbox of a run: without a rule it is refused, with a reason that the agent can read and an event
//! that names the program. Some addresses no rule can open.

use std::fs;
use std::net::TcpListener;

use serde_json::{Value as Json, json};

use crate::support::World;

fn world(policies: &str, shell: &str) -> World {
    let scenario = json!({ "turns": [
        [{ "shell": format!("({shell}) > /sandbox/workspace/output/report.txt 2>&1; true") }],
        [{ "finish": { "summary": "looked" } }],
    ]});
    let world = World::scripted("policy: policies/p.yaml\n", scenario);
    world.write("repo/.fullsend/policies/p.yaml", format!("version: 1\nfilesystem_policy:\n  include_workdir: true\nprocess:\n  run_as_user: sandbox\n{policies}"));
    world
}

/// The report that the commands wrote, and the events of egress.
fn run(world: &World) -> (String, Vec<Json>) {
    let ran = world.run(&["run", "triage"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let runs = fs::read_dir(world.path("state/fullsend/runs/local")).unwrap();
    let directory = runs.map(|entry| entry.unwrap().path()).next().unwrap();
    let report = fs::read_to_string(directory.join("iteration-1/output/report.txt")).unwrap();
    let events = fs::read_to_string(directory.join("events.jsonl")).unwrap();
    let events = events.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
    (report, events.filter(|event| event["type"] == "egress").map(|event| event["event"].clone()).collect())
}

/// Asks the proxy for a tunnel, with bash alone: with a second program on the connection the caller would be ambiguous.
fn connect(world: &World, host: &str, port: u16) {
    world.write("repo/probe.sh", format!(
        "exec 3<>/dev/tcp/127.0.0.1/3128\nprintf 'CONNECT {host}:{port} HTTP/1.1\\r\\nHost: {host}:{port}\\r\\n\\r\\n' >&3\nwhile read -r -t 30 line <&3; do echo \"$line\"; done; echo \"$line\"\n"
    ));
}

#[test]
fn a_host_without_a_rule_is_refused_with_a_reason() {
    let world = world("network_policies: {}\n", "bash probe.sh");
    connect(&world, "evil.example", 443);
    let (report, events) = run(&world);
    assert!(report.contains("403") && report.contains("policy_denied"), "{report}");
    let event = events.iter().find(|event| event.to_string().contains("evil.example")).expect("an event");
    assert!(event.to_string().contains("/bash"), "the event names the program: {event}");
}

/// A process that has ended and is not reaped shows its descriptors to root alone.
#[test]
fn a_process_that_is_not_reaped_does_not_hide_the_caller() {
    let shell = "(true & exec tail -f /dev/null) & sleep 0.5; bash probe.sh";
    let world = world("network_policies: {}\n", shell);
    connect(&world, "evil.example", 443);
    let Some(world) = world.by_user() else { return };
    let (report, events) = run(&world);
    assert!(report.contains("policy_denied"), "{report}");
    assert!(events.iter().any(|event| event.to_string().contains("/bash")), "{events:?}");
}

#[test]
fn loopback_stays_closed_whatever_a_rule_says() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let rule = format!(
        "network_policies:\n  local:\n    endpoints:\n      - host: localhost\n        port: {port}\n    binaries:\n      - path: /usr/bin/*\n"
    );
    let world = world(&rule, "bash probe.sh");
    connect(&world, "localhost", port);
    let (report, _) = run(&world);
    assert!(report.contains("403") && !report.contains("caller_unknown"), "{report}");
}

#[test]
fn names_that_no_rule_allows_do_not_exist() {
    let world = world(
        "network_policies: {}\n",
        "getent hosts forbidden.example; echo code=$?; getent hosts model.fullsend.internal",
    );
    let (report, _) = run(&world);
    assert!(report.contains("code=2"), "{report}");
    assert!(report.contains("model.fullsend.internal"), "{report}");
}
