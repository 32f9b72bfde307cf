//! Ways around the configuration that somebody tried with success, each closed.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use crate::attack_rows::{AttackRow, held};
use crate::support::{RUNNABLE, Ran, Who, World};

const TOKEN: &str = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8";

fn harness(world: &World, text: &str) {
    world.write(
        "repo/.fullsend/harness/triage.yaml",
        format!("agent: agents/triage.md\noutput_schema: schemas/triage.json\n{text}{}", runnable(text)),
    );
}

/// What a run needs beside these lines.
fn runnable(text: &str) -> String {
    let is_set = |line: &str| line.split_once(' ').is_some_and(|(key, _)| text.contains(key));
    RUNNABLE.lines().filter(|line| !is_set(line)).map(|line| format!("{line}\n")).collect()
}

fn check_with_org(world: &World, more: &[&str]) -> Ran {
    let org = world.path("org");
    let mut arguments = vec!["check", "triage", "--org-dir", org.to_str().unwrap()];
    arguments.extend(more);
    world.run(&arguments)
}

#[test]
fn a_policy_that_the_organisation_sets_for_a_forge_is_a_floor() {
    let policy = |path: &str| {
        format!("version: 1\nfilesystem_policy:\n  include_workdir: true\n  read_write: [/tmp{path}]\n")
    };
    for text in ["forge: {github: {policy: policies/wide.yaml}}", "policy: policies/wide.yaml\nforge: null"] {
        let world = World::with_harness();
        world.write("org/harness/triage.yaml", "agent: agents/triage.md\noutput_schema: schemas/triage.json\nforge: {github: {policy: policies/strict.yaml}}\n");
        world.write("org/policies/strict.yaml", policy(""));
        world.write("repo/.fullsend/policies/wide.yaml", policy(", /var/lib"));
        world.write("repo/.fullsend/harness/triage.yaml", format!("base: harness/triage.yaml\n{text}\n"));
        let ran = check_with_org(&world, &["--forge", "github"]);
        assert_eq!(ran.code, 3, "{text}: {}", ran.err);
        assert!(ran.err.contains("/var/lib"), "{}", ran.err);
    }
}

#[test]
fn a_lenient_harness_of_the_organisations_does_not_loosen_its_configuration_for_others() {
    let world = World::with_harness();
    world.write("org/config.yaml", "security: {fail_mode: closed}\n");
    world.write("org/harness/lab.yaml", "agent: agents/triage.md\nsecurity: {fail_mode: open}\n");
    world.write(
        "repo/.fullsend/harness/triage.yaml",
        "base: harness/lab.yaml\noutput_schema: schemas/triage.json\n",
    );
    assert_eq!(check_with_org(&world, &[]).code, 3);
}

