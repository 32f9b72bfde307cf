//! Servers on the host: only the agent can use them, they are ready before it starts, and nothing of them is left.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use crate::support::{World, has_program, has_programs};

/// Asks for its token, keeps where it listens and who it is, and obeys a few paths.
const SERVER: &str = r#"#!/usr/bin/python3
import http.server, os, subprocess, sys, time
place = os.environ["PLACE"]
class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self):
        if self.headers.get("Authorization") != "Bearer " + os.environ["FULLSEND_API_TOKEN"]:
            return self.say(401, "who are you?")
        if self.path == "/die":
            os._exit(5)
        if self.path == "/wait":
            while not os.path.exists(place + "/go"): time.sleep(0.02)
        self.say(200, self.command + " " + self.path)
    do_GET = do_POST = answer
    def say(self, code, text):
        self.send_response(code)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())
left = subprocess.Popen(["setsid", "sleep", "7654"])
print("the token is", os.environ["FULLSEND_API_TOKEN"], flush=True)
print("and upstream it is", os.environ["TRACKER_PASSWORD"], flush=True)
print("far " + "x " * 32761 + os.environ["TRACKER_PASSWORD"], flush=True)
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler)
with open(place + "/pids.new", "w") as file:
    file.write(f"{os.environ['PORT']} {os.getpid()} {left.pid}")
os.rename(place + "/pids.new", place + "/pids")
server.serve_forever()
"#;

fn world(server: &str, more: &str, shell: &str) -> World {
    let world = World::with_harness();
    let place = world.path("tmp");
    world.write(
        "repo/.fullsend/harness/triage.yaml",
        format!(
            "agent: agents/triage.md\nruntime: native\noutput_schema: schemas/triage.json\nproviders: [model]\nsandbox_timeout_seconds: 30\n\
             api_servers:\n  - {{name: tracker, script: api-servers/tracker, port: 8080, env: {{PLACE: {}, TRACKER_PASSWORD: '${{TRACKER_PASSWORD}}'}}{more}}}\n",
            place.display()
        ),
    );
    world.script("repo/.fullsend/api-servers/tracker", server);
    world.write(
        "repo/.fullsend/providers/model.yaml",
        "name: model\ntype: anthropic\nconfig:\n  scenario: scenarios/s.json\n",
    );
    let scenario = json!({ "turns": [
        [{ "shell": format!("({shell}) > /sandbox/workspace/output/report.txt 2>&1; true") }],
        [{ "finish": { "summary": "looked" } }],
    ]});
    world.write("repo/.fullsend/scenarios/s.json", scenario.to_string());
    world.env("TRACKER_PASSWORD", "correct-horse-9931")
}

fn directory(world: &World) -> PathBuf {
    let mut runs = fs::read_dir(world.path("state/fullsend/runs/local")).unwrap();
    runs.next().unwrap().unwrap().path()
}

fn report(world: &World) -> String {
    fs::read_to_string(directory(world).join("iteration-1/output/report.txt")).unwrap()
}

fn server_events(world: &World) -> Vec<Json> {
    let text = fs::read_to_string(directory(world).join("events.jsonl")).unwrap();
    let events = text.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
    events.filter(|event| event["type"] == "api_server").collect()
}

/// The port, and the processes of the server, once it listens.
fn pids(world: &World) -> Option<(u16, Vec<u32>)> {
    let text = fs::read_to_string(world.path("tmp/pids")).ok()?;
    let mut words = text.split(' ').map(|word| word.parse::<u32>().unwrap());
    Some((u16::try_from(words.next()?).unwrap(), words.collect()))
}

