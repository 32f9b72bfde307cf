//! The two harnesses of the original design, run end to end with every field live: scripts, api server, host files,
//! skills, the validation loop. The image is a local archive, the model a scripted one behind the provider's name, and the
//! agent our own, which does not narrow tools by their arguments; everything else is as it is written there.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value as Json, json};

use crate::image_builder::{Layer, docker_archive};
use crate::support::{World, copy, root, skip};

const BUSYBOX: &str = "/bin/busybox";

/// The example's configuration over a small repository, with what stands in for the world outside.
fn world(name: &str, scenario: &Json) -> Option<World> {
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
    let image = world.write("agent.tar", docker_archive(&[layer]));
    let harness = format!("repo/.fullsend/harness/{name}.yaml");
    let text = fs::read_to_string(world.path(&harness)).unwrap();
    let lines = text.lines().map(|line| match line.split_once(": ") {
        Some(("image", _)) => format!("image: {}\nruntime: native\n", image.display()),
        _ => format!("{line}\n"),
    });
    world.write(&harness, lines.collect::<String>());
    let agent = format!("repo/.fullsend/agents/{name}.md");
    let text = fs::read_to_string(world.path(&agent)).unwrap();
    world.write(&agent, text.replace("tools: Bash(gh,jq), Read, Skill", "tools: Bash, Read"));
    world.write(
        "repo/.fullsend/providers/vertex-ai.yaml",
        "name: vertex-ai\ntype: anthropic\nconfig:\n  scenario: scenarios/s.json\n",
    );
    world.write("repo/.fullsend/scenarios/s.json", scenario.to_string());
    let key = world.write("credentials.json", r#"{"type":"service_account","project_id":"p"}"#);
    let world = world
        .env("GH_TOKEN", "a-token-of-the-host-only")
        .env("GOOGLE_APPLICATION_CREDENTIALS", key.to_str().unwrap())
        .env("ANTHROPIC_VERTEX_PROJECT_ID", "project-7")
        .env("CLOUD_ML_REGION", "here")
        .env("ISSUE_NUMBER", "12")
        .env("REPO_FULL_NAME", "acme/widgets")
        .env("BRANCH_NAME", "fix");
    Some(world)
}

fn run(world: &World, name: &str) -> (PathBuf, Json) {
    let ran = world.run(&["run", name]);
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
    let Some(world) = world("triage", &scenario) else { return };
    let (run, record) = run(&world, "triage");
    saw(&run, 1, &["triage-coordination", "detect-duplicates"]);
    let scripts: Vec<&str> =
        record["scripts"].as_array().unwrap().iter().map(|one| one["script"].as_str().unwrap()).collect();
    assert_eq!(scripts, ["pre_script", "post_script"]);
    assert_eq!(record["outcome"], "completed");
}

#[test]
fn code() {
    let scenario = json!({
        "turns": [[{ "shell": LOOK }], [{ "finish": { "done": false } }]],
        "branches": [{
            "when": { "user_contains": "2 failures" },
            "turns": [[{ "finish": { "done": true } }]],
        }],
    });
    let Some(world) = world("code", &scenario) else { return };
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
}
