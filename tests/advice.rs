//! A run with refusals ends with the lines that allow them, and `policy suggest --write` adds these lines: the next run
//! passes. What an organisation forbids is not written.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use serde_json::{Value as Json, json};

use crate::support::World;

const POLICY: &str = "version: 1
filesystem_policy:
  include_workdir: true
process:
  run_as_user: sandbox
network_policies: {}  # the model alone
";

const OURS: &str = "version: 1
network_policies:
  ours:
    endpoints:
      - {host: 8.8.4.4, port: 443, protocol: rest, enforcement: enforce, access: read-only}
    binaries:
      - {path: '/**/bash'}
";

/// The proxy of the host: it connects to everything, and nothing is there. Public addresses are reached through it alone.
fn host_proxy() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(16) {
            let mut reader = BufReader::new(stream.unwrap());
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                line.clear();
            }
            drop(reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\n\r\n"));
        }
    });
    port
}

/// A run that asks for two hosts: one that a network by name allows, and one that none does.
fn world() -> World {
    let shell = "bash probe.sh > /sandbox/workspace/output/report.txt 2>&1; true";
    let scenario = json!({ "turns": [[{ "shell": shell }], [{ "finish": { "summary": "x" } }]] });
    let world = World::scripted("policy: policies/p.yaml\nnetwork: [npm]  # more\n", scenario);
    world.write("repo/.fullsend/policies/p.yaml", POLICY);
    world.write("repo/.fullsend/networks/ours.yaml", OURS);
    let ask = |host: &&str| {
        format!(
            "exec 3<>/dev/tcp/127.0.0.1/3128\nprintf 'CONNECT {host} HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n' >&3\nread -r -t 30 line <&3; echo \"{host} $line\"\nexec 3>&-\n"
        )
    };
    let probe: String = ["8.8.4.4:443", "8.8.8.8:8443"].iter().map(ask).collect();
    world.write("repo/probe.sh", probe);
    world.env("HTTPS_PROXY", &format!("http://127.0.0.1:{}", host_proxy()))
}

/// What the agent's requests got in the latest run.
fn report(world: &World) -> Vec<String> {
    let mut runs: Vec<_> = fs::read_dir(world.path("state/fullsend/runs/local")).unwrap().collect();
    runs.sort_by_key(|run| run.as_ref().unwrap().file_name());
    let latest = runs.pop().unwrap().unwrap().path();
    let text = fs::read_to_string(latest.join("iteration-1/output/report.txt")).unwrap();
    text.lines().map(|line| line.trim().to_owned()).collect()
}

#[test]
fn following_the_advice_makes_the_next_run_pass() {
    let world = world();
    let first = world.run(&["run", "triage"]);
    assert_eq!(first.code, 0, "{}", first.err);
    assert!(report(&world).iter().all(|line| line.contains(" 403 ")), "{:?}", report(&world));

    let suggested = world.run(&["policy", "suggest"]);
    assert_eq!(suggested.code, 0, "{}", suggested.err);
    assert!(suggested.out.starts_with("network: [npm, ours]\nnetwork_policies:\n"), "{}", suggested.out);
    assert!(suggested.out.contains("host: \"8.8.8.8\"\n"), "{}", suggested.out);
    assert!(!suggested.out.contains("8.8.4.4"), "{}", suggested.out);
    for line in suggested.out.lines() {
        assert!(first.err.contains(line), "the run's own end has `{line}`: {}", first.err);
    }
    assert!(first.err.contains("to .fullsend/harness/triage.yaml:"), "{}", first.err);
    assert!(first.err.contains("to .fullsend/policies/p.yaml:"), "{}", first.err);
    let data: Json = serde_json::from_str(&world.run(&["policy", "suggest", "--json"]).out).unwrap();
    assert_eq!(data["network"], json!(["ours"]), "{data}");

    let written = world.run(&["policy", "suggest", "--write"]);
    assert_eq!(written.code, 0, "{}", written.err);
    assert!(written.err.contains("wrote .fullsend/harness/triage.yaml\n"), "{}", written.err);
    let harness = fs::read_to_string(world.path("repo/.fullsend/harness/triage.yaml")).unwrap();
    assert!(harness.contains("network: [npm, ours]  # more\n"), "{harness}");

    let second = world.run(&["run", "triage"]);
    assert_eq!(second.code, 0, "{}", second.err);
    assert!(report(&world).iter().all(|line| line.contains(" 200 ")), "{:?}", report(&world));
    assert!(!second.err.contains("  refused   "), "{}", second.err);
    let nothing = world.run(&["policy", "suggest", "--write"]);
    assert_eq!((nothing.code, nothing.out.as_str()), (0, ""), "{}", nothing.err);
}

#[test]
fn what_the_organisation_forbids_is_not_written() {
    let world = world();
    let ran = world.run(&["run", "triage"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let organisation = "../org";
    world.write("org/config.yaml", "policy_ceiling: policies/ceiling.yaml\n");
    let npm =
        fs::read_to_string(crate::support::root().join("crates/fullsend/src/defaults/networks/npm.yaml"));
    world.write("org/policies/ceiling.yaml", npm.unwrap());
    let harness = world.path("repo/.fullsend/harness/triage.yaml");
    let before = fs::read_to_string(&harness).unwrap();
    let refused = world.run(&["policy", "suggest", "--write", "--org-dir", organisation]);
    assert_ne!(refused.code, 0, "{}", refused.err);
    assert!(refused.err.contains("wider than the organisation allows"), "{}", refused.err);
    assert_eq!(fs::read_to_string(&harness).unwrap(), before);
    assert_eq!(fs::read_to_string(world.path("repo/.fullsend/policies/p.yaml")).unwrap(), POLICY);
}

/// A harness with the built-in policy gets a copy of it.
#[test]
fn a_built_in_policy_becomes_a_file() {
    let world = world();
    let harness = fs::read_to_string(world.path("repo/.fullsend/harness/triage.yaml")).unwrap();
    world.write("repo/.fullsend/harness/triage.yaml", harness.replace("policy: policies/p.yaml\n", ""));
    assert_eq!(world.run(&["run", "triage"]).code, 0);
    let written = world.run(&["policy", "suggest", "--write"]);
    assert_eq!(written.code, 0, "{}", written.err);
    assert!(written.err.contains("wrote .fullsend/policies/default.yaml\n"), "{}", written.err);
    assert_eq!(world.run(&["run", "triage"]).code, 0);
    assert!(report(&world).iter().all(|line| line.contains(" 200 ")), "{:?}", report(&world));
}
