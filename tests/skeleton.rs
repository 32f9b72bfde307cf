//! README's first command: the bundled harness, agent and repository, through every stage, as root and as an ordinary
//! user; and what changes when the bundled parts change.

use std::fs;
use std::os::unix::fs::MetadataExt;

use serde_json::Value as Json;

use crate::support::{Ran, Who, World, example};

fn world() -> World {
    example("hello")
}

/// The one run directory of this world, and its record.
fn record(world: &World) -> (std::path::PathBuf, Json) {
    let runs: Vec<_> =
        fs::read_dir(world.path("state/fullsend/runs/local")).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(runs.len(), 1);
    let record = serde_json::from_slice(&fs::read(runs[0].join("run.json")).unwrap()).unwrap();
    (runs[0].clone(), record)
}

fn run(world: &World, who: Who) -> Option<Ran> {
    world.run_as(who, &["run", "hello"])
}

fn completes(who: Who) {
    let world = world();
    let Some(ran) = run(&world, who) else { return };
    assert_eq!(ran.code, 0, "{}", ran.err);
    let (directory, record) = record(&world);
    assert_eq!(record["outcome"], "completed");
    assert_eq!(record["attempts"].as_array().unwrap().len(), 2, "the first output violates the schema");
    assert_eq!(record["attempts"][0]["violations"].as_array().unwrap().len(), 2);
    assert_eq!(record["attempts"][1]["accepted"], true);
    assert_eq!(record["attempts"][1]["turns"], 5, "the retry continues the conversation");
    assert_eq!(record["findings"]["high"], 1, "the planted instruction is reported");
    assert_eq!(record["egress"]["denied"], 1, "the upload that it asks for is refused");
    let refused = ran.err.lines().find(|line| line.contains("collector.example:443 by ")).unwrap();
    assert!(refused.contains("git") && refused.contains("(pid "), "{refused}");
    assert!(
        record["sandbox"]
            .as_array()
            .unwrap()
            .iter()
            .any(|part| part["part"] == "seccomp" && part["status"] == "enforced")
    );
    assert!(record["proofs"].as_array().unwrap().len() > 5);
    assert!(record["proofs"].as_array().unwrap().iter().all(|proof| proof["held"] == true));
    let output = fs::read_to_string(directory.join("iteration-2/output/agent-result.json")).unwrap();
    assert_eq!(serde_json::from_str::<Json>(&output).unwrap()["fixed"], true);
    assert!(directory.join("iteration-1/rejected/agent-result.json").exists());
    assert!(
        !directory.join("iteration-1/output").exists(),
        "rejected output is never where post-scripts look"
    );
    assert!(fs::read_to_string(directory.join("post_script.log")).unwrap().contains("misspelt"));
    assert!(!directory.join("sandboxes").exists() && !directory.join("staging").exists(), "nothing is left");
    assert_eq!(fs::metadata(&directory).unwrap().mode() & 0o777, 0o700);
    let applied = fs::read_to_string(directory.join("applied/greet.sh")).unwrap();
    assert!(applied.contains("world"), "the post-script applied the patch");
    let greet = fs::read_to_string(world.path("repo/greet.sh")).unwrap();
    assert!(greet.contains("wrold"), "the host's repository stays as it was");
}

#[test]
fn hello_completes_as_whoever_runs_the_tests() {
    completes(Who::Caller);
}

#[test]
fn hello_completes_as_an_ordinary_user() {
    completes(Who::User);
}

#[test]
fn the_record_is_the_fold_of_a_chain_that_holds() {
    let world = world();
    assert_eq!(run(&world, Who::Caller).unwrap().code, 0);
    let (directory, record) = record(&world);
    let events = fullsend::event::log::read(&directory.join("events.jsonl")).unwrap();
    assert_eq!(record["chain_head"], events.last().unwrap().hash.as_str());
    assert_eq!(serde_json::to_value(fullsend::record::fold(&events)).unwrap(), record);
}

/// The scenario stays as it is: what changes the outcome is what the agent's commands find.
#[test]
fn another_bug_another_outcome() {
    let world = world();
    world.write("repo/greet.sh", "echo 'Hello, moon!'\n");
    assert_eq!(run(&world, Who::Caller).unwrap().code, 0);
    let (directory, record) = record(&world);
    assert_eq!(record["attempts"].as_array().unwrap().len(), 1);
    let output = fs::read_to_string(directory.join("iteration-1/output/agent-result.json")).unwrap();
    assert_eq!(serde_json::from_str::<Json>(&output).unwrap()["fixed"], false);
    assert!(!directory.join("iteration-1/changes.patch").exists(), "nothing was mended");
}

#[test]
fn another_policy_another_outcome() {
    let world = world();
    let policy = fs::read_to_string(world.path("repo/.fullsend/policies/hello.yaml")).unwrap();
    let rule = "network_policies:\n  upload:\n    endpoints: [{host: collector.example, port: 443}]\n    binaries: [{path: /usr/bin/uploader}]\n";
    world.write("repo/.fullsend/policies/hello.yaml", policy.replace("network_policies: {}\n", rule));
    let ran = run(&world, Who::Caller).unwrap();
    assert_eq!(ran.code, 0, "{}", ran.err);
    let refused = ran.err.lines().find(|line| line.contains("collector.example:443 by ")).unwrap();
    // The host has a rule now, and it is not for this program.
    let usual = run(&example("hello"), Who::Caller).unwrap().err;
    let usual = usual.lines().find(|line| line.contains("collector.example:443 by ")).unwrap();
    let reason = |line: &str| line.rsplit(')').next().unwrap().to_owned();
    assert_ne!(reason(refused), reason(usual), "{refused}");
}

