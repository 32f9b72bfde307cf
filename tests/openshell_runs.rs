//! Whole runs on an OpenShell gateway: the demo, a harness of the original design with its API server, and a gateway that
//! asks for a certificate.

use std::fs;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::{Value as Json, json};

use crate::openshell::{Gateway, NEW, OLD, record, run_triage};
use crate::readable::repository;
use crate::runtimes::in_image::installed;
use crate::runtimes::programs::is_available;
use crate::runtimes::stage::{Stage, good};
use crate::support::{World, copy, has_programs, root};
use crate::vendor::{KEY, scripted};

const BACKEND: &str = "sandbox:\n  backend: openshell\n";

/// Asks for its token.
const TRACKER: &str = r#"#!/usr/bin/python3
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        known = self.headers.get("Authorization") == "Bearer " + os.environ["FULLSEND_API_TOKEN"]
        text = (f"issue {self.path}" if known else "who are you?").encode()
        self.send_response(200 if known else 401)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"#;

const SERVERS: &str = "sandbox_timeout_seconds: 60\napi_servers:\n  - {name: tracker, script: api-servers/tracker, port: 8080}\n";

fn append(world: &World, harness: &str, more: &str) {
    let path = format!("repo/.fullsend/harness/{harness}.yaml");
    let text = fs::read_to_string(world.path(&path)).unwrap();
    world.write(&path, format!("{text}{more}"));
}

fn output(world: &World, file: &str) -> String {
    let mut runs = fs::read_dir(world.path("state/fullsend/runs/local")).unwrap();
    let run = runs.next().unwrap().unwrap().path();
    fs::read_to_string(run.join("iteration-1/output").join(file)).unwrap()
}

#[test]
fn an_api_server_is_reached_by_its_name_through_the_tunnel() {
    if !has_programs(&["curl", "python3"], "openshell") {
        return;
    }
    let Some(gateway) = Gateway::start(NEW, &json!({})) else { return };
    let shell = "there=http://tracker.api.fullsend.internal:8080; \
        (curl -sS --max-time 60 $there/7; echo; curl -sS --max-time 60 -H 'Authorization: Bearer guess' $there/8; echo; \
        curl -sS --max-time 60 http://other.example/; echo; env | grep -c FULLSEND_API_TOKEN) > $FULLSEND_OUTPUT_DIR/seen.txt 2>&1; true";
    let scenario = json!({ "turns": [[{ "shell": shell }], [{ "finish": { "summary": "looked" } }]] });
    let world = gateway.world(SERVERS, &scenario);
    world.script("repo/.fullsend/api-servers/tracker", TRACKER);
    let ran = run_triage(&world);
    assert_eq!(ran.code, 0, "{}\n{:?}", ran.all(), gateway.calls("cut"));
    let seen = output(&world, "seen.txt");
    let lines: Vec<&str> = seen.lines().collect();
    assert_eq!(lines[..2], ["issue /7", "issue /8"], "the proxy puts the token in: {seen}");
    assert!(lines[2].contains("policy_denied"), "nothing but the servers is behind that proxy: {seen}");
    assert_eq!(lines[3], "0", "the token is not inside: {seen}");
    assert_eq!(gateway.wait_for("deleted")["left"], 0);
}

#[test]
fn a_server_that_the_policy_keeps_for_some_programs_is_refused() {
    let world = World::scripted(
        &format!("image: registry.example/team/agent:1\n{BACKEND}{SERVERS}policy: policies/p.yaml\n"),
        json!({ "turns": [[{ "finish": { "summary": "done" } }]] }),
    );
    world.script("repo/.fullsend/api-servers/tracker", TRACKER);
    let policy = |program: &str, port: u16| {
        format!(
            "version: 1\nnetwork_policies:\n  tracker:\n    endpoints:\n      - {{host: tracker.api.fullsend.internal, port: 8080, \
             protocol: rest, access: read-only, enforcement: enforce}}\n    binaries: [{{path: {program}}}]\n  \
             web:\n    endpoints: [{{host: web.example, port: {port}}}]\n    binaries: [{{path: /**}}]\n"
        )
    };
    for (program, port, expected) in [
        ("/usr/bin/curl", 443, Some("no rule lets every program use the API server `tracker`")),
        ("/**", 80, Some("plain HTTP cannot leave beside `api_servers`")),
        ("/**", 443, None),
    ] {
        world.write("repo/.fullsend/policies/p.yaml", policy(program, port));
        let ran = world.run(&["check", "triage"]);
        match expected {
            Some(words) => assert!(ran.code == 3 && ran.all().contains(words), "{}", ran.all()),
            None => assert!(!ran.all().contains("openshell"), "{}", ran.all()),
        }
    }
}