fn alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn wait_for<T>(seconds: u64, mut ready: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(seconds);
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(Instant::now() < deadline, "it did not happen in time");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Another program of the host asks.
fn neighbour(port: u16, authorization: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(stream, "GET /issues HTTP/1.0\r\nHost: x\r\n{authorization}\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

const ASK: &str =
    "ask() { curl -sS --max-time 20 \"$@\"; echo; }; there=http://tracker.api.fullsend.internal:8080;";

#[test]
fn the_agent_can_use_it_and_no_neighbour_can() {
    if !has_programs(&["curl", "python3"], "servers") {
        return;
    }
    let shell = format!(
        "{ASK} ask $there/wait; ask -X POST -d x -H 'Authorization: Bearer guess' $there/issues; \
         env -u http_proxy -u HTTP_PROXY -u ALL_PROXY -u all_proxy curl -sS --max-time 20 $there/bare; echo; env | grep -c FULLSEND_API"
    );
    let world = world(SERVER, ", health: /ready", &shell);
    let ran = std::thread::scope(|scope| {
        let run = scope.spawn(|| world.run(&["run", "triage"]));
        let (port, _) = wait_for(60, || pids(&world));
        for authorization in ["", "Authorization: Bearer guess\r\n"] {
            let answer = neighbour(port, authorization);
            assert!(answer.contains(" 401 "), "{answer}");
        }
        world.write("tmp/go", "");
        run.join().unwrap()
    });
    assert_eq!(ran.code, 0, "{}", ran.err);
    let report = report(&world);
    assert_eq!(report, "GET /wait\nPOST /issues\nGET /bare\n0\n");
    let log = fs::read_to_string(directory(&world).join("api-tracker.log")).unwrap();
    assert!(log.contains("the token is [REDACTED") && log.contains("and upstream it is [REDACTED"), "{log}");
    assert!(log.contains(" x x [REDACTED") && !log.contains("correct-"), "whatever pieces a line comes in");
    let states: Vec<String> = server_events(&world).iter().map(|event| event["state"].to_string()).collect();
    assert_eq!(states, ["\"ready\""]);
    let (_, pids) = pids(&world).unwrap();
    assert!(!pids.iter().any(|pid| alive(*pid)), "the server, or what it left behind, is still there");
}

#[test]
fn a_policy_narrows_it() {
    if !has_programs(&["curl", "python3"], "servers") {
        return;
    }
    let shell = format!("{ASK} ask $there/issues/7; ask -X POST -d x $there/issues/7; ask $there/admin");
    let world = world(SERVER, "", &shell);
    let harness = fs::read_to_string(world.path("repo/.fullsend/harness/triage.yaml")).unwrap();
    world.write("repo/.fullsend/harness/triage.yaml", format!("{harness}policy: policies/p.yaml\n"));
    world.write(
        "repo/.fullsend/policies/p.yaml",
        "version: 1\nfilesystem_policy:\n  include_workdir: true\nprocess:\n  run_as_user: sandbox\nnetwork_policies:\n  tracker:\n    endpoints:\n      - host: tracker.api.fullsend.internal\n        port: 8080\n        protocol: rest\n        enforcement: enforce\n        rules:\n          - allow: {method: GET, path: \"/issues/**\"}\n    binaries:\n      - path: /usr/bin/curl\n",
    );
    let ran = world.run(&["run", "triage"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let report = report(&world);
    let lines: Vec<&str> = report.lines().collect();
    assert_eq!(lines[0], "GET /issues/7");
    assert!(lines[1].contains("policy_denied") && lines[2].contains("policy_denied"), "{report}");
}

#[test]
fn dead_server_is_reported_and_not_restarted() {
    if !has_programs(&["curl", "python3"], "servers") {
        return;
    }
    let shell = format!("{ASK} ask $there/die; sleep 1; ask $there/issues; ask $there/issues");
    let world = world(SERVER, "", &shell);
    let ran = world.run(&["run", "triage"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("tracker has ended with 5"), "{}", ran.err);
    let report = report(&world);
    let refusals = report.matches("the api server `tracker` has ended with 5 and is not started again");
    assert_eq!(refusals.count(), 2, "{report}");
    let ended: Vec<Json> =
        server_events(&world).into_iter().filter(|event| event["state"] == "ended").collect();
    assert_eq!(ended.len(), 1, "{ended:?}");
    let (_, pids) = pids(&world).unwrap();
    assert!(!pids.iter().any(|pid| alive(*pid)));
}

#[test]
fn server_that_is_not_ready_ends_the_run() {
    if !has_program("python3", "servers") {
        return;
    }
    for (server, more, words) in [
        ("#!/bin/sh\necho no database >&2\nexit 3\n", "", "has ended with 3"),
        ("#!/bin/sh\nexec sleep 7653\n", "", "is not ready in time: it accepts no connection"),
        (
            &SERVER.replace("return self.say(401, \"who are you?\")", "pass"),
            "",
            "answers a wrong token with 200",
        ),
    ] {
        let world = world(server, more, "true");
        let ran = world.run(&["run", "triage"]);
        assert_eq!(ran.code, 1, "{words}: {}", ran.err);
        assert!(ran.err.contains(&format!("the api server `tracker` {words}")), "{}", ran.err);
        let left = pids(&world).map(|(_, pids)| pids).unwrap_or_default();
        assert!(!left.iter().any(|pid| alive(*pid)), "{words}");
    }
}

#[test]
fn api_servers_end_when_the_runner_is_killed() {
    if !has_program("python3", "servers") {
        return;
    }
    let world = world(SERVER, "", &format!("{ASK} ask $there/wait"));
    let mut runner = world.spawn(&["run", "triage"]);
    let (_, pids) = wait_for(60, || pids(&world));
    assert!(pids.iter().all(|pid| alive(*pid)));
    runner.kill().unwrap();
    runner.wait().unwrap();
    wait_for(20, || (!pids.iter().any(|pid| alive(*pid))).then_some(()));
}