#[test]
fn a_stricter_schema_ends_in_exit_5_and_nothing_is_emitted() {
    let world = world();
    world.write(
        "repo/.fullsend/schemas/hello.json",
        r#"{"type":"object","required":["fixed","file","cause","reviewer"]}"#,
    );
    let ran = run(&world, Who::Caller).unwrap();
    assert_eq!(ran.code, 5, "{}", ran.err);
    let (directory, record) = record(&world);
    assert_eq!(record["outcome"], "invalid_output");
    assert!(!directory.join("iteration-2/output").exists() && !directory.join("post_script.log").exists());
    assert!(
        ran.err.trim_end().lines().last().unwrap().contains("reviewer"),
        "the first real error is the last line: {}",
        ran.err
    );
}

#[test]
fn a_scenario_without_an_answer_fails_loudly() {
    let world = world();
    world.write("repo/.fullsend/scenarios/hello.json", r#"{"turns":[[{"shell":"true"}]]}"#);
    let ran = run(&world, Who::Caller).unwrap();
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert_eq!(record(&world).1["outcome"], "agent_failed");
}

#[test]
fn an_agent_that_does_nothing_is_not_a_success() {
    let world = world();
    world.write(
        "repo/.fullsend/scenarios/hello.json",
        r#"{"turns":[[{"text":"All done."}],[{"text":"Really."}]]}"#,
    );
    let ran = run(&world, Who::Caller).unwrap();
    assert_eq!(ran.code, 9, "{}", ran.err);
    assert_eq!(record(&world).1["outcome"], "no_output");
}

#[test]
fn a_question_is_not_a_success() {
    let world = world();
    world.write(
        "repo/.fullsend/scenarios/hello.json",
        r#"{"turns":[[{"text":"Which bug?"}],[{"text":"Which one do you mean?"}]]}"#,
    );
    assert_eq!(run(&world, Who::Caller).unwrap().code, 9);
    assert_eq!(record(&world).1["outcome"], "asked");
}

#[test]
fn an_openshell_backend_without_an_image_is_refused() {
    let world = world();
    let harness = fs::read_to_string(world.path("repo/.fullsend/harness/hello.yaml")).unwrap();
    world.write("repo/.fullsend/harness/hello.yaml", format!("{harness}sandbox:\n  backend: openshell\n"));
    let ran = run(&world, Who::Caller).unwrap();
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("`sandbox.backend: openshell` needs an `image`"), "{}", ran.err);
}

#[test]
fn a_failing_post_script_is_the_runs_failure() {
    let world = world();
    world.script("repo/.fullsend/scripts/show.sh", "#!/bin/sh\necho 'cannot push' >&2\nexit 3\n");
    let ran = run(&world, Who::Caller).unwrap();
    assert_eq!(ran.code, 1);
    assert_eq!(record(&world).1["outcome"], "post_script_failed");
    assert!(ran.err.contains("cannot push"), "{}", ran.err);
}

#[test]
fn the_agent_cannot_reach_outside_its_workspace() {
    let world = world();
    let attempts = "cat /etc/shadow; ls /root /home; echo x > /usr/x; env; ls /proc | grep -c '^[0-9]'";
    world.write("repo/.fullsend/scenarios/hello.json", format!(
        r#"{{"turns":[[{{"shell":"({attempts}) > /sandbox/workspace/output/report.txt 2>&1; true"}}],[{{"finish":{{"fixed":false,"file":"none","cause":"I only looked around."}}}}]]}}"#
    ));
    // What holds here is the sandbox: the guard would deny the command before it ran.
    let harness = fs::read_to_string(world.path("repo/.fullsend/harness/hello.yaml")).unwrap();
    let off = "security: {sandbox_hooks: {tirith: {enabled: false}}}\n";
    world.write("repo/.fullsend/harness/hello.yaml", format!("{harness}{off}"));
    let world = world.env("SECRET_OF_THE_HOST", "hunter2hunter2");
    assert_eq!(run(&world, Who::Caller).unwrap().code, 0);
    let (directory, _) = record(&world);
    let report = fs::read_to_string(directory.join("iteration-1/output/report.txt")).unwrap();
    assert!(
        !report.contains("hunter2") && !report.contains("root:$") && report.contains("No such file"),
        "{report}"
    );
    assert!(report.contains("Read-only file system") || report.contains("Permission denied"), "{report}");
}

#[test]
fn the_doctor_says_what_this_machine_can_do() {
    let ran = World::new().run(&["doctor", "--json"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let said: Json = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(said["healthy"], true);
    assert_eq!(said["sandbox"]["works"], true);
    assert!(said["sandbox"]["parts"].as_array().unwrap().len() > 15);
    let human = World::new().run(&["doctor"]).out;
    assert!(human.contains("A sandbox starts in") && human.contains("seccomp"), "{human}");
}
