//! Every step of a run, and the test of its success, its failure, its time and its end by force; or why there is none. A
//! step without a row fails, and so does a row that names a test that is not there.

use std::fs;

use serde_json::Value as Json;

use crate::killed;
use crate::support::{World, has_program, root};

/// A test by its file and name, or a reason.
pub enum Cell {
    Test(&'static str, &'static str),
    Because(&'static str),
}

use Cell::{Because, Test};

struct Row {
    step: &'static str,
    succeeds: Cell,
    fails: Cell,
    takes_too_long: Cell,
    is_killed: Cell,
}

const WHOLE: Cell = Test("tests/skeleton.rs", "hello_completes_as_whoever_runs_the_tests");
const KILLED: Cell = Test("tests/killed.rs", "a_kill_in_any_step_is_ended_truthfully");
/// One way to start programs on the host, with one clock.
const SCRIPT_CLOCK: Cell = Test(
    "crates/fullsend/src/scripts/mod.rs",
    "a_script_beyond_its_time_is_ended_with_everything_it_started",
);

const TABLE: &[Row] = &[
    Row {
        step: "pre_script",
        succeeds: Test("tests/fields.rs", "a_pre_script_speaks_to_the_ci"),
        fails: Test("tests/outcomes.rs", "setup_failed_by_the_pre_script_is_1"),
        takes_too_long: SCRIPT_CLOCK,
        is_killed: KILLED,
    },
    Row {
        step: "inputs",
        succeeds: WHOLE,
        fails: Test("tests/outcomes.rs", "security_stop_is_6_and_comes_before_any_sandbox"),
        takes_too_long: Because("it waits for nobody: files, bytes and depth are bounded (inputs/walk.rs)"),
        is_killed: KILLED,
    },
    Row {
        step: "provision",
        succeeds: WHOLE,
        fails: Test("tests/skeleton.rs", "an_openshell_backend_without_an_image_is_refused"),
        takes_too_long: Test("tests/servers.rs", "server_that_is_not_ready_ends_the_run"),
        is_killed: KILLED,
    },
    Row {
        step: "bootstrap",
        succeeds: WHOLE,
        fails: Test(
            "tests/instructions.rs",
            "every_file_of_such_a_skill_is_scanned_and_none_leads_elsewhere",
        ),
        takes_too_long: Because(
            "the scan inside is our own program on bounded files; it has 60 seconds, and what does not end in them stops the run as what cannot be scanned",
        ),
        is_killed: KILLED,
    },
    Row {
        step: "agent",
        succeeds: WHOLE,
        fails: Test("tests/outcomes.rs", "agent_failed_without_a_validation_loop_runs_no_post_script"),
        takes_too_long: Test("tests/outcomes.rs", "timeout_is_124_and_what_there_was_is_kept"),
        is_killed: Test(
            "tests/outcomes.rs",
            "an_agent_that_is_killed_leaves_its_words_its_cost_and_what_it_wrote",
        ),
    },
    Row {
        step: "quarantine",
        succeeds: WHOLE,
        fails: Test("tests/hostile_output.rs", "no_hostile_output_escapes"),
        takes_too_long: SCRIPT_CLOCK,
        is_killed: KILLED,
    },
    Row {
        step: "validate",
        succeeds: WHOLE,
        fails: Test("tests/outcomes.rs", "invalid_output_keeps_the_violations_and_emits_nothing"),
        takes_too_long: SCRIPT_CLOCK,
        is_killed: KILLED,
    },
    Row {
        step: "publish",
        succeeds: WHOLE,
        fails: Test("tests/changed.rs", "a_commit_without_its_objects_is_not_published"),
        takes_too_long: SCRIPT_CLOCK,
        is_killed: KILLED,
    },
    Row {
        step: "teardown",
        succeeds: WHOLE,
        fails: Because(
            "only a process that the kernel cannot kill holds a sandbox open; nothing here can make one",
        ),
        takes_too_long: Because(
            "the same: after five seconds it is a failure that names the processes (sandbox/running.rs)",
        ),
        is_killed: KILLED,
    },
    Row {
        step: "post_script",
        succeeds: WHOLE,
        fails: Test("tests/outcomes.rs", "post_script_failed_is_the_runs_failure"),
        takes_too_long: SCRIPT_CLOCK,
        is_killed: KILLED,
    },
];

/// Whether the file has this test.
pub fn is_there(file: &str, name: &str) -> bool {
    let text = fs::read_to_string(root().join(file)).unwrap_or_default();
    let Some((before, _)) = text.split_once(&format!("fn {name}(")) else { return false };
    // The last line that is no attribute ends what stands above the function.
    let attributes =
        before.lines().rev().take_while(|line| line.trim().is_empty() || line.trim().starts_with("#["));
    attributes.into_iter().any(|line| line.trim() == "#[test]")
}

pub fn check(row: &str, cells: &[&Cell]) {
    for cell in cells {
        match cell {
            Test(file, name) => assert!(is_there(file, name), "{row}: there is no test `{name}` in {file}"),
            Because(reason) => assert!(reason.len() > 20, "{row}: a reason says why"),
        }
    }
}

#[test]
fn every_step_has_its_row_and_every_cell_its_test() {
    let rows: Vec<&str> = TABLE.iter().map(|row| row.step).collect();
    assert_eq!(rows, killed::steps(), "the steps of the sequence, in its order");
    for Row { step, succeeds, fails, takes_too_long, is_killed } in TABLE {
        check(step, &[succeeds, fails, takes_too_long, is_killed]);
    }
    assert!(!is_there("tests/steps.rs", "check") && !is_there("tests/steps.rs", "nothing"));
}

/// The steps of the latest run, in the order in which they started.
fn taken(world: &World) -> Vec<String> {
    let record: Json = serde_json::from_str(&world.run(&["runs", "show", "--json"]).out).unwrap();
    let steps = record["steps"].as_array().unwrap().iter();
    steps.map(|step| step["step"].as_str().unwrap().to_owned()).collect()
}

/// `Step` lists the steps in the order in which a run takes them, and says which ones a rejected output repeats.
#[test]
fn a_run_takes_its_steps_in_the_documented_order() {
    if !has_program("python3", "steps") {
        return;
    }
    let order = killed::steps();
    let position = |name: &str| order.iter().position(|step| step == name).unwrap();
    let [agent, publish, provision] = ["agent", "publish", "provision"].map(position);
    let world = killed::eventful();
    assert_eq!(world.run(&["run", "triage"]).code, 0);
    let repeated = [&order[..publish], &order[agent..]].concat();
    assert_eq!(taken(&world), repeated, "the first output is rejected");

    let harness = world.path("repo/.fullsend/harness/triage.yaml");
    let text = fs::read_to_string(&harness).unwrap();
    fs::write(&harness, format!("{text}validation_loop: {{feedback_mode: fresh}}\n")).unwrap();
    world.run(&["run", "triage"]);
    let teardown = ["teardown".to_owned()];
    let fresh = [&order[..publish], &teardown[..], &order[provision..publish]].concat();
    assert_eq!(taken(&world)[..fresh.len()], fresh);
}
