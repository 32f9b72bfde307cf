//! `fullsend ci render`: what is in the pipelines of the seed harnesses and of the reconstruction, and that the scripts in them
//! run a harness as a runner would run them, over the demo with its scripted model.

use std::fs;

use serde_json::{Value as Json, json};
use yaml::{Node, ParseLimits, Sources};

use crate::support::{Ran, World, copy, example, has_programs, root};

const TRIGGER: &str =
    "trigger: event.transition.kind == 'label_changed' && event.transition.label.name == 'ready'\n";

pub(super) fn parsed(text: &str) -> Node {
    let mut sources = Sources::default();
    let id = sources.add("pipeline.yml", text.to_owned());
    yaml::parse(&sources, id, ParseLimits::default()).unwrap_or_else(|error| panic!("{error:?}\n{text}"))
}

/// Every harness of the examples and of the reconstruction, some with triggers.
pub(super) fn rendered(system: &str) -> Vec<String> {
    let world = World::new();
    copy(&root().join("examples/ci"), &world.path("repo"));
    copy(&root().join("tests/data/dropin"), &world.path("agents"));
    let add = |path: &str, trigger: &str| {
        let text = fs::read_to_string(world.path(path)).unwrap();
        world.write(path, text + trigger);
    };
    add("repo/.fullsend/harness/triage.yaml", "trigger: event.transition.kind == 'opened'\n");
    add("agents/harness/fix.yaml", "trigger: event.transition.comment.command == '/fix'\n");
    add(
        "agents/harness/review.yaml",
        "trigger: event.transition.kind in ['opened', 'synchronized'] && event.entity.kind == 'change_proposal'\n",
    );
    let agents = world.path("agents").to_string_lossy().into_owned();
    let print = |more: &[&str]| {
        let ran = world.run(&[&["ci", "render", system][..], more].concat());
        assert_eq!(ran.code, 0, "{}", ran.all());
        ran.out
    };
    vec![print(&[]), print(&["triage", "code"]), print(&["--fullsend-dir", &agents, "--anyone"])]
}

fn text<'n>(node: &'n Node, path: &[&str]) -> Option<&'n str> {
    path.iter().try_fold(node, |node, key| node.get(key)).and_then(Node::scalar)
}

fn steps(job: &Node) -> &[Node] {
    job.get("steps").unwrap().items()
}

/// A script of a step or a job, with what the pipeline would set.
fn run_script(world: &World, script: &str, variables: &[(&str, &str)]) -> Ran {
    let programs = std::path::Path::new(env!("CARGO_BIN_EXE_fullsend")).parent().unwrap();
    let mut exports = format!("export PATH='{}':\"$PATH\"\n", programs.display());
    for (name, value) in variables {
        exports += &format!("export {name}='{value}'\n");
    }
    let file = world.write("step.sh", format!("{exports}set -eo pipefail\n{script}"));
    world.run_program("/bin/bash".as_ref(), &[file.as_os_str()])
}

#[test]
fn a_workflow_keeps_secrets_from_everything_but_the_run() {
    for workflow in rendered("github") {
        let tree = parsed(&workflow);
        assert!(tree.get("permissions").unwrap().entries().is_empty(), "{workflow}");
        assert!(tree.get("on").unwrap().get("pull_request_target").is_none(), "{workflow}");
        for job in tree.get("jobs").unwrap().entries() {
            let permissions = job.node.get("permissions").unwrap();
            assert_eq!(permissions.entries().len(), 1, "{workflow}");
            assert_eq!(text(permissions, &["contents"]), Some("read"));
            for step in steps(&job.node) {
                let name = text(step, &["name"]).unwrap();
                if let Some(script) = text(step, &["run"]) {
                    assert!(!script.contains("${{"), "{script}");
                }
                if let Some(action) = text(step, &["uses"]) {
                    let commit = action.split_once('@').unwrap().1;
                    assert!(
                        commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()),
                        "{action}"
                    );
                }
                if text(step, &["uses"]).is_some_and(|action| action.starts_with("actions/checkout@")) {
                    assert_eq!(text(step, &["with", "persist-credentials"]), Some("false"));
                }
                for variable in step.get("env").map(Node::entries).unwrap_or_default() {
                    let is_secret = variable.node.scalar().unwrap().contains("secrets.");
                    assert!(!is_secret || name == "Run the agent", "{name}: {}", variable.key);
                }
            }
        }
        assert_eq!(workflow.matches("secrets.").count(), workflow.matches("${{ secrets.").count());
    }
}

