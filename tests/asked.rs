//! `fullsend run -p`: a question without a file, inputs, variables and values for one run. Each is recorded, and pins hold.

use std::fs;

use serde_json::{Value as Json, json};

use crate::support::World;

/// A repository without a harness, and a scripted model in place of the vendor's.
fn world(scenario: &Json) -> World {
    let world = World::new();
    world.write("repo/notes.txt", "The answer is in here.\n");
    world.write(
        "repo/.fullsend/providers/model.yaml",
        "name: model\ntype: anthropic\nconfig:\n  scenario: scenarios/s.json\n",
    );
    world.write("repo/.fullsend/scenarios/s.json", scenario.to_string());
    world
}

fn record(world: &World) -> Json {
    serde_json::from_str(&world.run(&["runs", "show", "--json"]).out).unwrap()
}

#[test]
fn a_question_is_answered_on_standard_output_and_changes_nothing() {
    let scenario = json!({
        "turns": [[{ "finish": { "answer": "The model was not told the question." } }]],
        "branches": [
            { "when": { "tool_result_contains": "Read-only file system" }, "turns": [[{ "finish": { "answer": "It is in notes.txt." } }]] },
            { "when": { "user_contains": "where is the answer?" }, "turns": [[{ "shell": "echo x > notes.txt" }]] },
        ],
    });
    let world = world(&scenario);
    let ran = world.run(&["run", "-p", "where is the answer?"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "It is in notes.txt.\n"), "{}", ran.err);
    assert_eq!(fs::read_to_string(world.path("repo/notes.txt")).unwrap(), "The answer is in here.\n");
    assert_eq!(record(&world)["harness"], "ask");
    world.write("question.txt", "where is the answer?\n");
    let from_file = world.run(&["run", "--prompt-file", "../question.txt", "--quiet"]);
    assert_eq!(from_file.out, "It is in notes.txt.\n", "{}", from_file.err);
    let piped = world.run_fed(&["run", "--prompt-file", "-", "--quiet"], b"where is the answer?");
    assert_eq!(piped.out, "It is in notes.txt.\n", "{}", piped.err);
    assert_eq!(world.run(&["list"]).out, "", "the built-in harness is not the user's");
}

#[test]
fn without_a_key_the_question_names_the_variable() {
    let ran = World::new().run(&["run", "-p", "what is this?"]);
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(ran.err.contains("ANTHROPIC_API_KEY"), "{}", ran.err);
    let world = World::new().env("OPENAI_API_KEY", "sk-test-0123456789abcdef");
    let dry = world.run(&["run", "-p", "what is this?", "--dry-run"]);
    assert_eq!(dry.code, 0, "the other vendor's key is used: {}", dry.err);
}

#[test]
fn a_run_without_a_harness_and_a_prompt_says_what_it_needs() {
    let ran = World::new().run(&["run"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(
        ran.err.contains("a run needs a harness or a prompt") && ran.err.contains("run -p"),
        "{}",
        ran.err
    );
}

#[test]
fn the_agent_is_told_about_its_inputs_and_can_only_read_them() {
    let scenario = json!({
        "turns": [[{ "finish": { "summary": "The model was not told about the input." } }]],
        "branches": [
            { "when": { "tool_result_contains": "from the issue" }, "turns": [[{ "finish": { "summary": "read" } }]] },
            { "when": { "user_contains": "/sandbox/workspace/input/issue.md (14 bytes)\n- /sandbox/workspace/input/stdin (6 bytes)" },
              "turns": [[{ "shell": "cd /sandbox/workspace/input; (echo x > issue.md) 2>/dev/null || cat issue.md stdin" }]] },
        ],
    });
    let world = World::scripted("agent_input: inputs\n", scenario);
    world.write("repo/.fullsend/inputs/a.txt", "a\n");
    world.write("repo/inputs/a.txt", "a\n");
    world.write("issue.md", "from the issue");
    let ran =
        world.run_fed(&["run", "triage", "--input", "../issue.md", "--input", "-", "--quiet"], b"piped\n");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("\"read\""), "{}", ran.out);
    let inputs = record(&world)["inputs"].to_string();
    assert!(inputs.contains("/sandbox/workspace/input/issue.md"), "{inputs}");
    let run = fs::read_dir(world.path("state/fullsend/runs/local")).unwrap().next().unwrap().unwrap().path();
    let told = fs::read_to_string(run.join("iteration-1/transcripts/conversation.json")).unwrap();
    assert!(told.contains("Your input files are in /sandbox/workspace/agent-input"), "{told}");
    let missing = world.run(&["run", "triage", "--input", "../nowhere.md"]);
    assert_eq!(missing.code, 4, "{}", missing.err);
}

#[test]
fn values_of_the_command_line_win_and_are_recorded() {
    let world = World::scripted(
        "post_script: scripts/post.sh\nenv:\n  runner:\n    ISSUE: ${ISSUE}\n",
        r#"{"turns":[[{"finish":{"summary":"x"}}]]}"#,
    );
    world.script("repo/.fullsend/scripts/post.sh", "#!/bin/sh\necho \"issue $ISSUE\"\n");
    world.write("repo/.fullsend/policies/other.yaml", "version: 1\n");
    let words = [
        "run",
        "triage",
        "--model",
        "claude-sonnet-4-5",
        "--runtime",
        "native",
        "--policy",
        "policies/other.yaml",
    ];
    let more = ["--max-usd", "2.5", "--timeout", "3", "--var", "ISSUE=41", "-p", "be brief"];
    let ran = world.run(&[&words[..], &more[..]].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("  override  budget.usd is 2.5 (the command line)"), "{}", ran.err);
    let record = record(&world);
    assert_eq!(record["model"], "claude-sonnet-4-5");
    let overrides: Vec<String> = record["overrides"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| format!("{}={}", one["field"].as_str().unwrap(), one["value"].as_str().unwrap()))
        .collect();
    assert_eq!(
        overrides,
        [
            "model=\"claude-sonnet-4-5\"",
            "runtime=\"native\"",
            "policy=\"policies/other.yaml\"",
            "budget.usd=2.5",
            "timeout_minutes=3",
            "${ISSUE}=set"
        ]
    );
    assert_eq!(world.run(&["runs", "logs", "latest", "post_script.log"]).out, "issue 41\n");
    let wrong = world.run(&["run", "triage", "--policy", "policies/none.yaml", "--var", "ISSUE=1"]);
    assert_eq!(wrong.code, 3, "{}", wrong.err);
    assert!(wrong.err.contains("the command line:1:"), "{}", wrong.err);
}

#[test]
fn what_the_organisation_pins_the_command_line_cannot_raise() {
    let world = World::scripted("", r#"{"turns":[[{"finish":{"summary":"x"}}]]}"#);
    world.write("org/config.yaml", "budget:\n  usd: 1\ncaps:\n  timeout_minutes: 10\n");
    let world = world.env("FULLSEND_ORG_DIR", "../org");
    for words in [["--max-usd", "5"], ["--timeout", "60"]] {
        let ran = world.run(&[&["run", "triage", "--model", "claude-sonnet-4-5"], &words[..]].concat());
        assert_eq!(ran.code, 3, "{words:?}: {}", ran.err);
        assert!(ran.err.contains("pinned") && ran.err.contains("the command line"), "{}", ran.err);
    }
    let lower = world.run(&["run", "triage", "--model", "claude-sonnet-4-5", "--max-usd", "0.5", "--quiet"]);
    assert_eq!(lower.code, 0, "{}", lower.err);
}
