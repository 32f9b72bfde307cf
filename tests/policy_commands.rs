//! `fullsend policy`: one request decided by which line, and the least YAML that allows what a run was refused.

use std::fs;

use serde_json::{Value as Json, json};

use crate::support::World;

const POLICY: &str = "version: 1
filesystem_policy:
  include_workdir: true
process:
  run_as_user: sandbox
network_policies:
  api:
    endpoints:
      - host: api.example.com
        port: 443
        protocol: rest
        enforcement: enforce
        rules:
          - allow: {method: GET, path: \"/v1/**\"}
        deny_rules:
          - {method: GET, path: \"/v1/admin/**\"}
      - host: watched.example.com
        port: 443
        protocol: rest
        enforcement: audit
        access: read-only
    binaries:
      - path: /usr/bin/curl
  database:
    endpoints:
      - {host: 10.1.2.3, port: 5432}
    binaries:
      - path: /usr/bin/psql
";

fn world() -> World {
    let world = World::new();
    world.write("repo/p.yaml", POLICY);
    world
}

#[test]
fn a_request_is_decided_and_the_line_named() {
    let world = world();
    for (method, url, binary, code, said) in [
        ("GET", "https://api.example.com/v1/x", Some("/usr/bin/curl"), 0, "allow: p.yaml:14:20, rule `api`"),
        ("GET", "https://api.example.com/v1/x", None, 0, "allow: p.yaml:14:20, rule `api`"),
        ("HEAD", "https://api.example.com/v1/a/../x", None, 0, "allow: p.yaml:14:20"),
        (
            "GET",
            "https://api.example.com/v1/x",
            Some("/usr/bin/wget"),
            1,
            "deny: p.yaml:7:3, rule `api`: no rule for this host and port names the calling program",
        ),
        (
            "POST",
            "https://api.example.com/v1/x",
            None,
            1,
            "deny: p.yaml:9:9, rule `api`: no rule allows this request",
        ),
        (
            "GET",
            "https://api.example.com/v1/admin/x",
            None,
            1,
            "deny: p.yaml:16:13, rule `api`: a deny rule forbids this request",
        ),
        ("GET", "https://elsewhere.example.com/", None, 1, "deny: p.yaml: no rule names this host and port"),
        (
            "DELETE",
            "https://watched.example.com/x",
            None,
            0,
            "allow (audit; enforce would deny: p.yaml:17:9, rule `api`: no rule allows this request)",
        ),
        ("GET", "tcp://10.1.2.3:5432", Some("/usr/bin/psql"), 0, "allow: "),
        ("GET", "http://169.254.169.254/latest", None, 1, "deny: p.yaml: no rule names this host and port"),
    ] {
        let mut arguments = vec!["policy", "test", "--policy", "p.yaml", method, url];
        arguments.extend(binary.iter().flat_map(|binary| ["--binary", binary]));
        let ran = world.run(&arguments);
        assert_eq!(ran.code, code, "{method} {url}: {}{}", ran.out, ran.err);
        assert!(ran.out.starts_with(said), "{method} {url}: {}", ran.out);
    }
}

#[test]
fn a_body_is_decided_by_what_it_asks_for() {
    let world = world();
    let endpoint = |host: &str, rest: &str| format!("      - {{host: {host}, port: 443, {rest}}}\n");
    let policy = [
        "version: 1\nnetwork_policies:\n  api:\n    binaries: [{path: /usr/bin/curl}]\n    endpoints:\n"
            .to_owned(),
        endpoint("mcp.test", "protocol: mcp, rules: [{allow: {tool: search}}]"),
        endpoint("graphql.test", "protocol: graphql, access: read-only"),
    ];
    world.write("repo/bodies.yaml", policy.concat());
    world.write("repo/query.json", r#"{"query": "{ viewer { login } }"}"#);
    let call = |tool: &str| {
        format!(r#"{{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {{"name": "{tool}"}}}}"#)
    };
    for (url, body, code, said) in [
        ("https://mcp.test/mcp", vec!["--body", &call("search")], 0, "allow: bodies.yaml:6:"),
        (
            "https://mcp.test/mcp",
            vec!["--body", &call("rm")],
            1,
            "deny: bodies.yaml:6:9, rule `api`: tools/call rm: no rule allows this request",
        ),
        ("https://mcp.test/mcp", vec![], 1, "deny: bodies.yaml:6:9, rule `api`: the content type is missing"),
        ("https://graphql.test/", vec!["--body-file", "query.json"], 0, "allow: bodies.yaml:7:"),
        (
            "https://graphql.test/",
            vec!["--body", "mutation { drop }", "--content-type", "application/graphql"],
            1,
            "deny: bodies.yaml:7:9, rule `api`: mutation { drop }: no rule allows this request",
        ),
    ] {
        let ran =
            world.run(&[&["policy", "test", "--policy", "bodies.yaml", "POST", url], &body[..]].concat());
        assert_eq!(ran.code, code, "{url} {body:?}: {}{}", ran.out, ran.err);
        assert!(ran.out.starts_with(said), "{url} {body:?}: {}", ran.out);
    }
    let ran = world.run(&[
        "policy",
        "test",
        "--policy",
        "bodies.yaml",
        "POST",
        "https://mcp.test/",
        "--body-file",
        "none",
    ]);
    assert!(ran.code == 2 && ran.err.contains("cannot read the body none"), "{}", ran.err);
}

#[test]
fn policy_test_reports_invalid_arguments() {
    let world = world();
    world.write("repo/broken.yaml", "version: 1\nnetwork_policys: {}\n");
    for (policy, url, code, words) in [
        ("p.yaml", "api.example.com", 2, "is not a URL"),
        ("p.yaml", "https://u:p@api.example.com/", 2, "contains a user name"),
        ("none.yaml", "https://a.example.com/", 4, "cannot be read"),
        ("broken.yaml", "https://a.example.com/", 3, "network_policys"),
    ] {
        let ran = world.run(&["policy", "test", "--policy", policy, "GET", url]);
        assert_eq!(ran.code, code, "{url}: {}", ran.err);
        assert!(ran.err.contains(words), "{url}: {}", ran.err);
    }
    assert_eq!(world.run(&["policy", "suggest", "none"]).code, 4);
}

/// Asks the proxy for tunnels from bash alone, so that the caller is clear.
fn probe(hosts: &[&str]) -> String {
    let ask = |host: &&str| {
        format!(
            "exec 3<>/dev/tcp/127.0.0.1/3128\nprintf 'CONNECT {host} HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n' >&3\nwhile read -r -t 60 line <&3; do :; done\n"
        )
    };
    hosts.iter().map(ask).collect()
}

#[test]
fn suggestion_is_the_smallest_rule_for_a_refusal() {
    let scenario =
        json!({ "turns": [[{ "shell": "bash probe.sh; true" }], [{ "finish": { "summary": "x" } }]] });
    let world = World::scripted("policy: policies/p.yaml\n", scenario);
    world.write("repo/.fullsend/policies/p.yaml", POLICY);
    world.write("repo/probe.sh", probe(&["new.example.com:8443", "169.254.169.254:80", "10.9.9.9:443"]));
    let ran = world.run(&["run", "triage"]);
    assert_eq!(ran.code, 0, "{}", ran.err);

    let suggested = world.run(&["policy", "suggest", "latest"]);
    assert_eq!(suggested.code, 0, "{}", suggested.err);
    assert!(
        suggested.out.contains("host: new.example.com") && suggested.out.contains("port: 8443"),
        "{}",
        suggested.out
    );
    assert!(!suggested.out.contains("169.254") && !suggested.out.contains("10.9.9.9"), "{}", suggested.out);
    assert!(suggested.err.contains("nothing is suggested for 169.254.169.254:80"), "{}", suggested.err);

    let addition = suggested.out.strip_prefix("network_policies:\n").unwrap();
    world.write("repo/mended.yaml", format!("{POLICY}{addition}"));
    let bash = fs::canonicalize("/bin/bash").unwrap();
    let ask = |policy: &str| {
        let binary = bash.to_str().unwrap();
        world
            .run(&[
                "policy",
                "test",
                "--policy",
                policy,
                "--binary",
                binary,
                "GET",
                "https://new.example.com:8443/",
            ])
            .code
    };
    assert_eq!(
        (ask("repo/.fullsend/policies/p.yaml".trim_start_matches("repo/")), ask("mended.yaml")),
        (1, 0)
    );
    projected(&world);
}

/// One line for each attempt, with who, where to, the decision and how much.
fn projected(world: &World) {
    let run = fs::read_dir(world.path("state/fullsend/runs/local")).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(run.join("egress.jsonl")).unwrap();
    let lines: Vec<Json> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let line = lines.iter().find(|line| line["endpoint"] == "new.example.com:8443").expect("a line");
    assert_eq!(line["decision"], "denied");
    assert!(
        line["binary"].as_str().unwrap().ends_with("/bash") && line["pid"].as_u64().unwrap() > 0,
        "{line}"
    );
    assert!(line["time"].is_string() && line["bytes_out"].is_u64() && line["reason"].is_string(), "{line}");
    // The names that the proof asked for, before there was an agent, have no process.
    assert_eq!(lines.iter().filter(|line| line["pid"].is_u64()).count(), 3, "{text}");
}
