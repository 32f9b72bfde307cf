//! The two harnesses of the original design, run end to end with every field live: scripts, api server, host files,
//! skills, the validation loop. The image is a local archive, and the agent our own. The provider's `base_url` is that of
//! the scripted model on the loopback address; `as_printed` leaves the provider as it is too.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::image_builder::{Layer, docker_archive};
use crate::services::{Fake, rsa_key, service_account};
use crate::support::{World, copy, has_program, root, skip};
use crate::vendor::{KEY, Seen, scripted};

const BUSYBOX: &str = "/bin/busybox";

/// The example's configuration over a small repository, with what stands in for the world outside.
fn world(scenario: &Json) -> Option<(World, Seen)> {
    let world = example()?;
    world.write(
        "repo/.fullsend/providers/vertex-ai.yaml",
        "name: vertex-ai\ntype: anthropic\nconfig:\n  base_url: ${MODEL_ADDRESS}\ncredentials:\n  ANTHROPIC_API_KEY: ${MODEL_KEY}\n",
    );
    let (port, seen) = scripted(scenario);
    let key = world.write("credentials.json", r#"{"type":"service_account","project_id":"p"}"#);
    let world = world
        .env("GOOGLE_APPLICATION_CREDENTIALS", key.to_str().unwrap())
        .env("MODEL_ADDRESS", &format!("http://127.0.0.1:{port}"))
        .env("MODEL_KEY", KEY);
    Some((world, seen))
}

/// The example as it is printed, with its image and its variables.
fn example() -> Option<World> {
    let Ok(busybox) = fs::read(BUSYBOX) else {
        skip("seed-harness", "there is no static busybox to make an image of");
        return None;
    };
    let world = World::new();
    copy(&root().join("examples/ci"), &world.path("repo"));
    let mut layer = Layer::default().directory("bin/").program("bin/busybox", &busybox);
    for applet in ["sh", "cat", "wget", "sed", "echo", "ls", "env"] {
        layer = layer.link(&format!("bin/{applet}"), "busybox");
    }
    world.write("agent.tar", docker_archive(&[layer]));
    let world = world
        .env("GH_TOKEN", "a-token-of-the-host-only")
        .env("ANTHROPIC_VERTEX_PROJECT_ID", "project-7")
        .env("CLOUD_ML_REGION", "here")
        .env("ISSUE_NUMBER", "12")
        .env("REPO_FULL_NAME", "acme/widgets")
        .env("BRANCH_NAME", "fix");
    Some(world)
}

fn run(world: &World, name: &str) -> (PathBuf, Json) {
    let image = world.path("agent.tar");
    let ran = world.run(&["run", name, "--runtime", "native", "--image", image.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let runs = world.path("state/fullsend/runs/local");
    let run = fs::read_dir(runs).unwrap().next().unwrap().unwrap().path();
    let record = serde_json::from_slice(&fs::read(run.join("run.json")).unwrap()).unwrap();
    (run, record)
}

/// What the agent looks at, into a file of its output.
const LOOK: &str = "( . /sandbox/workspace/.env; echo $ANTHROPIC_VERTEX_PROJECT_ID $CLOUD_ML_REGION; \
    cat /tmp/workspace/.gcp-credentials.json; echo; ls /sandbox/native-config/skills; \
    wget -q -O - http://github-proxy.api.fullsend.internal:8081/health; echo; env; \
    ls /usr/bin/python3 ) > /sandbox/workspace/output/seen.txt 2>&1; true";

fn saw(run: &std::path::Path, iteration: u32, skills: &[&str]) {
    let seen = fs::read_to_string(run.join(format!("iteration-{iteration}/output/seen.txt"))).unwrap();
    for expected in ["project-7 here\n", "service_account", "{\"ok\": true}"].iter().chain(skills) {
        assert!(seen.contains(expected), "{expected} is missing:\n{seen}");
    }
    assert!(!seen.contains("a-token-of-the-host-only"), "the token stays on the host:\n{seen}");
    assert!(seen.contains("python3: No such file"), "the root is the image's:\n{seen}");
}

#[test]
fn triage() {
    let scenario = json!({ "turns": [
        [{ "shell": LOOK }],
        [{ "finish": { "summary": "a duplicate" } }],
    ] });
    let Some((world, seen)) = world(&scenario) else { return };
    let (run, record) = run(&world, "triage");
    saw(&run, 1, &["triage-coordination", "detect-duplicates"]);
    let scripts: Vec<&str> =
        record["scripts"].as_array().unwrap().iter().map(|one| one["script"].as_str().unwrap()).collect();
    assert_eq!(scripts, ["pre_script", "post_script"]);
    assert_eq!(record["outcome"], "completed");
    let asked = seen.lock().unwrap();
    assert_eq!(asked.len(), 2, "the model was asked over the network, once a turn");
    assert!(asked.iter().all(|request| request.contains(KEY)), "with the key, which only the host has");
    drop(asked);
    every_field_is_live(&world, "triage", &record, &run, &seen);
}

/// Each key of the harness, and what is to be found of it in the record, the agent's look around, what the model was
/// asked, or the list of harnesses.
const PROOFS: &[(&str, &str)] = &[
    ("description", " — "),
    ("agent", "\"kind\":\"agent\""),
    ("model", "\"model\":\"opus\""),
    ("image", "\"kind\":\"image\""),
    ("runtime", "\"runtime\":\"native\""),
    ("policy", "\"kind\":\"policy\""),
    ("skills", "\"kind\":\"skill\""),
    ("providers", KEY),
    ("host_files", "\"type\":\"service_account\""),
    ("api_servers", "{\"ok\": true}"),
    ("pre_script", "\"script\":\"pre_script\""),
    ("post_script", "\"script\":\"post_script\""),
    ("validation_loop", "\"script\":\"validation\""),
    ("required_env", "project-7 here"),
    ("runner_env", "\"exit\":0"),
    ("timeout_minutes", "FULLSEND_DEADLINE="),
];

fn every_field_is_live(world: &World, name: &str, record: &Json, run: &std::path::Path, seen: &Seen) {
    let harness = fs::read_to_string(world.path(&format!("repo/.fullsend/harness/{name}.yaml"))).unwrap();
    let last = fs::read_dir(run)
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().path().join("output/seen.txt").exists());
    let look = fs::read_to_string(last.last().unwrap().unwrap().path().join("output/seen.txt")).unwrap();
    let listed = world.run(&["list"]).out;
    let all = format!("{record}\n{look}\n{}\n{listed}", seen.lock().unwrap().join("\n"));
    for line in harness.lines().filter(|line| !line.starts_with([' ', '#']) && !line.is_empty()) {
        let key = line.split_once(':').unwrap().0;
        let (_, proof) = PROOFS.iter().find(|(known, _)| *known == key).unwrap();
        assert!(all.contains(proof), "`{key}` is not live: no {proof} in {all}");
    }
}

/// A proxy of a company, which answers for Google's host with a certificate of its own and hands requests to the fake.
fn intercepting_proxy(world: &World, host: &str, fake: u16) -> (u16, PathBuf) {
    let certificate = rcgen::generate_simple_self_signed([host.to_owned()]).unwrap();
    let roots = world.write("company.pem", certificate.cert.pem());
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(certificate.signing_key.serialize_der());
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.cert.der().clone()], key.into())
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    listener.set_nonblocking(true).unwrap();
    let asked = format!("CONNECT {host}:443 ");
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(tunnel(stream, acceptor.clone(), asked.clone(), fake));
            }
        });
    });
    (port, roots)
}

