//! What an agent or a script says does not become a command of the CI that prints it.

use std::fs;

use serde_json::json;

use crate::attack_rows::{AttackRow, held};
use crate::support::{Ran, Who, World};

/// Commands at the start of a line, after other line ends, behind what is not seen, and in the old form.
const WORDS: &str = "Which one?\n::add-mask::a\n  ::set-output name=b::c\n\u{feff}::error::d\r::warning::e\
    \u{2028}::notice::f\u{85}::debug::g\nh ##[add-mask]i ##vso[task.setvariable variable=j]k\n::stop-commands::l?";

/// The commands that GitHub's runner would find, and those of other CIs, but for our own.
fn commands(text: &str) -> Vec<String> {
    let ours = ["::group::", "::endgroup::", "::error title=fullsend::", "::warning title=fullsend::"];
    let is_line_end = |c: char| "\n\r\u{b}\u{c}\u{85}\u{2028}\u{2029}".contains(c);
    let is_blank = |c: char| c.is_whitespace() || c.is_control() || "\u{feff}\u{200b}\u{fffd}".contains(c);
    let obeyed = |line: &&str| {
        let line = line.trim_start_matches(is_blank);
        let is_command = line.starts_with("::") && !ours.iter().any(|own| line.starts_with(own));
        is_command || line.contains("##[") || line.contains("##vso[")
    };
    text.split(is_line_end).filter(obeyed).map(str::to_owned).collect()
}

fn none(name: &str, ran: &Ran) {
    let found = commands(&format!("{}\n{}", ran.out, ran.err));
    assert!(found.is_empty(), "{name}: {found:?}\n{}\n{}", ran.out, ran.err);
}

#[test]
fn the_words_of_an_agent_are_no_commands() {
    assert_eq!(commands(WORDS).len(), 8, "the words themselves");
    let mut turns = vec![json!([{ "shell": format!("echo '{WORDS}'") }])];
    // The agent is asked again for its result.
    turns.extend((0..8).map(|_| json!([{ "text": WORDS }])));
    let scenario = json!({ "turns": turns });
    let world = World::scripted("", scenario).env("GITHUB_ACTIONS", "true");
    let world = world.env("GITHUB_WORKSPACE", "/nowhere");
    for options in [&["run", "triage"][..], &["run", "triage", "--quiet"], &["run", "triage", "--json"]] {
        let ran = world.run(&[options, &["--config-ref", "worktree"]].concat());
        assert_ne!(ran.code, 0, "{}", ran.err);
        assert!(ran.err.contains("add-mask"), "the words are shown: {}", ran.err);
        none(&options.join(" "), &ran);
    }
    let world = world.without("GITHUB_ACTIONS");
    none("run", &world.run(&["run", "triage"]));
    for arguments in [
        &["runs", "show"][..],
        &["runs", "show", "--json"],
        &["runs", "logs"],
        &["runs", "logs", "--json"],
        &["runs", "list"],
        &["runs", "list", "--json"],
        &["runs", "logs", "latest", "events.jsonl"],
        &["runs", "logs", "latest", "run.json"],
    ] {
        let ran = world.run(arguments);
        assert_eq!(ran.code, 0, "{}", ran.err);
        none(&arguments.join(" "), &ran);
    }
    held(AttackRow::CommandsForCi, Who::Caller);
}