#[test]
fn a_workflow_has_the_events_and_the_variables_of_its_harnesses() {
    let all = rendered("github");
    let seed = &all[1];
    assert!(seed.contains("on:\n  issues:\n    types: [opened]\n  pull_request:\n    types: [opened]\n  workflow_dispatch:\n"), "{seed}");
    assert!(
        seed.contains(
            "# Set these secrets of the environment `fullsend`: GH_TOKEN, GOOGLE_APPLICATION_CREDENTIALS.\n"
        ),
        "{seed}"
    );
    for line in [
        "          ANTHROPIC_VERTEX_PROJECT_ID: ${{ vars.ANTHROPIC_VERTEX_PROJECT_ID }}\n",
        "          GH_TOKEN: ${{ secrets.GH_TOKEN }}\n",
        "          export GOOGLE_APPLICATION_CREDENTIALS=\"$RUNNER_TEMP/GOOGLE_APPLICATION_CREDENTIALS\"\n",
        "    timeout-minutes: 135\n",
        "trigger test --list --by-writers ",
    ] {
        assert!(seed.contains(line), "{line}: {seed}");
    }
    let drop_in = &all[2];
    assert!(drop_in.contains("  issue_comment: # zizmor: ignore[dangerous-triggers]"), "{drop_in}");
    assert!(drop_in.contains("    types: [created, edited, deleted]\n"), "{drop_in}");
    assert!(drop_in.contains("  pull_request:\n    types: [opened, synchronize]\n"), "{drop_in}");
    assert!(drop_in.contains("trigger test --list --config-ref"), "--anyone: {drop_in}");
    // Each of them gets the secrets of its own harness.
    let tree = parsed(drop_in);
    let jobs = tree.get("jobs").unwrap();
    let run = |job: &str| {
        steps(jobs.get(job).unwrap())
            .iter()
            .find(|step| text(step, &["name"]) == Some("Run the agent"))
            .unwrap()
    };
    assert_eq!(text(run("run-code"), &["env", "PUSH_TOKEN"]), Some("${{ secrets.PUSH_TOKEN }}"));
    assert_eq!(text(run("run-triage"), &["env", "PUSH_TOKEN"]), None);
    assert_eq!(text(run("run-triage"), &["env", "GITLAB_TOKEN"]), None, "it is of another forge");
    assert_eq!(text(run("run-triage"), &["env", "GITHUB_API_URL"]), None, "the runner sets it");
}

/// The rest of the action, of the workflow and of what is rendered prepares a runner in the same way.
#[test]
fn every_pipeline_prepares_the_runner_in_the_same_way() {
    let workflow = rendered("github").remove(1);
    let prepared = workflow.split_once("- name: Prepare the sandbox\n").unwrap().1;
    let lines = prepared.lines().skip(1).take_while(|line| line.starts_with("          "));
    let lines: Vec<&str> = lines.map(str::trim).collect();
    assert!(lines.len() == 8, "{lines:?}");
    for file in ["action.yml", ".github/workflows/fullsend.yml"] {
        let text = fs::read_to_string(root().join(file)).unwrap();
        let there: Vec<&str> = text.lines().map(str::trim).collect();
        assert!(there.windows(lines.len()).any(|window| window == lines), "{file}");
    }
}

#[test]
fn the_file_is_written_and_checked() {
    let world = example("hello");
    for (system, path) in [
        ("github", ".github/workflows/fullsend.yml"),
        ("gitlab", ".gitlab/fullsend.yml"),
        ("tekton", ".tekton/fullsend.yaml"),
    ] {
        let check = || world.run(&["ci", "render", system, "--check"]);
        let missing = check();
        assert!(
            missing.code == 3 && missing.err.contains(&format!("cannot read {path}")),
            "{}",
            missing.all()
        );
        let written = world.run(&["ci", "render", system, "--write"]);
        assert_eq!((written.code, written.out), (0, format!("wrote {path}\n")));
        assert_eq!(check().out, format!("{path} is up to date\n"));
        assert_eq!(
            world.run(&["ci", "render", system]).out,
            fs::read_to_string(world.path(&format!("repo/{path}"))).unwrap()
        );
    }
    let harness = fs::read_to_string(world.path("repo/.fullsend/harness/hello.yaml")).unwrap();
    world.write("repo/.fullsend/harness/hello.yaml", harness.clone() + TRIGGER);
    let stale = world.run(&["ci", "render", "github", "--check"]);
    assert_eq!(
        (stale.code, stale.err.as_str()),
        (
            3,
            "fullsend: .github/workflows/fullsend.yml does not match the harnesses\n  help: write it with `fullsend ci render github --write`\n"
        )
    );
    world.write("repo/.fullsend/harness/hello.yaml", harness + "trigger: evnt\n");
    let wrong = world.run(&["ci", "render", "github"]);
    assert!(wrong.code == 3 && wrong.err.contains("`fullsend check hello` says why"), "{}", wrong.all());
}