#[test]
fn the_demo_runs_on_a_gateway() {
    let Some(gateway) = Gateway::start(NEW, &json!({})) else { return };
    let world = gateway.reached_by(repository());
    append(&world, "hello", &format!("image: registry.example/team/agent:1\n{BACKEND}"));
    let ran = world.run(&["run", "hello"]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    let expected =
        json!({ "fixed": true, "file": "greet.sh", "cause": "The default name was misspelt as wrold." });
    assert_eq!(serde_json::from_str::<Json>(&ran.out).unwrap(), expected, "{}", ran.out);
    for part in [
        "retry     attempt 2: the agent gets the reasons",
        "changes   1 file changed, 1 line added, 1 removed",
        "finding",
    ] {
        assert!(ran.err.contains(part), "{part}:\n{}", ran.err);
    }
    assert_eq!(gateway.wait_for("deleted")["left"], 0);
}

/// What the agent of the original design looks at.
const LOOK: &str = "( . /sandbox/workspace/.env; echo $ANTHROPIC_VERTEX_PROJECT_ID $CLOUD_ML_REGION; \
    cat /tmp/workspace/.gcp-credentials.json; echo; ls /sandbox/native-config/skills; \
    curl -sS --max-time 60 http://github-proxy.api.fullsend.internal:8081/health; echo; env ) > $FULLSEND_OUTPUT_DIR/seen.txt 2>&1; true";

#[test]
fn a_harness_of_the_original_design_runs_on_a_gateway() {
    if !has_programs(&["curl", "python3"], "openshell") {
        return;
    }
    let Some(gateway) = Gateway::start(OLD, &json!({})) else { return };
    let world = World::new();
    copy(&root().join("examples/ci"), &world.path("repo"));
    world.write(
        "repo/.fullsend/providers/vertex-ai.yaml",
        "name: vertex-ai\ntype: anthropic\nconfig:\n  base_url: ${MODEL_ADDRESS}\ncredentials:\n  ANTHROPIC_API_KEY: ${MODEL_KEY}\n",
    );
    let turns = json!({ "turns": [[{ "shell": LOOK }], [{ "finish": { "summary": "a duplicate" } }]] });
    let (port, _) = scripted(&turns);
    let credentials = world.write("credentials.json", r#"{"type":"service_account","project_id":"p"}"#);
    let world = gateway
        .reached_by(world)
        .env("GOOGLE_APPLICATION_CREDENTIALS", credentials.to_str().unwrap())
        .env("MODEL_ADDRESS", &format!("http://127.0.0.1:{port}"))
        .env("MODEL_KEY", KEY)
        .env("GH_TOKEN", "a-token-of-the-host-only")
        .env("ANTHROPIC_VERTEX_PROJECT_ID", "project-7")
        .env("CLOUD_ML_REGION", "here")
        .env("ISSUE_NUMBER", "12")
        .env("REPO_FULL_NAME", "acme/widgets");
    append(&world, "triage", &format!("sandbox_timeout_seconds: 60\n{BACKEND}"));
    let ran = world.run(&["run", "triage", "--runtime", "native"]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    let record = record(&world);
    let scripts: Vec<&str> =
        record["scripts"].as_array().unwrap().iter().map(|one| one["script"].as_str().unwrap()).collect();
    assert_eq!(scripts, ["pre_script", "post_script"]);
    let asked = &gateway.calls("CreateSandbox")[0]["asked"]["spec"];
    assert_eq!(asked["template"]["image"], "quay.io/fullsend/triage-agent:latest");
    assert_eq!(asked["policy"]["process"], json!({ "run_as_user": "sandbox", "run_as_group": "sandbox" }));
    let seen = output(&world, "seen.txt");
    for expected in
        ["project-7 here\n", "service_account", "{\"ok\": true}", "triage-coordination", "detect-duplicates"]
    {
        assert!(seen.contains(expected), "{expected} is missing:\n{seen}");
    }
    assert!(!seen.contains("a-token-of-the-host-only"), "the token stays on the host:\n{seen}");
    assert_eq!(gateway.wait_for("deleted")["left"], 0);
}

/// Certificates of an authority, of a server named `localhost` and of a client, where `openshell gateway add` keeps them.
fn certificates(place: &Path) {
    fs::create_dir_all(place).unwrap();
    let key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    fs::write(place.join("ca.crt"), authority.self_signed(&key).unwrap().pem()).unwrap();
    let issuer = Issuer::new(authority, key);
    for (file, names) in [("server", vec!["localhost".to_owned()]), ("tls", Vec::new())] {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, file);
        let certificate = params.signed_by(&key, &issuer).unwrap();
        fs::write(place.join(format!("{file}.crt")), certificate.pem()).unwrap();
        fs::write(place.join(format!("{file}.key")), key.serialize_pem()).unwrap();
    }
}

#[test]
fn a_gateway_that_asks_for_a_certificate_gets_the_registered_one() {
    let scenario = json!({ "turns": [[{ "finish": { "summary": "done" } }]] });
    let world = World::scripted(&format!("image: registry.example/team/agent:1\n{BACKEND}"), &scenario);
    let place = world.path("config/openshell/gateways/lab");
    let mtls = place.join("mtls");
    certificates(&mtls);
    let Some(gateway) = Gateway::start(NEW, &json!({ "tls": mtls, "token": null })) else { return };
    let endpoint = format!("https://localhost:{}", gateway.port);
    fs::write(place.join("metadata.json"), json!({ "gateway_endpoint": endpoint }).to_string()).unwrap();
    let configuration = world.path("config");
    let world = world.env("XDG_CONFIG_HOME", configuration.to_str().unwrap()).env("OPENSHELL_GATEWAY", "lab");
    let ran = run_triage(&world);
    assert_eq!(ran.code, 0, "{}", ran.all());
    assert_eq!(gateway.wait_for("deleted")["left"], 0);
    fs::remove_file(mtls.join("tls.crt")).unwrap();
    let ran = run_triage(&world);
    assert_eq!(ran.code, 8, "without it the gateway does not talk to us: {}", ran.all());
    fs::write(mtls.join("ca.crt"), "no certificate").unwrap();
    let ran = run_triage(&world);
    assert!(ran.all().contains("ca.crt: it has no certificate of an authority"), "{}", ran.all());
    assert_eq!(gateway.calls("CreateSandbox").len(), 1);
}

/// A stage for the real program, which the image of the gateway has.
fn stage(gateway: &Gateway, scenario: &Json) -> Option<Stage> {
    // The gateway's sandbox runs as root in a namespace of its own, which Claude Code only accepts where it is told so.
    let more =
        format!("image: registry.example/team/agent:1\n{BACKEND}env:\n  sandbox: {{IS_SANDBOX: '1'}}\n");
    let mut stage = Stage::with("claude", "openshell", scenario, &more)?;
    stage.world = gateway.reached_by(stage.world);
    Some(stage)
}

fn gateway_with_claude() -> Option<Gateway> {
    if !is_available("claude", "openshell") {
        return None;
    }
    Gateway::start(NEW, &json!({ "agent": installed("claude") }))
}

#[test]
fn the_real_claude_runs_on_a_gateway() {
    let Some(gateway) = gateway_with_claude() else { return };
    let mend = "sed -i s/wrold/world/ greet.sh; cat greet.sh";
    let scenario = json!({
        "turns": [[{ "shell": mend }], [{ "finish": { "fixed": "yes" } }]],
        "branches": [{
            "when": { "user_contains": "Your output was rejected" },
            "turns": [[{ "finish": good() }]],
        }],
    });
    let Some(stage) = stage(&gateway, &scenario) else { return };
    let record = stage.ends(0);
    assert_eq!(record["program"]["place"], "/usr/local/bin/claude in the image", "{record:#}");
    assert_eq!(stage.accepted(2), good(), "the second attempt continues the conversation");
    assert!(stage.words().join("\n").contains("Hello, world!"), "the program ran its tool there");
    assert_eq!(gateway.wait_for("deleted")["left"], 0);
}

#[test]
fn a_claude_that_cuts_its_hooks_off_is_stopped() {
    let Some(gateway) = gateway_with_claude() else { return };
    let scenario = json!({ "turns": [
        [{ "shell": "rm /opt/fullsend/guard.sock" }],
        [{ "shell": "echo unwatched" }],
        [{ "finish": good() }],
    ] });
    let Some(stage) = stage(&gateway, &scenario) else { return };
    let ran = stage.run();
    assert_eq!(ran.code, 6, "{}", ran.all());
    assert!(ran.err.contains("guard"), "{}", ran.err);
    assert_eq!(gateway.wait_for("deleted")["left"], 0);
}