async fn tunnel(
    mut stream: tokio::net::TcpStream,
    acceptor: tokio_rustls::TlsAcceptor,
    asked: String,
    fake: u16,
) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < 4096 {
        head.push(stream.read_u8().await.unwrap_or_default());
    }
    if !head.starts_with(asked.as_bytes()) {
        return;
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
    let Ok(mut secured) = acceptor.accept(stream).await else { return };
    let mut service = tokio::net::TcpStream::connect(("127.0.0.1", fake)).await.unwrap();
    drop(tokio::io::copy_bidirectional(&mut secured, &mut service).await);
}

/// No file is edited: Vertex is reached under its own name, through the proxy of this machine, with a token that is
/// made from the service account on the host.
#[test]
fn as_printed() {
    if !has_program("openssl", "seed-harness-as-printed")
        || !has_program("python3", "seed-harness-as-printed")
    {
        return;
    }
    for (name, result) in [("triage", json!({ "summary": "a duplicate" })), ("code", json!({ "done": true }))]
    {
        let Some(world) = example() else { return };
        let (key, modulus) = rsa_key(&world);
        let fake = Fake::start("vertex.py", &[&modulus, &result.to_string()]);
        let (port, roots) = intercepting_proxy(&world, "here-aiplatform.googleapis.com", fake.port);
        let account = world.write("credentials.json", service_account(&key, fake.port));
        let world = world
            .env("GOOGLE_APPLICATION_CREDENTIALS", account.to_str().unwrap())
            .env("HTTPS_PROXY", &format!("http://127.0.0.1:{port}"))
            .env("SSL_CERT_FILE", roots.to_str().unwrap());
        let (run, record) = run(&world, name);
        assert_eq!(record["outcome"], "completed", "{name}");
        let asked = fake.requests("/projects/project-7/locations/here/");
        assert!(!asked.is_empty(), "{name}: the model was asked at Vertex");
        let kept = fs::read_to_string(run.join("events.jsonl")).unwrap();
        assert!(
            !kept.contains("PRIVATE KEY") && !kept.contains("ya29."),
            "{name}: the credential stays on the host"
        );
    }
}

#[test]
fn code() {
    let scenario = json!({
        "turns": [[{ "finish": { "done": false } }]],
        "branches": [{
            "when": { "user_contains": "2 failures" },
            "turns": [[{ "shell": LOOK }], [{ "finish": { "done": true } }]],
        }],
    });
    let Some((world, seen)) = world(&scenario) else { return };
    world.script(
        "repo/.fullsend/scripts/validate-lint.sh",
        "#!/bin/sh\nset -eu\n: \"${VALIDATION_EXPECTED_FAILURES:?}\"\ngrep -q true output/agent-result.json || { echo 2 failures; exit 1; }\n",
    );
    let (run, record) = run(&world, "code");
    saw(&run, 2, &["code-implementation", "testing-conventions"]);
    assert_eq!(record["attempts"].as_array().unwrap().len(), 2, "the script's words reached the agent");
    let exits: Vec<i64> =
        record["scripts"].as_array().unwrap().iter().map(|one| one["exit"].as_i64().unwrap()).collect();
    assert_eq!(exits, [0, 1, 0, 0], "pre, validation twice, post");
    assert_eq!(seen.lock().unwrap().len(), 3, "the model was asked over the network, once a turn");
    every_field_is_live(&world, "code", &record, &run, &seen);
}