/// The demo in a repository whose head is a pull request that spoils `.fullsend`, and whose branch `main` has a trigger.
fn repository_with_pull_request() -> World {
    let world = example("hello");
    let harness = fs::read_to_string(world.path("repo/.fullsend/harness/hello.yaml")).unwrap();
    world.write("repo/.fullsend/harness/hello.yaml", harness + TRIGGER);
    let script = "git init -q -b main . && git add -A && git commit -q -m base\n\
        git clone -q --bare . ../origin.git && git remote add origin ../origin.git && git fetch -q origin\n\
        echo 'agent: agents/of-the-pull-request.md' > .fullsend/harness/hello.yaml && git commit -q -a -m head\n\
        git push -q origin HEAD:refs/merge-requests/6/head HEAD:refs/pull/6/head\n";
    let identity = [
        ("GIT_AUTHOR_NAME", "a"),
        ("GIT_AUTHOR_EMAIL", "a@example.com"),
        ("GIT_COMMITTER_NAME", "a"),
        ("GIT_COMMITTER_EMAIL", "a@example.com"),
    ];
    let ran = run_script(&world, script, &identity);
    assert_eq!(ran.code, 0, "{}", ran.all());
    fs::create_dir_all(world.path("temp")).unwrap();
    world
}

fn labeled(label: &str) -> Json {
    json!({
        "action": "labeled", "label": { "name": label }, "repository": { "full_name": "acme/widgets" },
        "pull_request": {
            "number": 6, "html_url": "https://example.com/6", "user": { "login": "ann" },
            "head": { "ref": "x", "repo": { "full_name": "acme/widgets" } },
            "base": { "ref": "main", "repo": { "full_name": "acme/widgets" } },
        },
        "sender": { "login": "bob", "type": "User" },
    })
}

#[test]
fn the_scripts_of_a_workflow_decide_and_run() {
    if !has_programs(&["/bin/bash", "git"], "rendered workflow") {
        return;
    }
    let world = repository_with_pull_request();
    let workflow = world.run(&["ci", "render", "github", "--config-ref", "refs/remotes/origin/main"]).out;
    let tree = parsed(&workflow);
    let jobs = tree.get("jobs").unwrap();
    let script = |job: &str, name: &str| {
        let step =
            steps(jobs.get(job).unwrap()).iter().find(|step| text(step, &["name"]) == Some(name)).unwrap();
        text(step, &["run"]).unwrap().to_owned()
    };
    let at = |path: &str| world.path(path).to_string_lossy().into_owned();
    let decide = |kind: &str, payload: &Json| {
        world.write("event.json", payload.to_string());
        world.write("outputs", "");
        let variables = [
            ("GITHUB_EVENT_PATH", at("event.json")),
            ("GITHUB_EVENT_NAME", kind.to_owned()),
            ("GITHUB_OUTPUT", at("outputs")),
        ];
        let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
        let ran =
            run_script(&world, &script("decide", "Decide which harnesses the event starts"), &variables);
        assert_eq!(ran.code, 0, "{}", ran.all());
        fs::read_to_string(world.path("outputs")).unwrap()
    };
    // The job that decides checks the base out.
    let base = run_script(&world, "git branch -q head && git reset -q --hard origin/main", &[]);
    assert_eq!(base.code, 0, "{}", base.all());
    assert_eq!(decide("pull_request", &labeled("ready")), "harnesses=[\"hello\"]\n");
    assert_eq!(decide("pull_request", &labeled("other")), "harnesses=[]\n");
    assert_eq!(decide("push", &json!({ "ref": "x" })), "harnesses=[]\n");
    // Anybody can write a comment, and the trigger does not check the author: nothing starts.
    let mut opened = labeled("ready");
    opened["action"] = "opened".into();
    assert_eq!(decide("pull_request", &opened), "harnesses=[]\n");

    world.write("event.json", labeled("ready").to_string());
    let checkout = run_script(&world, "git checkout -q head", &[]);
    assert_eq!(checkout.code, 0, "{}", checkout.all());
    let variables = [
        ("CONFIG_REF", "refs/remotes/origin/main".to_owned()),
        ("GITHUB_EVENT_PATH", at("event.json")),
        ("GITHUB_EVENT_NAME", "pull_request".to_owned()),
        ("GITHUB_OUTPUT", at("outputs")),
        ("GITHUB_STEP_SUMMARY", at("summary")),
        ("GITHUB_ACTIONS", "true".to_owned()),
        ("RUNNER_TEMP", at("temp")),
    ];
    let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
    let ran = run_script(&world, &script("run-hello", "Run the agent"), &variables);
    assert_eq!(ran.code, 0, "{}", ran.all());
    let summary = fs::read_to_string(world.path("summary")).unwrap();
    for expected in [
        "### fullsend run hello: completed\n",
        "\nchanges\n",
        "\nmodels\n",
        "#### Result\n\n```json\n{",
        "#### Changes\n\n```diff\ndiff --git a/greet.sh b/greet.sh\n",
    ] {
        assert!(summary.contains(expected), "{expected}: {summary}");
    }
    let outputs = fs::read_to_string(world.path("outputs")).unwrap();
    assert!(outputs.contains("outcome=completed\n"), "{outputs}");
    let spoiled = run_script(&world, "fullsend check hello --config-ref worktree", &[]);
    assert_eq!(spoiled.code, 3, "the rules of the pull request would not do: {}", spoiled.all());
}

