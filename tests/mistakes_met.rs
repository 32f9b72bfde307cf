//! Mistakes that a first user met, one test each.

use std::fs;

use serde_json::{Value as Json, json};

use crate::support::World;

/// A picture and an archive with much in them that text must not have, and nothing else.
fn binary_files() -> String {
    r"printf 'PK\003\004\024\000\000\377\033[31m\033]0;x\007\200\001\002\000' > /sandbox/workspace/output/all.zip; printf '\211PNG\r\n\032\n\000\000\000\rIHDR\000\377\033[31m\033]0;x\007\200\001\002' > /sandbox/workspace/output/shot.png".to_owned()
}

#[test]
fn pictures_and_archives_give_no_findings_and_are_not_called_cleaned() {
    let scenario = json!({ "turns": [[{ "shell": binary_files() }], [{ "finish": { "summary": "x" } }]] });
    let world = World::scripted("", scenario);
    let ran = world.run(&["run", "triage"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!ran.err.contains("finding "), "{}", ran.err);
}

#[test]
fn text_that_starts_like_a_picture_is_still_scanned() {
    let command = r"printf '%%PDF-1.7 \033]0;x\007 harmless?\n' > /sandbox/workspace/output/note.pdf; printf 'a\377\033[2Jb\n' > /sandbox/workspace/output/raw.txt";
    let scenario = json!({ "turns": [[{ "shell": command }], [{ "finish": { "summary": "x" } }]] });
    let world = World::scripted("", scenario);
    let ran = world.run(&["run", "triage"]);
    assert!(ran.err.contains(" in output/note.pdf, line 1: cleaned"), "{}", ran.err);
    assert!(
        ran.err.contains(" in output/raw.txt, line 1: reported"),
        "unchanged bytes are not cleaned: {}",
        ran.err
    );
}

#[test]
fn a_state_directory_that_cannot_be_made_is_named_and_there_is_no_record() {
    let world = World::scripted("", r#"{"turns":[[{"finish":{"summary":"x"}}]]}"#);
    let file = world.write("taken", "");
    let world = world.env("XDG_STATE_HOME", file.to_str().unwrap());
    let ran = world.run(&["run", "triage"]);
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(!ran.err.contains("record:"), "{}", ran.err);
    assert!(
        ran.err.contains("cannot create a directory for the run in $ROOT/taken/fullsend/runs"),
        "{}",
        ran.err
    );
}

#[test]
fn relative_xdg_paths_are_ignored() {
    let world =
        World::scripted("", r#"{"turns":[[{"finish":{"summary":"x"}}]]}"#).env("XDG_STATE_HOME", "here");
    assert_eq!(world.run(&["run", "triage", "--quiet"]).code, 0);
    assert!(!world.path("repo/here").exists());
    assert_eq!(fs::read_dir(world.path("home/.local/state/fullsend/runs/local")).unwrap().count(), 1);
}

#[test]
fn a_url_as_host_says_to_write_the_host() {
    let world = World::scripted("policy: policies/p.yaml\n", "{}");
    world.write(
        "repo/.fullsend/policies/p.yaml",
        "version: 1\nnetwork_policies:\n  api:\n    endpoints:\n      - {host: https://api.example.com/v1, port: 443}\n    binaries:\n      - {path: /usr/bin/curl}\n",
    );
    let ran = world.run(&["check"]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    let said = format!("{}{}", ran.out, ran.err);
    assert!(said.contains("is a URL; write the host alone: `api.example.com`"), "{said}");
}

#[test]
fn a_tab_is_reported_on_its_own_line() {
    let world = World::scripted("env:\n  sandbox:\n\tA: b\n", "{}");
    let ran = world.run(&["check"]);
    let said = format!("{}{}", ran.out, ran.err);
    assert!(said.contains("harness/triage.yaml:7:"), "{said}");
}

#[test]
fn a_result_under_another_name_is_mentioned() {
    let write = "echo '{\"summary\":\"x\"}' > /sandbox/workspace/output/result.json";
    let scenario = json!({ "turns": [[{ "shell": write }], [{ "text": "Done." }]] });
    let world = World::scripted("validation_loop:\n  max_iterations: 1\n", scenario);
    let ran = world.run(&["run", "triage"]);
    assert_eq!(ran.code, 5, "{}", ran.err);
    let said = "the output file `agent-result.json` is missing; the output directory holds `result.json`";
    assert!(ran.err.contains(said), "{}", ran.err);
}

#[test]
fn too_much_memory_names_its_field() {
    let hungry = "head -c 300000000 /dev/zero | tail -c 299999999 | wc -c";
    let scenario = json!({ "turns": [[{ "shell": hungry }], [{ "finish": { "summary": "x" } }]] });
    let world = World::scripted("sandbox:\n  limits:\n    memory_mb: 64\n", scenario);
    let ran = world.run(&["run", "triage"]);
    // Where the kernel kills only the command, the agent goes on.
    let named = ran.err.contains("`sandbox.limits.memory_mb`, which is 64");
    assert!(ran.code == 0 || named, "{}", ran.err);
}

#[test]
fn init_writes_no_owner_that_the_forge_would_refuse() {
    let world = World::new();
    world.write("repo/.git/config", "[remote \"origin\"]\n\turl = git@example.com:acme/widgets\n");
    let ran = world.run(&["init"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!world.path("repo/CODEOWNERS").exists(), "an organisation cannot own files");
    assert!(ran.out.contains("--owner @acme/TEAM"), "{}", ran.out);
    world.run(&["init", "--owner", "@acme/platform"]);
    assert!(
        fs::read_to_string(world.path("repo/CODEOWNERS")).unwrap().contains("/.fullsend/ @acme/platform")
    );
}

#[test]
fn a_start_is_not_noisy() {
    let ran = World::scripted("", r#"{"turns":[[{"finish":{"summary":"x"}}]]}"#).run(&["run", "triage"]);
    assert!(!ran.err.contains("tirith") && !ran.err.contains("llm_guard"), "{}", ran.err);
}

/// The profile of the documentation, as it is printed there.
#[test]
fn the_profile_in_the_documentation_is_accepted() {
    let page = fs::read_to_string(crate::support::root().join("docs/providers.md")).unwrap();
    let start = page.find("    id: jira").unwrap();
    let profile: String = page[start..]
        .lines()
        .take_while(|line| line.starts_with("    "))
        .map(|line| format!("{}\n", &line[4..]))
        .collect();
    let world = World::scripted("", r#"{"turns":[[{"finish":{"summary":"x"}}]]}"#);
    world.write("repo/.fullsend/profiles/jira.yaml", profile);
    world.write(
        "repo/.fullsend/providers/jira.yaml",
        "name: jira\ntype: jira\ncredentials:\n  JIRA_TOKEN: ${JIRA_TOKEN}\n",
    );
    world.write(
        "repo/.fullsend/harness/triage.yaml",
        "agent: agents/triage.md\nruntime: native\noutput_schema: schemas/triage.json\nproviders: [model, jira]\npolicy: policies/p.yaml\n",
    );
    world.write(
        "repo/.fullsend/policies/p.yaml",
        "version: 1\nnetwork_policies:\n  jira:\n    endpoints:\n      - {host: acme.atlassian.net, port: 443, protocol: rest, enforcement: enforce, access: read-only}\n    binaries:\n      - {path: /usr/bin/curl}\n",
    );
    let ran = world.env("JIRA_TOKEN", "jira-token-0123456789").run(&["check", "--format", "json"]);
    let errors: Vec<Json> = ran
        .out
        .lines()
        .filter_map(|line| serde_json::from_str::<Json>(line).ok())
        .filter(|line| line["severity"] == "error")
        .collect();
    assert!(ran.code == 0 && errors.is_empty(), "{errors:#?} {}", ran.err);
}
