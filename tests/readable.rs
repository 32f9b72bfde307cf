//! A result that people and programs can read: standard output carries it, the last lines say what happened and what to do
//! next, and `runs` shows words, changes and lists.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value as Json, json};

use crate::support::{World, example, wait_for};

/// The bundled example as a git repository with one commit.
pub fn repository() -> World {
    let world = example("hello");
    let git = |words: &[&str]| {
        let ran = Command::new("git").args(words).current_dir(world.path("repo")).status();
        assert!(ran.unwrap().success());
    };
    git(&["init", "-q"]);
    git(&["add", "-A"]);
    git(&["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "1"]);
    world
}

#[test]
fn standard_output_carries_the_result_and_standard_error_the_rest() {
    let world = repository();
    let ran = world.run(&["run", "hello"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let expected =
        json!({ "fixed": true, "file": "greet.sh", "cause": "The default name was misspelt as wrold." });
    assert_eq!(serde_json::from_str::<Json>(&ran.out).unwrap(), expected, "{}", ran.out);
    for part in [
        "  says      I will see what the test says.",
        "  retry     attempt 2: the agent gets the reasons",
        "  says      The report lacked its cause, and `fixed` is a yes or no.\n  changes   1 file changed, 1 line added, 1 removed; `fullsend runs diff`",
        "  refused   ",
        "  refused   1 request to collector.example; if it is wanted, `fullsend policy suggest --write` adds",
        "  total     ",
        ", $0.",
        ", 2 attempts\ncompleted: $ROOT",
    ] {
        assert!(ran.err.contains(part), "{part}\n{}", ran.err);
    }
    let text = world.run(&["run", "hello", "--output", "text", "--quiet"]);
    assert_eq!(
        text.out, "fixed: true\nfile: greet.sh\ncause: The default name was misspelt as wrold.\n",
        "{}",
        text.err
    );
    assert_eq!(text.err, "");
    assert_eq!(world.run(&["run", "hello", "--output", "none"]).out, "");
    let to_file = world.run(&["run", "hello", "-o", "../result.json"]);
    assert_eq!((to_file.code, to_file.out.as_str()), (0, ""), "{}", to_file.err);
    let written: Json = serde_json::from_slice(&fs::read(world.path("result.json")).unwrap()).unwrap();
    assert_eq!(written, expected);
    let events = world.run(&["run", "hello", "--json"]).out;
    assert!(
        events.lines().all(|line| serde_json::from_str::<Json>(line).unwrap()["seq"].is_u64()),
        "{events}"
    );
}

#[test]
fn text_of_the_agent_is_no_command_for_the_terminal() {
    let scenario = json!({ "turns": [[
        { "text": "Look: \u{1b}]0;owned\u{7}\u{1b}[2J\n::error::mine" },
        { "shell": "exit 3" },
    ], [
        { "finish": { "summary": "\u{1b}[31mred\u{9b}1m\n::add-mask::x ##[error]y" } },
    ]] });
    let world = World::scripted("", scenario);
    let ran = world.run(&["run", "triage", "--output", "text"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.err.contains("  failed    Bash exit 3\n"),
        "a failed command is shown as failed: {}",
        ran.err
    );
    for shown in
        [&ran.out, &ran.err, &world.run(&["runs", "transcript"]).out, &world.run(&["runs", "show"]).out]
    {
        assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
    }
    let world = world.env("GITHUB_ACTIONS", "true");
    let ran = world.run(&["run", "triage", "--output", "text"]);
    assert!(ran.out.contains("| ::add-mask::x ## [error]y"), "{}", ran.out);
    let ours = ["::group::", "::endgroup::", "::warning title=fullsend::"];
    let foreign = |line: &&str| line.starts_with("::") && !ours.iter().any(|our| line.starts_with(our));
    assert_eq!(ran.err.lines().filter(foreign).count(), 0, "{}", ran.err);
    let json = world.run(&["run", "triage"]).out;
    assert!(!json.contains("##[") && json.chars().all(|c| c == '\n' || !c.is_control()), "{json:?}");
    let back: Json = serde_json::from_str(&json).unwrap();
    assert!(back["summary"].as_str().unwrap().ends_with("::add-mask::x ##[error]y"), "the same text: {json}");
}

#[test]
fn a_failed_run_says_what_is_kept_and_where_words_and_changes_are() {
    let world = repository();
    world.write(
        "repo/.fullsend/schemas/hello.json",
        r#"{"type":"object","required":["fixed","file","cause","reviewer"]}"#,
    );
    let ran = world.run(&["run", "hello", "--keep", "on-failure"]);
    assert_eq!((ran.code, ran.out.as_str()), (5, ""), "{}", ran.err);
    let kept = "  kept      iteration-2/rejected, iteration-2/rejected.patch, kept; `fullsend enter` opens";
    assert!(ran.err.contains(kept), "{}", ran.err);
    let diff = world.run(&["runs", "diff"]);
    assert_eq!(diff.code, 4, "{}", diff.err);
    assert!(diff.err.contains("has no accepted changes") && diff.err.contains("--rejected"), "{}", diff.err);
    assert!(world.run(&["runs", "diff", "--rejected"]).out.contains("${1:-world}"), "{}", diff.out);
    let applied = world.run(&["runs", "apply"]);
    assert_eq!(applied.code, 4, "{}", applied.err);
    assert!(fs::read_to_string(world.path("repo/greet.sh")).unwrap().contains("wrold"));
    let words = world.run(&["runs", "transcript"]).out;
    for part in ["attempt 1\n", "  says      The repository's notes", "    finish\n", "attempt 2\n"] {
        assert!(words.contains(part), "{part}\n{words}");
    }
}

#[test]
fn accepted_changes_are_shown_and_applied_once_and_only_as_accepted() {
    let world = repository();
    assert_eq!(world.run(&["run", "hello", "--quiet"]).code, 0);
    let shown = world.run(&["runs", "show"]).out;
    for part in ["\nlast words\n  The report lacked", "\nchanges\n  greet.sh  +1 -1\n", " +00:00, ", ", $0."]
    {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    assert_eq!(
        world.run(&["runs", "diff", "--stat"]).out,
        "greet.sh  +1 -1\n1 file changed, 1 line added, 1 removed\n"
    );
    let fits = world.run(&["runs", "apply", "--check"]);
    assert_eq!(fits.code, 0, "{}", fits.err);
    assert!(fs::read_to_string(world.path("repo/greet.sh")).unwrap().contains("wrold"), "only checked");

    let run = fs::read_dir(world.path("state/fullsend/runs/local")).unwrap().next().unwrap().unwrap().path();
    let patch = run.join("iteration-2/changes.patch");
    let before = fs::read(&patch).unwrap();
    fs::write(&patch, String::from_utf8_lossy(&before).replace("world", "evil!")).unwrap();
    let changed = world.run(&["runs", "apply"]);
    assert_eq!(changed.code, 1, "{}", changed.err);
    assert!(changed.err.contains("is not the patch that was accepted"), "{}", changed.err);
    fs::write(&patch, before).unwrap();

    let applied = world.run(&["runs", "apply"]);
    assert_eq!(applied.code, 0, "{}", applied.err);
    assert!(applied.err.ends_with("applied; nothing is committed\n"), "{}", applied.err);
    assert!(!fs::read_to_string(world.path("repo/greet.sh")).unwrap().contains("wrold"));
    let again = world.run(&["runs", "apply"]);
    assert_eq!(again.code, 1, "{}", again.err);
    assert!(again.err.contains("patch does not apply"), "{}", again.err);
}

#[test]
fn runs_are_listed_newest_first_with_short_names_and_filters() {
    let world =
        World::scripted("pre_script: scripts/pre.sh\n", r#"{"turns":[[{"finish":{"summary":"x"}}]]}"#);
    world.script("repo/.fullsend/scripts/pre.sh", "#!/bin/sh\n[ -z \"$CI\" ] || exit 78\n");
    assert_eq!(world.run(&["run", "triage", "--quiet"]).code, 0);
    let world = world.env("CI", "1").env("TZ", "Asia/Kathmandu");
    let skipped = world.run(&["run", "triage"]);
    assert!(!skipped.err.contains("failed"), "skipped is not failed: {}", skipped.err);
    let listed = world.run(&["runs", "list"]).out;
    let lines: Vec<&str> = listed.lines().collect();
    let [newest, oldest] = lines[..] else { panic!("{listed}") };
    assert!(newest.contains("skipped") && oldest.contains("completed"), "newest first: {listed}");
    assert!(
        newest.contains("+05:45") || !Path::new("/usr/share/zoneinfo/Asia/Kathmandu").exists(),
        "{listed}"
    );
    assert!(oldest.contains("$0.") && oldest.contains(" repo ") && oldest.contains(" triage"), "{listed}");
    let short = oldest.split_whitespace().next().unwrap();
    assert!(short.len() < 36, "{short}");
    assert!(world.run(&["runs", "show", short]).out.contains("completed, exit 0"));
    let one = |filter: &[&str]| {
        let words = [&["runs", "list"], filter].concat();
        world.run(&words).out.lines().count()
    };
    assert_eq!(one(&["--outcome", "skipped"]), 1);
    assert_eq!(one(&["--harness", "other"]), 0);
    assert_eq!(one(&["--repository", "rep"]), 2);
    assert_eq!(one(&["-n", "1"]), 1);
    let line = world.run(&["runs", "list", "--json", "--outcome", "completed"]).out;
    let line: Json = serde_json::from_str(&line).unwrap();
    assert!(line["duration_ms"].is_u64() && line["repository_directory"].is_string(), "{line}");
}

#[test]
fn a_running_run_is_followed_to_its_end() {
    let scenario = r#"{"turns":[[{"text":"I wait."},{"shell":"while [ ! -e go ]; do sleep 0.1; done"}],[{"finish":{"summary":"x"}}]]}"#;
    let world = World::scripted("timeout_minutes: 2\n", scenario);
    let mut running = world.spawn(&["run", "triage"]);
    wait_for(|| world.run(&["runs", "logs"]).out.contains("I wait.").then_some(()));
    let mut follower = world.spawn_to(&["runs", "logs", "--follow"], "followed");
    wait_for(|| fs::read_to_string(world.path("followed")).unwrap().contains("I wait.").then_some(()));
    let interrupt = format!("kill -INT {}", running.id());
    assert!(Command::new("sh").args(["-c", &interrupt]).status().unwrap().success());
    running.wait().unwrap();
    assert!(follower.wait().unwrap().success());
    let followed = fs::read_to_string(world.path("followed")).unwrap();
    assert!(followed.contains("teardown"), "{followed}");
}