#[test]
fn the_script_of_a_gitlab_job_decides_and_runs() {
    if !has_programs(&["/bin/bash", "git"], "rendered jobs") {
        return;
    }
    let world = repository_with_pull_request();
    let jobs = world.run(&["ci", "render", "gitlab", "--config-ref", "refs/remotes/origin/main"]).out;
    let tree = parsed(&jobs);
    let script =
        tree.get("fullsend-hello").unwrap().get("script").unwrap().items()[0].scalar().unwrap().to_owned();
    let back = run_script(
        &world,
        "git branch -q head && git reset -q --hard origin/main && git rev-parse HEAD",
        &[],
    );
    let commit = back.out.trim().to_owned();
    let at = |path: &str| world.path(path).to_string_lossy().into_owned();
    let start = |labels: &Json| {
        let payload = json!({
            "object_kind": "merge_request",
            "object_attributes": { "action": "update", "iid": 6, "author_id": 1, "url": "https://example.com/6" },
            "user": { "username": "ann", "id": 2 }, "project": { "path_with_namespace": "acme/widgets" },
            "labels": labels, "changes": { "labels": { "previous": [], "current": labels } },
        });
        world.write("payload.json", payload.to_string());
        let variables = [
            ("TRIGGER_PAYLOAD", at("payload.json")),
            ("CI_COMMIT_SHA", commit.clone()),
            ("CI_JOB_ID", "17".to_owned()),
            ("TMPDIR", at("temp")),
        ];
        let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
        run_script(&world, &script, &variables)
    };
    let other = start(&json!([{ "title": "other" }]));
    assert_eq!((other.code, other.out.as_str()), (0, "the event does not start hello\n"), "{}", other.err);
    let ran = start(&json!([{ "title": "ready" }]));
    assert_eq!(ran.code, 0, "{}", ran.all());
    assert!(ran.err.contains("completed: "), "{}", ran.err);
    assert_eq!(
        fs::read_dir(world.path("temp/fullsend-runs-17")).unwrap().count(),
        1,
        "the record is where the job collects it"
    );
    let head = run_script(&world, "cat .fullsend/harness/hello.yaml", &[]).out;
    assert!(head.contains("of-the-pull-request"), "the agent worked on the head: {head}");
}

