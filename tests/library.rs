//! A run is a library call first: several at once in one process, each with its own record, environment and end; words,
//! a conversation and a document of the caller's.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value as Json, json};

use crate::support::{World, program, skip};

fn built(example: &str) -> Option<PathBuf> {
    let path = program().with_file_name("examples").join(example);
    if !path.is_file() {
        skip("library", &format!("the example `{example}` was not built: cargo build --examples"));
        return None;
    }
    Some(path)
}

/// A repository of this name, whose agent does what the scenario says.
fn repository(world: &World, name: &str, scenario: &Json) {
    let write = |path: &str, text: &str| world.write(&format!("repo/{name}/.fullsend/{path}"), text);
    write(
        "harness/triage.yaml",
        "agent: agents/triage.md\nruntime: native\noutput_schema: schemas/triage.json\nproviders: [model]\n\
         env:\n  sandbox:\n    MARK: ${MARK}\n",
    );
    write("agents/triage.md", "---\nname: triage\n---\nWrite `summary`.\n");
    write("schemas/triage.json", r#"{"type":"object","required":["summary"]}"#);
    write("providers/model.yaml", "name: model\ntype: anthropic\nconfig:\n  scenario: scenarios/s.json\n");
    write("scenarios/s.json", &scenario.to_string());
}

fn run(world: &World, what: &str) -> Option<Json> {
    let program = built("embedding")?;
    let ran = world.run_program(&program, &[what.as_ref(), ".".as_ref()]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    Some(serde_json::from_str(&ran.out).unwrap())
}

/// What was printed has `$ROOT` for the directory of the test.
fn directory(world: &World, outcome: &Json) -> PathBuf {
    let root = world.path("repo").parent().unwrap().to_owned();
    root.join(outcome["directory"].as_str().unwrap().trim_start_matches("$ROOT/"))
}

#[test]
fn several_runs_in_one_process_do_not_mix() {
    let world = World::new();
    for name in ["one", "two", "three", "stopped"] {
        let sleep = if name == "stopped" { "sleep 300" } else { "sleep 1" };
        let write = format!(
            "{sleep}; pwd > /sandbox/workspace/output/place; printf '{{\"summary\":\"%s\"}}' \"$MARK\" > /sandbox/workspace/output/agent-result.json"
        );
        repository(&world, name, &json!({ "turns": [[{ "shell": write }], [{ "text": "It is written." }]] }));
    }
    let Some(said) = run(&world, "several") else { return };
    assert_eq!(said["same"], true, "place, variables and signals of the process are as they were");
    for (outcome, mark) in said["outcomes"].as_array().unwrap().iter().zip(["one", "two", "stopped", "three"])
    {
        let run = directory(&world, outcome);
        assert_eq!(run.parent().unwrap().file_name().unwrap(), mark, "the owner's directory");
        let events = fullsend::event::log::read(&run.join("events.jsonl")).unwrap();
        let record: Json = serde_json::from_slice(&fs::read(run.join("run.json")).unwrap()).unwrap();
        assert_eq!(serde_json::to_value(fullsend::record::fold(&events)).unwrap(), record, "{mark}");
        assert!(!run.join("sandboxes").exists(), "{mark}");
        if mark == "stopped" {
            assert_eq!((&outcome["kind"], &outcome["exit_code"]), (&json!("interrupted"), &json!(143)));
            continue;
        }
        assert_eq!(outcome["kind"], "completed", "{outcome}");
        assert_eq!(outcome["result"], format!("{{\"summary\":\"{mark}\"}}"), "its own environment");
        let place = fs::read_to_string(run.join("iteration-1/output/place")).unwrap();
        assert_eq!(place.trim(), format!("/sandbox/workspace/{mark}"), "its own repository");
    }
}

#[test]
fn a_conversation_goes_on_and_the_caller_gets_the_document_it_wants() {
    let world = World::new();
    let result = "printf '{\"summary\":\"x\"}' > /sandbox/workspace/output/agent-result.json";
    repository(
        &world,
        "one",
        &json!({
            "turns": [[{ "shell": result }], [{ "finish": { "wrong": 1 } }]],
            "branches": [
                { "when": { "user_contains": "Which word" }, "turns": [[{ "shell": result }], [{ "finish": { "reply": "BASIL, as you said" } }]] },
                { "when": { "user_contains": "was rejected" }, "turns": [[{ "shell": result }], [{ "finish": { "reply": "noted" } }]] },
            ],
        }),
    );
    let Some(said) = run(&world, "resumed") else { return };
    let [first, second] = &said["outcomes"].as_array().unwrap()[..] else { panic!("{said}") };
    let reply =
        |outcome: &Json| -> Json { serde_json::from_str(outcome["reply"].as_str().unwrap()).unwrap() };
    assert_eq!((&first["kind"], &reply(first)["reply"]), (&json!("completed"), &json!("noted")), "{first}");
    assert_eq!(attempts(&world, first), 2, "a document against the caller's schema is asked for again");
    assert!(first["conversation"].as_str().unwrap().contains("The word is BASIL."), "{first}");
    assert_eq!(
        (&second["kind"], &reply(second)["reply"]),
        (&json!("completed"), &json!("BASIL, as you said"))
    );
    let words = second["conversation"].as_str().unwrap();
    let earlier = words.find("The word is BASIL.").unwrap();
    assert!(earlier < words.find("Which word was it?").unwrap(), "one conversation, in its order");
}

fn attempts(world: &World, outcome: &Json) -> usize {
    let directory = directory(world, outcome);
    let record: Json = serde_json::from_slice(&fs::read(directory.join("run.json")).unwrap()).unwrap();
    record["attempts"].as_array().unwrap().len()
}

/// The example that the documentation of the crate names: it runs a harness and ends with the run's exit code.
#[test]
fn the_example_of_the_crate_runs_a_harness() {
    let Some(program) = built("library") else { return };
    let world = World::new();
    let result = "printf '{\"summary\":\"x\"}' > /sandbox/workspace/output/agent-result.json";
    repository(&world, "one", &json!({ "turns": [[{ "shell": result }], [{ "text": "It is written." }]] }));
    repository(&world, "two", &json!({ "turns": [[{ "text": "Nothing." }]] }));
    let world = world.env("MARK", "m");
    let ran = world.run_program(&program, &["one".as_ref(), "triage".as_ref()]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    assert!(ran.out.starts_with("completed: Some("), "{}", ran.all());
    let failed = world.run_program(&program, &["two".as_ref(), "triage".as_ref()]);
    assert_ne!(failed.code, 0, "{}", failed.all());
    let lines =
        fs::read_to_string(crate::support::root().join("crates/fullsend/examples/library.rs")).unwrap();
    let body = lines.lines().skip_while(|line| !line.starts_with("fn main")).count();
    assert!(body <= 30, "the example has {body} lines");
}
