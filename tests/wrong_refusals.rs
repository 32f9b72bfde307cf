//! Harnesses that were refused although nothing was wrong with them, and what they must still not do.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use crate::support::World;

const HARNESS: &str = "repo/.fullsend/harness/triage.yaml";

/// The harness of [`World::with_harness`] with further lines.
fn with(more: &str) -> World {
    let world = World::with_harness();
    let harness = fs::read_to_string(world.path(HARNESS)).unwrap();
    world.write(HARNESS, format!("{harness}{more}"));
    world
}

fn accepted(world: &World) -> String {
    let ran = world.run(&["check", "triage"]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    ran.err
}

fn refused(world: &World, words: &str) {
    let ran = world.run(&["check", "triage"]);
    assert_ne!(ran.code, 0, "{}", ran.all());
    assert!(ran.err.contains(words), "{words} is missing: {}", ran.err);
}

/// The directory of the only run.
fn only_run(world: &World) -> PathBuf {
    let runs = world.path("state/fullsend/runs/local");
    fs::read_dir(runs).unwrap().next().unwrap().unwrap().path()
}

#[test]
fn only_names_that_decide_something_are_reserved() {
    for name in [
        "FULLSEND_FORGE",
        "FULLSEND_TEAM",
        "GIT_AUTHOR_NAME",
        "GIT_AUTHOR_EMAIL",
        "GIT_COMMITTER_NAME",
        "GIT_COMMITTER_EMAIL",
        "GIT_COMMITTER_DATE",
    ] {
        accepted(&with(&format!("env: {{sandbox: {{{name}: x}}}}\n")));
    }
    for name in [
        "FULLSEND_OUTPUT_DIR",
        "FULLSEND_GUARD_TOKEN",
        "FULLSEND_DIR",
        "GIT_SSH_COMMAND",
        "GIT_EXEC_PATH",
        "GIT_CONFIG_COUNT",
        "GIT_SSL_CAINFO",
        "HTTPS_PROXY",
        "LD_PRELOAD",
        "CLAUDE_CONFIG_DIR",
    ] {
        refused(&with(&format!("env: {{sandbox: {{{name}: x}}}}\n")), "is reserved");
    }
}

#[test]
fn an_empty_credential_is_none() {
    let world = with("");
    let harness = fs::read_to_string(world.path(HARNESS)).unwrap();
    world.write(HARNESS, harness.replace("[model]", "[model, packages]"));
    world.write(
        "repo/.fullsend/profiles/packages.yaml",
        "id: packages\nendpoints:\n  - {host: packages.test, port: 443, protocol: rest, access: read-only}\n",
    );
    let provider = "repo/.fullsend/providers/packages.yaml";
    world.write(provider, "name: packages\ntype: packages\ncredentials: {_NOOP: \"\"}\n");
    let warnings = accepted(&world);
    assert!(!warnings.contains("_NOOP"), "nothing is to be said about it: {warnings}");
    world.write(provider, "name: packages\ntype: packages\ncredentials: {TOKEN: literal}\n");
    refused(&world, "is in plain text in the file");
}

#[test]
fn a_skill_is_known_by_its_own_name() {
    let world = with("skills: [skills/labels/github, skills/review/github]\n");
    let skill = |place: &str, name: &str| {
        let text = format!("---\nname: {name}\ndescription: d\n---\nDo it.\n");
        world.write(&format!("repo/.fullsend/skills/{place}/github/SKILL.md"), text);
    };
    skill("labels", "labels-github");
    skill("review", "review-github");
    accepted(&world);
    let shown = world.run(&["run", "triage", "--dry-run"]);
    assert!(shown.out.contains("labels-github") && shown.out.contains("review-github"), "{}", shown.all());
    skill("review", "labels-github");
    refused(&world, "two skills are called `labels-github`");
}

#[test]
fn a_skill_of_a_nearer_file_replaces_one_of_the_same_name() {
    let world = with("base: harness/base.yaml\nskills: [ours/labels]\n");
    world.write("repo/.fullsend/harness/base.yaml", "agent: agents/triage.md\nskills: [skills/labels]\n");
    for place in ["ours", "skills"] {
        let text = "---\nname: labels\ndescription: d\n---\nDo it.\n";
        world.write(&format!("repo/.fullsend/{place}/labels/SKILL.md"), text);
    }
    accepted(&world);
    let shown = world.run(&["run", "triage", "--dry-run"]);
    assert_eq!(shown.out.matches("labels").count(), 1, "{}", shown.all());
}

#[test]
fn a_skill_that_only_the_agent_names_is_a_warning() {
    let world = with("");
    let agent = "---\nname: triage\nskills: [team-rules]\n---\nWrite `summary`.\n";
    world.write("repo/.fullsend/agents/triage.md", agent);
    let warnings = accepted(&world);
    assert!(warnings.contains("absent-skill") && warnings.contains("`team-rules`"), "{warnings}");
}

#[test]
fn a_script_without_the_run_bit_needs_its_first_line() {
    let world = with("pre_script: scripts/pre.sh\n");
    world.write("repo/.fullsend/scripts/pre.sh", "#!/bin/sh\nexit 0\n");
    accepted(&world);
    world.write("repo/.fullsend/scripts/pre.sh", "exit 0\n");
    refused(&world, "is not executable and has no `#!` line");
}

/// One agent that uses all of it: shell logic in `.env.d`, the certificates where OpenShell has them, git without a name,
/// `${FULLSEND_DIR}`, scripts without the run bit, tools with patterns, a skill by its tool, and a plugin.
#[test]
fn formerly_refused_features_work_inside() {
    let look = "{ cat /etc/openshell-tls/ca-bundle.pem | grep -c BEGIN; echo ca=$GIT_SSL_CAINFO from=$FROM; \
        echo dir=$FILES; cd /tmp && git init -q x && cd x && git commit -q --allow-empty -m a && git log -1 --format='%an %ae'; \
        GIT_AUTHOR_NAME=Somebody git commit -q --allow-empty -m b && git log -1 --format='%an'; \
        } > /sandbox/workspace/output/seen.txt 2>&1; true";
    let scenario = json!({ "turns": [
        [{ "shell": look }, { "tool": "Skill", "input": { "skill": "labels" } }],
        [{ "finish": { "summary": "done" } }],
    ] });
    let world = World::scripted(
        "skills: [skills/a/labels]\nplugins: [plugins/lsp]\npre_script: scripts/pre.sh\npost_script: scripts/post.sh\n\
         env: {sandbox: {FILES: '${FULLSEND_DIR}/x'}, runner: {FILES: '${FULLSEND_DIR}/y'}}\n\
         host_files:\n- {src: env/ca.env, dest: /sandbox/workspace/.env.d/ca.env}\n\
         - {src: env/plain.env, dest: /sandbox/workspace/.env.d/plain.env, expand: true}\n",
        scenario,
    );
    let planted = world.path("planted");
    world.write(
        "repo/.fullsend/env/ca.env",
        format!(
            "if [ -f /etc/openshell-tls/ca-bundle.pem ]; then\n  export GIT_SSL_CAINFO=/etc/openshell-tls/ca-bundle.pem\n  export FROM=\"$WHO\"\nelse\n  export GIT_SSL_CAINFO=/etc/ssl/certs/ca-certificates.crt\nfi\ntouch {}\n",
            planted.display()
        ),
    );
    world.write("repo/.fullsend/env/plain.env", "export WHO=\"${LOGIN}\"\n");
    world.write(
        "repo/.fullsend/scripts/pre.sh",
        "#!/bin/sh\necho \"pre $FILES\" > \"$FULLSEND_RUN_DIR/said\"\ntest -d \"$FULLSEND_DIR\"\n",
    );
    world.write("repo/.fullsend/scripts/post.sh", "#!/bin/sh\necho post >> \"$FULLSEND_RUN_DIR/said\"\n");
    world.write(
        "repo/.fullsend/skills/a/labels/SKILL.md",
        "---\nname: labels\ndescription: d\n---\nUse two labels.\n",
    );
    world.write("repo/.fullsend/plugins/lsp/.claude-plugin/plugin.json", "{\"name\": \"lsp\"}");
    world.write(
        "repo/.fullsend/agents/triage.md",
        "---\nname: triage\ntools: Bash(git,cat), Skill\n---\nWrite `summary`.\n",
    );
    let world = world.env("LOGIN", "a person");
    let ran = world.run(&["run", "triage"]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    assert!(ran.err.contains("tool-pattern") && ran.err.contains("plugin-parts"), "{}", ran.err);
    assert!(!planted.exists(), "a file of variables is never evaluated on the host");
    let run = only_run(&world);
    let seen = fs::read_to_string(run.join("iteration-1/output/seen.txt")).unwrap();
    let bundle = "ca=/etc/openshell-tls/ca-bundle.pem from=a person\n";
    for expected in [bundle, "fullsend fullsend@localhost\n", "Somebody\n"] {
        assert!(seen.contains(expected), "{expected} is missing:\n{seen}");
    }
    assert!(!seen.starts_with('0'), "the bundle holds certificates:\n{seen}");
    let directory = world.path("repo/.fullsend");
    let directory = directory.canonicalize().unwrap();
    assert!(seen.contains(&format!("dir={}/x\n", directory.display())), "{seen}");
    let said = fs::read_to_string(run.join("said")).unwrap();
    assert_eq!(said, format!("pre {}/y\npost\n", directory.display()));
    let events = fs::read_to_string(run.join("events.jsonl")).unwrap();
    assert!(events.contains("\"tool\":\"Skill\""), "the tool was called: {events}");
}

/// What logic sets is held to the rules for every other variable, and a shell that fails stops the run.
#[test]
fn logic_in_a_file_of_variables_cannot_set_what_is_reserved() {
    let run = |text: &str| {
        let scenario = json!({ "turns": [[{ "finish": { "summary": "done" } }]] });
        let file = "host_files: [{src: env/a.env, dest: /sandbox/workspace/.env.d/a.env}]\n";
        let world = World::scripted(file, scenario);
        world.write("repo/.fullsend/env/a.env", text);
        let ran = world.run(&["run", "triage"]);
        assert_ne!(ran.code, 0, "{text}: {}", ran.all());
        ran.err
    };
    assert!(
        run("if true; then export HTTPS_PROXY=http://x; fi\n")
            .contains("sets `HTTPS_PROXY`, which is reserved")
    );
    assert!(run("if true; then export GIT_SSL_CAINFO=/tmp/x; fi\n").contains("sets `GIT_SSL_CAINFO`"));
    assert!(run("if true; then exit 7; fi\n").contains("ended the shell with"));
    assert!(run("if\n").contains("ended the shell with"));
}