/// Tekton has no validator that a registry of packages carries: the shape is checked here.
#[test]
fn tekton_resources_have_the_shape_of_their_kinds() {
    for text_of_all in rendered("tekton") {
        let documents: Vec<Node> = text_of_all.split("---\n").skip(1).map(parsed).collect();
        let kinds: Vec<&str> = documents.iter().filter_map(|node| text(node, &["kind"])).collect();
        for kind in ["TriggerBinding", "TriggerTemplate", "EventListener"] {
            assert!(kinds.contains(&kind), "{kinds:?}");
        }
        for document in &documents {
            let kind = text(document, &["kind"]).unwrap();
            let version = if kind == "Task" { "tekton.dev/v1" } else { "triggers.tekton.dev/v1beta1" };
            assert_eq!(text(document, &["apiVersion"]), Some(version));
            let name = text(document, &["metadata", "name"]).unwrap();
            assert!(
                name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'),
                "{name}"
            );
            if kind == "Task" {
                check_task(document.get("spec").unwrap());
            }
        }
    }
}

fn check_task(spec: &Node) {
    let known = ["description", "params", "workspaces", "stepTemplate", "steps", "volumes"];
    assert!(spec.entries().iter().all(|entry| known.contains(&entry.key.as_str())));
    let parameters: Vec<&str> = spec
        .get("params")
        .unwrap()
        .items()
        .iter()
        .filter_map(|parameter| text(parameter, &["name"]))
        .collect();
    let volumes: Vec<&str> =
        spec.get("volumes").unwrap().items().iter().filter_map(|volume| text(volume, &["name"])).collect();
    assert_eq!(text(spec, &["stepTemplate", "securityContext", "allowPrivilegeEscalation"]), Some("false"));
    for step in steps(spec) {
        let name = text(step, &["name"]).unwrap();
        let script = text(step, &["script"]).unwrap();
        assert!(script.starts_with("#!/bin/sh\nset -eu\n") && !script.contains("$(params."), "{script}");
        for mount in step.get("volumeMounts").map(Node::items).unwrap_or_default() {
            assert!(volumes.contains(&text(mount, &["name"]).unwrap()), "{name}");
            assert_eq!(name, "run", "only the run has secrets");
        }
        for variable in step.get("env").unwrap().items() {
            let value = text(variable, &["value"]).unwrap_or_default();
            if let Some(parameter) = value.strip_prefix("$(params.").and_then(|rest| rest.strip_suffix(')')) {
                assert!(parameters.contains(&parameter), "{parameter}");
            }
            assert!(variable.get("valueFrom").is_none() || name == "run", "{name}");
        }
    }
}

/// Text that anybody writes on a forge never becomes part of a command on the host.
#[test]
fn the_text_of_an_event_is_no_part_of_a_command() {
    let world = example("hello");
    let harness = fs::read_to_string(world.path("repo/.fullsend/harness/hello.yaml")).unwrap();
    let event = world.write("event.json", labeled("ready").to_string()).display().to_string();
    for (name, code) in [("LABEL_NAME", 3), ("PR_HEAD_REF", 3), ("COMMENT_BODY", 3), ("ISSUE_NUMBER", 0)] {
        let check = format!("  max_iterations: 2\n  preflight_check: echo ${{{name}}}\n");
        world.write("repo/.fullsend/harness/hello.yaml", harness.replace("  max_iterations: 2\n", &check));
        let ran =
            world.run(&["run", "hello", "--dry-run", "--event", &event, "--event-kind", "pull_request"]);
        assert_eq!(ran.code, code, "{name}: {}", ran.all());
        assert_eq!(
            ran.err.contains(&format!("{name} is text that anybody may have written")),
            code == 3,
            "{}",
            ran.err
        );
    }
}

#[test]
fn names_that_a_system_cannot_have_are_changed_or_refused() {
    let world = example("hello");
    let harness = fs::read_to_string(world.path("repo/.fullsend/harness/hello.yaml")).unwrap();
    world.write("repo/.fullsend/harness/Fix_Bug.yaml", &harness);
    let tekton = world.run(&["ci", "render", "tekton", "Fix_Bug"]).out;
    assert!(
        tekton.contains("  name: fullsend-fix-bug\n") && tekton.contains("fullsend run Fix_Bug "),
        "{tekton}"
    );
    let github = world.run(&["ci", "render", "github", "Fix_Bug"]).out;
    assert!(github.contains("options: ['Fix_Bug']\n"), "{github}");
    world.write("repo/.fullsend/harness/-x.yaml", &harness);
    let refused = world.run(&["ci", "render", "github"]);
    assert!(
        refused.code == 3 && refused.err.contains("its name would be read as an option"),
        "{}",
        refused.all()
    );
}
