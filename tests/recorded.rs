//! `run --record` and `run --replay`: a run with a model, and the same run again without one.

use std::fs;

use crate::support::World;

const SECRET: &str = "host-key-8812-never-kept";

fn world(provider: &str) -> World {
    let world = World::with_harness();
    world.write(
        "repo/.fullsend/harness/triage.yaml",
        "agent: agents/triage.md\nruntime: native\noutput_schema: schemas/triage.json\nproviders: [model, lab]\n",
    );
    world.write("repo/.fullsend/providers/model.yaml", provider);
    world.write(
        "repo/.fullsend/providers/lab.yaml",
        "name: lab\ntype: github\ncredentials:\n  LAB_KEY: ${LAB_KEY}\n",
    );
    world.write(
        "repo/.fullsend/scenarios/s.json",
        format!(r#"{{"turns":[[{{"text":"I look. {SECRET}"}},{{"shell":"date +%N"}}],[{{"finish":{{"summary":"recorded once"}}}}]]}}"#),
    );
    world.env("LAB_KEY", SECRET)
}

const SCRIPTED: &str = "name: model\ntype: anthropic\nconfig:\n  scenario: scenarios/s.json\n";
const VENDOR: &str =
    "name: model\ntype: anthropic\ncredentials:\n  ANTHROPIC_API_KEY: ${ANTHROPIC_API_KEY}\n";

#[test]
fn a_recorded_run_is_replayed_without_a_model_and_without_its_key() {
    let world = world(SCRIPTED);
    let ran = world.run(&["run", "triage", "--record", "../recording"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let files: Vec<_> =
        fs::read_dir(world.path("recording")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 2);
    for file in &files {
        assert!(!fs::read_to_string(file).unwrap().contains(SECRET), "{}", file.display());
    }
    let again = world.run(&["run", "triage", "--record", "../recording"]);
    assert_eq!(again.code, 3, "{}", again.err);
    assert!(again.err.contains("is not empty"), "{}", again.err);

    world.write("repo/.fullsend/providers/model.yaml", VENDOR);
    fs::remove_dir_all(world.path("state")).unwrap();
    let replayed = world.run(&["run", "triage", "--replay", "../recording"]);
    assert_eq!(replayed.code, 0, "{}", replayed.err);
    let run = fs::read_dir(world.path("state/fullsend/runs/local")).unwrap().next().unwrap().unwrap().path();
    let output = fs::read_to_string(run.join("iteration-1/output/agent-result.json")).unwrap();
    assert!(output.contains("recorded once"), "{output}");

    world.write(
        "repo/.fullsend/agents/triage.md",
        "---\nname: triage\n---\nWrite `summary`, quite differently.\n",
    );
    world.write("repo/.fullsend/harness/triage.yaml", "agent: agents/triage.md\nruntime: native\noutput_schema: schemas/triage.json\nproviders: [model, lab]\noutput_file: other.json\n");
    let missed = world.run(&["run", "triage", "--replay", "../recording"]);
    assert_eq!(missed.code, 1, "{}", missed.err);
    assert!(
        missed.err.trim_end().lines().last().unwrap().contains("has no answer to turn 1"),
        "{}",
        missed.err
    );
}

#[test]
fn what_cannot_be_replayed_is_said_before_anything_starts() {
    let world = world(VENDOR);
    let ran = world.run(&["run", "triage", "--replay", "nowhere"]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(ran.err.contains("nowhere cannot be used"), "{}", ran.err);
    let both = world.run(&["run", "triage", "--replay", "a", "--record", "b"]);
    assert_eq!(both.code, 2, "{}", both.err);
}