#[test]
fn the_output_of_a_script_is_no_command() {
    let world =
        World::scripted("post_script: scripts/post.sh\n", r#"{"turns":[[{"finish":{"summary":"done"}}]]}"#);
    let said = world.write("home/said", format!("{WORDS}\n##[add-mask]last\n"));
    world.script("repo/.fullsend/scripts/post.sh", &format!("#!/bin/sh\ncat {}\nexit 3\n", said.display()));
    let summary = world.write("home/summary", "");
    let world = world.env("GITHUB_STEP_SUMMARY", summary.to_str().unwrap());
    let ran = world.run(&["run", "triage"]);
    assert!(ran.code != 0 && ran.err.contains("add-mask"), "{}", ran.err);
    none("run", &ran);
    none("logs", &world.run(&["runs", "logs", "latest", "post_script.log"]));
    let world = world.env("GITHUB_ACTIONS", "true");
    none("run", &world.run(&["run", "triage", "--config-ref", "worktree"]));
    let shown = fs::read_to_string(&summary).unwrap();
    assert!(shown.contains("add-mask") && commands(&shown).is_empty(), "{shown}");
}

/// In GitHub Actions the notices, groups and masks of a script work; a value that it masks is nowhere in what the run keeps.
#[test]
fn a_script_speaks_to_the_ci() {
    let world =
        World::scripted("post_script: scripts/post.sh\n", r#"{"turns":[[{"finish":{"summary":"done"}}]]}"#);
    let value = "made-by-the-script-8812";
    world.write(
        "repo/.fullsend/scripts/post.sh",
        format!("#!/bin/sh\necho '::group::Publishing'\necho '::notice::posted'\necho '::add-mask::{value}'\necho 'it is {value}'\necho '::set-env name=A::b'\n"),
    );
    let quiet = world.run(&["run", "triage"]);
    assert!(quiet.code == 0 && !quiet.err.contains("posted"), "only a CI gets it: {}", quiet.err);
    let world = world.env("GITHUB_ACTIONS", "true");
    let ran = world.run(&["run", "triage", "--config-ref", "worktree"]);
    for expected in ["\n::group::Publishing\n", "\n::notice::posted\n", "\n| ::set-env name=A::b\n"] {
        assert!(ran.err.contains(expected), "{expected}: {}", ran.err);
    }
    let masked = format!("::add-mask::{value}\n");
    assert_eq!(ran.err.matches(value).count(), 1, "only the mask itself names it: {}", ran.err);
    assert!(ran.err.contains(&masked), "{}", ran.err);
    let log = world.run(&["runs", "logs", "latest", "post_script.log"]);
    assert!(log.out.contains("it is ") && !log.out.contains(value), "{}", log.out);
    let world = world.without("GITHUB_ACTIONS").env("CI", "true");
    let ran = world.run(&["run", "triage"]);
    assert!(ran.err.contains("| ::notice::posted\n") && !ran.err.contains(value), "{}", ran.err);
}

/// What was said in a session, and who said it, as every command of sessions prints it.
#[test]
fn the_words_in_a_session_are_no_commands() {
    let world = World::with_harness();
    let created = world.run(&["session", "create", "--agent", "triage", "--label", "a ##[add-mask]label"]);
    let id: serde_json::Value = serde_json::from_str(&created.out).unwrap();
    let id = id["id"].as_str().unwrap().to_owned();
    assert_eq!(world.run(&["session", "send", &id, WORDS]).code, 0);
    assert_eq!(world.run(&["session", "interrupt", &id, "--note", WORDS]).code, 0);
    let world = world.env("CI", "true");
    for arguments in [
        &["session", "show", &id][..],
        &["session", "show", &id, "--json"],
        &["session", "list"],
        &["session", "list", "--json"],
        &["session", "events", &id],
        &["session", "events", &id, "--json"],
        &["session", "export", &id, "--output", "-"],
    ] {
        let ran = world.run(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.err);
        none(&arguments.join(" "), &ran);
    }
    let bundle = world.run(&["session", "export", &id, "--output", "-"]).out;
    assert!(bundle.contains("add-mask"), "{bundle}");
    let bundle = world.write("bundle", bundle);
    let other = World::with_harness();
    let imported = other.run(&["session", "import", bundle.to_str().unwrap()]);
    assert_eq!(imported.code, 0, "its digest is that of what was written: {}", imported.err);
    let said = other.run(&["session", "events", &id]).out;
    let first: serde_json::Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
    assert!(first.to_string().contains("##[add-mask]i"), "{first}");
}