#[test]
fn an_organisation_inside_the_repository_is_read_from_the_trusted_commit_too() {
    let world = World::with_harness();
    harness(&world, "security: {fail_mode: open}\n");
    world.write("repo/.fullsend/config.yaml", "org: gov\n");
    world.write("repo/gov/config.yaml", "security: {fail_mode: closed}\n");
    git(&world, &["init", "-q", "-b", "main"]);
    git(&world, &["add", "-A"]);
    git(&world, &["-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "base"]);
    fs::write(world.path("repo/gov/config.yaml"), "").unwrap();
    assert_eq!(
        world.run(&["check", "triage", "--config-ref", "main"]).code,
        3,
        "the head cannot take the pin away"
    );
    assert_eq!(world.run(&["check", "triage"]).code, 0, "the files as they are say nothing of it");
}

fn git(world: &World, arguments: &[&str]) {
    assert!(
        Command::new("git").arg("-C").arg(world.path("repo")).args(arguments).status().unwrap().success()
    );
}

#[test]
fn no_way_of_looking_at_a_file_shows_a_credential() {
    for text in [
        format!("env: {{sandbox: {{GH_TOKEN: {TOKEN}}}, bogus: 1}}\n"),
        format!("{TOKEN}: 1\n"),
        format!("model: {TOKEN}\n"),
        format!("pre_script: http://x/{TOKEN}\n"),
        "env: {sandbox: {DB_PASSWORD: hunter2xyzzy9Q}, bogus: 1}\n".to_owned(),
        format!("env:\n  runner:\n    GH_TOKEN: \"{TOKEN}${{E}}\"\n"),
    ] {
        let world = World::with_harness();
        harness(&world, &text);
        for arguments in [
            &["check", "triage"][..],
            &["check", "triage", "--format", "json"],
            &["check", "triage", "--format", "sarif"],
            &["check", "triage", "--format", "github"],
            &["explain", "triage"],
            &["explain", "triage", "--format", "json"],
            &["explain", "triage", "--resolved"],
            &["run", "triage"],
        ] {
            let ran = world.run(arguments);
            assert!(
                !ran.all().contains(&TOKEN[8..]) && !ran.all().contains("hunter2xyzzy"),
                "{text}{arguments:?}: {}",
                ran.all()
            );
        }
        assert_eq!(world.run(&["check", "triage"]).code, 3, "{text}");
    }
}

#[test]
fn an_address_of_the_organisation_with_a_key_in_it_is_not_repeated() {
    let world = World::with_harness();
    world.write("repo/.fullsend/config.yaml", format!("org: https://x:{TOKEN}@example.com/a/b\n"));
    let ran = world.run(&["check", "triage"]);
    assert!(ran.code == 3 && !ran.err.contains(&TOKEN[8..]), "{}", ran.err);
}

#[test]
fn what_is_resolved_is_accepted_and_keeps_its_forges() {
    let world = World::with_harness();
    world.script("repo/.fullsend/scripts/p.sh", "#!/bin/sh\n");
    world.write(
        "repo/.fullsend/harness/triage.yaml",
        format!("agent: agents/triage.md\n{RUNNABLE}forge: {{github: {{pre_script: scripts/p.sh}}}}\n"),
    );
    let resolved = world.run(&["explain", "triage", "--resolved"]).out;
    world.write("repo/.fullsend/harness/again.yaml", &resolved);
    let ran = world.run(&["check", "again"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let explained = world.run(&["explain", "again", "pre_script", "--forge", "github"]).out;
    assert!(explained.contains("scripts/p.sh"), "{explained}");
    assert_eq!(world.run(&["check", "again", "--forge", "gitlab"]).code, 3);
}

#[test]
fn frontmatter_that_is_not_on_the_first_line_is_said_so() {
    for text in [
        "\n---\nname: triage\ntols: x\n---\nWrite `summary`.\n",
        "--- # c\nname: triage\n---\nWrite `summary`.\n",
    ] {
        let world = World::with_harness();
        world.write("repo/.fullsend/agents/triage.md", text);
        let ran = world.run(&["check", "triage"]);
        assert!(ran.code == 3 && ran.err.contains("first line"), "{text}: {}", ran.err);
    }
}

#[test]
fn a_link_that_leads_nowhere_is_not_an_absent_file() {
    let world = World::with_harness();
    fs::create_dir_all(world.path("org")).unwrap();
    symlink("gone.yaml", world.path("org/config.yaml")).unwrap();
    assert_eq!(check_with_org(&world, &[]).code, 3, "nobody knows what it pinned");
}

#[test]
fn a_customized_configuration_names_the_organisation_too() {
    let world = World::with_harness();
    world.write("org/config.yaml", "security: {fail_mode: closed}\n");
    world.write("repo/.fullsend/customized/config.yaml", "org: ../org\n");
    harness(&world, "security: {fail_mode: open}\n");
    assert_eq!(world.run(&["check", "triage"]).code, 3);
}

#[test]
fn inputs_do_not_come_from_just_anywhere() {
    for value in ["/etc", "../../../etc"] {
        let world = World::with_harness();
        harness(&world, &format!("agent_input: {value}\n"));
        assert_eq!(world.run(&["check", "triage"]).code, 3, "{value}");
    }
    let world = World::with_harness();
    harness(&world, "host_files: [{src: ../../x, dest: /sandbox/workspace/x, optional: true}]\n");
    assert_eq!(world.run(&["check", "triage"]).code, 3);
}

#[test]
fn control_characters_do_not_reach_a_log() {
    let world = World::with_harness();
    harness(&world, "\"\\e[31mred\\a\": 1\n");
    for format in ["human", "json", "github", "sarif"] {
        let said = world.run(&["check", "triage", "--format", format]).all();
        assert!(!said.contains('\u{1b}') && !said.contains('\u{7}'), "{format}: {said:?}");
    }
}

#[test]
fn a_provider_that_replaces_the_organisations_is_said_aloud() {
    let world = World::with_harness();
    let provider = "name: model\ntype: anthropic\ncredentials: {K: \"${K}\"}\n";
    harness(&world, "providers: [model]\n");
    fs::remove_file(world.path("repo/.fullsend/providers/model.yaml")).unwrap();
    world.write("org/providers/model.yaml", provider);
    assert!(!check_with_org(&world, &[]).err.contains("provider-replaced"));
    world.write("repo/.fullsend/providers/model.yaml", provider);
    let ran = check_with_org(&world, &[]);
    assert!(ran.code == 0 && ran.err.contains("provider-replaced"), "{}", ran.err);
}

/// Git on the host never reads the repository's own configuration: neither what it includes nor what it would fetch from.
#[test]
fn a_hostile_configuration_of_git_runs_nothing_on_the_host() {
    let world = World::scripted(
        "",
        serde_json::json!({ "turns": [[{ "shell": "echo more >> one.txt" }], [{ "finish": { "summary": "done" } }]] }),
    );
    world.write("repo/one.txt", "one\n");
    world.write("repo/.fullsend/notes.md", "an object that goes missing\n");
    git(&world, &["init", "-q", "-b", "main"]);
    git(&world, &["add", "-A"]);
    git(&world, &["-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "one"]);
    let script = world.script("evil.sh", "#!/bin/sh\ntouch \"$(dirname \"$0\")/started\"\n");
    let script = script.display().to_string();
    // A blob that only a fetch could bring.
    let blob = git_output(&world, &["rev-parse", "HEAD:.fullsend/notes.md"]);
    let (directory, name) = blob.split_at(2);
    fs::remove_file(world.path(&format!("repo/.git/objects/{directory}/{name}"))).unwrap();
    world.write(
        "repo/.git/evil.config",
        format!("[core]\n\tfsmonitor = {script}\n\talternateRefsCommand = {script}\n"),
    );
    for (key, value) in [
        ("core.fsmonitor", script.as_str()),
        ("core.hooksPath", world.path("").to_str().unwrap()),
        ("core.sshCommand", &script),
        ("include.path", "evil.config"),
        ("extensions.partialClone", "evil"),
        ("remote.evil.promisor", "true"),
        ("remote.evil.url", &format!("ext::{script}")),
        ("protocol.ext.allow", "always"),
        ("protocol.allow", "always"),
        ("diff.external", &script),
        ("filter.x.smudge", &script),
        ("filter.x.process", &script),
    ] {
        git(&world, &["config", key, value]);
    }
    world.write("repo/.git/info/attributes", "* filter=x diff=x\n");
    let checked = world.run(&["check", "triage", "--config-ref", "main"]);
    assert_eq!(checked.code, 4, "{}", checked.err);
    assert!(!world.path("started").exists(), "check ran something");
    let ran = world.run(&["run", "triage"]);
    assert!(!world.path("started").exists(), "run ran something: {}", ran.err);
    held(AttackRow::HostileGitConfiguration, Who::Caller);
}

fn git_output(world: &World, arguments: &[&str]) -> String {
    let output = Command::new("git").args(arguments).current_dir(world.path("repo")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
