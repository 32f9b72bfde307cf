//! A runner that is killed: its sandbox dies with it, and the next command ends its record truthfully and leaves nothing.

use std::fs;

use serde_json::Value as Json;

use crate::support::{World, wait_for};

#[test]
fn a_killed_run_is_ended_by_the_next_command() {
    let world = World::with_harness();
    world.write(
        "repo/.fullsend/harness/triage.yaml",
        "agent: agents/triage.md\nruntime: native\noutput_schema: schemas/triage.json\nproviders: [model]\n",
    );
    world.write(
        "repo/.fullsend/providers/model.yaml",
        "name: model\ntype: anthropic\nconfig:\n  scenario: scenarios/s.json\n",
    );
    world.write("repo/.fullsend/scenarios/s.json", r#"{"turns":[[{"shell":"sleep 987.654"}]]}"#);
    let mut child = world.spawn(&["run", "triage"]);
    let directory = wait_for(|| {
        let run = fs::read_dir(world.path("state/fullsend/runs/local")).ok()?.flatten().next()?.path();
        fs::read_to_string(run.join("events.jsonl")).ok()?.contains("sleep 987.654").then_some(run)
    });
    assert_eq!(world.run(&["sweep"]).out, "", "a run that lives is left alone");
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for(|| (!sleeping()).then_some(()));
    assert!(!directory.join("run.json").exists());

    let swept = world.run(&["sweep"]);
    assert_eq!(swept.code, 0, "{}", swept.err);
    assert!(swept.out.contains("ended"), "{}", swept.out);
    let record: Json = serde_json::from_slice(&fs::read(directory.join("run.json")).unwrap()).unwrap();
    assert_eq!(record["outcome"], "interrupted");
    assert!(fullsend::event::log::read(&directory.join("events.jsonl")).is_ok(), "the chain holds");
    let left: Vec<_> = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(
        left.iter()
            .all(|name| ["egress.jsonl", "events.jsonl", "findings.jsonl", "run.json"]
                .contains(&name.as_str())),
        "{left:?}"
    );
    assert_eq!(world.run(&["sweep"]).out, "", "once is enough");
}

/// Whether the command of the agent still runs anywhere.
fn sleeping() -> bool {
    fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        fs::read(entry.path().join("cmdline")).is_ok_and(|line| line.starts_with(b"sleep\0987.654"))
    })
}
