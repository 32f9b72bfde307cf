//! What runners of agents have been seen to get wrong, each as a test here. The letters are those of a list of weaknesses
//! observed in the code of another one; a row that names a test that is not there fails. What no other file tests is here.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value as Json, json};

use crate::steps::{
    Cell::{self, Because, Test},
    check,
};
use crate::support::World;

const OUTCOMES: &str = "tests/outcomes.rs";

const TABLE: &[(&str, &[Cell])] = &[
    (
        "a: a retry without feedback",
        &[Test(OUTCOMES, "the_retry_hears_every_violation_and_the_scripts_words")],
    ),
    (
        "b: a timeout, a failure or an interrupt that exits 0 and runs the post-script",
        &[
            Test(OUTCOMES, "timeout_is_124_and_what_there_was_is_kept"),
            Test(OUTCOMES, "agent_failed_without_a_validation_loop_runs_no_post_script"),
            Test("tests/stopped.rs", "a_terminated_run_ends_in_order"),
        ],
    ),
    (
        "c: an error in the transcript that exits 0 without a word",
        &[Test("tests/weaknesses.rs", "an_error_of_the_model_is_the_runs_failure_and_is_said")],
    ),
    (
        "d: switches that do nothing",
        &[
            Test("tests/guarded.rs", "each_switch_of_a_tool_call_is_live"),
            Test("tests/guarded.rs", "each_switch_of_a_result_is_live"),
            Test("tests/guarded.rs", "each_scanner_of_the_host_is_live_on_the_output"),
            Test("tests/fields.rs", "what_a_run_cannot_honour_is_refused_and_never_ignored"),
        ],
    ),
    (
        "e: a learned scanner that no run uses",
        &[Test("tests/learned.rs", "every_text_that_reaches_the_agent_is_scored")],
    ),
    (
        "f: no judgement of addresses while a run goes on",
        &[Test("tests/guarded.rs", "each_scanner_of_the_host_is_live_on_the_output")],
    ),
    (
        "g: findings that are lost, in two spellings",
        &[
            Test("tests/guarded.rs", "everything_that_goes_in_is_scanned_before_the_sandbox_exists"),
            Test("tests/canary.rs", "a_canary_token_in_the_output_ends_the_run"),
        ],
    ),
    ("h: a chain that the agent can write and cut", &[Test("tests/kept.rs", "every_changed_byte_is_seen")]),
    (
        "i: redaction after the check, of binary files, and not of everything",
        &[Test("tests/weaknesses.rs", "published_files_are_the_checked_and_redacted_ones")],
    ),
    (
        "j: git run in a directory that the agent configured",
        &[Test("tests/changed.rs", "nothing_that_an_agent_plants_runs_in_the_checkout")],
    ),
    (
        "k: output, attempts and scripts without bounds",
        &[
            Test("tests/hostile_output.rs", "no_hostile_output_escapes"),
            Test(
                "crates/fullsend/src/scripts/mod.rs",
                "a_script_beyond_its_time_is_ended_with_everything_it_started",
            ),
            Test("tests/pins.rs", "caps_hold_for_what_is_asked_and_for_what_is_built_in"),
        ],
    ),
    (
        "l: overrides of skills that are not applied, and skills that drop each other",
        &[Test("tests/merge_layers.rs", "one_skill_listed_twice_is_refused_wherever_it_is")],
    ),
    (
        "m: fields that do not pass through a base",
        &[Test("tests/merge.rs", "value_of_the_base_file_is_inherited")],
    ),
    (
        "n: files of a remote base that nobody pinned",
        &[Test("tests/merge_layers.rs", "a_base_that_does_not_exist_or_is_not_allowed_is_refused")],
    ),
    (
        "o: a lock that is only advice",
        &[Because("there is no fetching and so no lock: what is remote is refused, as in n")],
    ),
    ("p: unknown keys, bare variables", &[Test("tests/messages.rs", "every_case_shows_its_code")]),
    (
        "q: findings that can never block, files that nobody scans",
        &[
            Test("tests/guarded.rs", "everything_that_goes_in_is_scanned_before_the_sandbox_exists"),
            Test("tests/instructions.rs", "every_file_of_such_a_skill_is_scanned_and_none_leads_elsewhere"),
        ],
    ),
    (
        "r: environment, hooks and findings that the agent can write",
        &[
            Test(OUTCOMES, "agents_find_their_variables_instructions_and_a_check_of_their_output"),
            Test("tests/runtimes/hostile/shared.rs", "killing_hooks_stops_the_run_or_the_call"),
        ],
    ),
    (
        "s: a long line that hides the result",
        &[Test("tests/runtimes/streams.rs", "lines_of_ten_megabytes_are_lines")],
    ),
    (
        "t: one exit code and no record",
        &[
            Test("tests/skeleton.rs", "the_record_is_the_fold_of_a_chain_that_holds"),
            Test(OUTCOMES, "completed"),
        ],
    ),
    (
        "u: scripts with the whole environment",
        &[Test(OUTCOMES, "scripts_do_not_inherit_the_hosts_environment")],
    ),
    ("v: one switch for all security, without a trace", &[Test("tests/first_mistakes.rs", "a_kill_switch")]),
    ("w: a provider without a definition", &[Test("tests/messages.rs", "every_case_shows_its_code")]),
    (
        "x: a check of one forge's address, whatever the forge",
        &[Because("nothing here asks a forge: a run reaches what its policy names, and nothing else")],
    ),
    (
        "y: fillers and homoglyphs that pass, text that is damaged",
        &[Test("tests/corpora.rs", "cases_of_unicode")],
    ),
    (
        "z: docs that drifted",
        &[
            Test("tests/docs.rs", "the_page_of_the_harness_is_made_from_the_types"),
            Test("tests/runtimes/installing.rs", "docs_of_the_runtimes_are_made_from_their_contracts"),
        ],
    ),
    (
        "aa: an allow-list that a harness can step around",
        &[
            Test("tests/merge_layers.rs", "a_nearer_allow_list_replaces_a_farther_one"),
            Because("and what would be fetched at run time is refused while fetching is not built"),
        ],
    ),
];

#[test]
fn every_weakness_has_its_test() {
    let letters: Vec<&str> = TABLE.iter().map(|(row, _)| row.split(':').next().unwrap()).collect();
    let expected: Vec<String> = ('a'..='z').map(String::from).chain(["aa".to_owned()]).collect();
    assert_eq!(letters, expected);
    for (row, cells) in TABLE {
        check(row, &cells.iter().collect::<Vec<_>>());
    }
}

fn world(scenario: &Json, more: &str) -> World {
    let world = World::scripted(&format!("post_script: scripts/post.sh\n{more}"), scenario);
    world.script("repo/.fullsend/scripts/post.sh", "#!/bin/sh\ntouch \"$TARGET_REPO_DIR/posted\"\n");
    world
}

fn directory(world: &World) -> PathBuf {
    fs::read_dir(world.path("state/fullsend/runs/local")).unwrap().next().unwrap().unwrap().path()
}

#[test]
fn an_error_of_the_model_is_the_runs_failure_and_is_said() {
    let write = "echo '{\"summary\":\"done\"}' > /sandbox/workspace/output/agent-result.json";
    let scenario = json!({ "turns": [
        [{ "shell": write }],
        [{ "error": 400, "message": "the conversation is too long" }],
    ] });
    let world = world(&scenario, "");
    let ran = world.run(&["run", "triage"]);
    assert_eq!(ran.code, 1, "an output that looks whole does not make it a success: {}", ran.err);
    let last = ran.err.trim_end().lines().last().unwrap();
    assert!(last.contains("agent_failed") && last.contains("the conversation is too long"), "{last}");
    assert!(!world.path("repo/posted").exists());
    let record: Json =
        serde_json::from_slice(&fs::read(directory(&world).join("run.json")).unwrap()).unwrap();
    assert_eq!((&record["outcome"], &record["exit_code"]), (&json!("agent_failed"), &json!(1)));
    assert!(
        directory(&world).join("iteration-1/partial/agent-result.json").exists(),
        "it is kept as what it is"
    );
}

#[test]
fn published_files_are_the_checked_and_redacted_ones() {
    let token = format!("{}{}", "ghp_", "a8Fk2LmQ9xZt4RvW7bNc1YpS3dGh6JuE0oTi");
    let commands = "sed s/_// token.txt > /dev/null; mkdir -p /sandbox/workspace/output/security; \
        cp token.txt /sandbox/workspace/output/security/notes.txt; cp token.txt new.txt; \
        printf '\\377\\000key=\\001' > /sandbox/workspace/output/image.bin";
    let output = json!({
        "summary": format!("found {token}"), "author": "Jane Doe", "sort_key": "alphabetical",
        "author_key": "jane", "nested": [{ "public_key": "none" }],
    });
    let scenario = json!({ "turns": [[{ "shell": commands }], [{ "finish": output }]] });
    let world = world(&scenario, "validation_loop:\n  script: scripts/check.sh\n");
    world.write("repo/token.txt", format!("token = {token}\n"));
    world.write("repo/.fullsend/schemas/triage.json", r#"{"type":"object","required":["summary","author","sort_key","author_key","nested"],"properties":{"author":{"const":"Jane Doe"},"sort_key":{"const":"alphabetical"},"author_key":{"const":"jane"}}}"#);
    world.script(
        "repo/.fullsend/scripts/check.sh",
        "#!/bin/sh\nsha256sum output/agent-result.json > \"$FULLSEND_RUN_DIR/checked\"\n",
    );
    let ran = world.run(&["run", "triage"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let run = directory(&world);
    let published = fs::read(run.join("iteration-1/output/agent-result.json")).unwrap();
    let checked = fs::read_to_string(run.join("checked")).unwrap();
    assert!(
        checked.starts_with(&fullsend::event::log::sha256(&published)),
        "nothing was changed after the check"
    );
    let document: Json = serde_json::from_slice(&published).unwrap();
    assert!(!document["summary"].as_str().unwrap().contains(&token), "{document}");
    assert_eq!(document["nested"][0]["public_key"], "none", "and nothing but the secret was touched");
    assert_eq!(fs::read(run.join("iteration-1/output/image.bin")).unwrap(), b"\xff\0key=\x01");
    let notes = fs::read_to_string(run.join("iteration-1/output/security/notes.txt")).unwrap();
    assert!(notes.starts_with("token = ") && !notes.contains(&token), "no directory is left out: {notes}");
    let findings = fs::read_to_string(run.join("findings.jsonl")).unwrap();
    assert!(findings.contains("\"new.txt\""), "what changed in the repository was scanned: {findings}");
}
