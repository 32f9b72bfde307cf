//! In CI the repository's layer is read from the base of a pull request: the head may change what decides about the
//! agent, and is judged by what was there before.

use std::process::Command;

use crate::attack_rows::{AttackRow, held};
use crate::support::{RUNNABLE, Who, World};

const OPEN: &str = "version: 1\nfilesystem_policy: {read_only: [/usr], read_write: [/]}\n";
const CLOSED: &str = "version: 1\nfilesystem_policy: {read_only: [/usr], read_write: [/sandbox]}\n";
const HARNESS: &str =
    "agent: agents/triage.md\noutput_schema: schemas/triage.json\npolicy: policies/p.yaml\n";

fn git(world: &World, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"])
        .args(arguments)
        .current_dir(world.path("repo"))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("HOME", world.path("home"))
        .output()
        .unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A pull request whose head widens the policy, adds a harness and changes the model; `origin/main` is its base.
fn pull_request() -> (World, String) {
    let world = World::with_harness();
    world.write("repo/.fullsend/harness/triage.yaml", format!("{HARNESS}model: base\n{RUNNABLE}"));
    world.write("repo/.fullsend/policies/p.yaml", CLOSED);
    git(&world, &["init", "-q"]);
    git(&world, &["add", "-A"]);
    git(&world, &["commit", "-qm", "base"]);
    let base = git(&world, &["rev-parse", "HEAD"]);
    git(&world, &["update-ref", "refs/remotes/origin/main", &base]);
    world.write("repo/.fullsend/harness/triage.yaml", format!("{HARNESS}model: head\n{RUNNABLE}"));
    world.write("repo/.fullsend/harness/added.yaml", HARNESS);
    world.write("repo/.fullsend/policies/p.yaml", OPEN);
    world.write("repo/.fullsend/customized/harness/triage.yaml", "agent: agents/evil.md\n");
    git(&world, &["add", "-A"]);
    git(&world, &["commit", "-qm", "head"]);
    (world, base)
}

fn model(world: &World, arguments: &[&str]) -> String {
    let ran = world.run(&[&["explain", "triage", "model"], arguments].concat());
    assert_eq!(ran.code, 0, "{}", ran.all());
    ran.out.split_whitespace().nth(3).unwrap_or("").to_owned()
}

#[test]
fn the_base_decides_and_not_the_head() {
    let (world, base) = pull_request();
    for reference in ["origin/main", &base, "HEAD~1"] {
        let explained = world.run(&["explain", "triage", "--config-ref", reference]);
        assert_eq!(explained.code, 0, "{}", explained.all());
        assert!(
            explained.out.contains(&format!("{reference}:.fullsend/harness/triage.yaml:4")),
            "{}",
            explained.out
        );
        assert_eq!(model(&world, &["--config-ref", reference]), "base");
        assert_eq!(world.run(&["check", "triage", "--config-ref", reference]).code, 0);
        assert_eq!(
            world.run(&["check", "added", "--config-ref", reference]).code,
            3,
            "the head's harness is not there"
        );
        let listed = world.run(&["list", "--config-ref", reference]).out;
        assert!(!listed.contains("added"), "{listed}");
    }
    assert_eq!(
        world.run(&["explain", "triage", "agent", "--config-ref", "worktree"]).out.matches("evil").count(),
        1
    );
}

#[test]
fn the_ci_s_variables_choose_the_base() {
    let (world, base) = pull_request();
    assert!(world.run(&["list"]).out.contains("added"), "outside of CI the files are read as they are");
    let world = world.env("GITHUB_ACTIONS", "true").env("GITHUB_BASE_REF", "main");
    assert_eq!(model(&world, &[]), "base");
    assert!(!world.run(&["list"]).out.contains("added"));
    assert!(world.run(&["list", "--config-ref", "worktree"]).out.contains("added"), "said so, it is done so");
    let world = world.without("GITHUB_ACTIONS").env("GITLAB_CI", "true");
    assert_eq!(world.run(&["list"]).code, 4, "GitHub's variable says nothing in GitLab");
    let world = world.env("CI_MERGE_REQUEST_DIFF_BASE_SHA", &base);
    assert_eq!(model(&world, &[]), "base");
    assert!(!world.run(&["list"]).out.contains("added"));
}

/// The remote of a submodule is what the pull request says it is.
#[test]
fn a_submodule_does_not_choose_the_base() {
    let (world, _) = pull_request();
    let (evil, _) = pull_request();
    std::fs::rename(evil.path("repo"), world.path("repo/lib")).unwrap();
    let lib = world.path("repo/lib").display().to_string();
    git(&world, &["-C", &lib, "update-ref", "refs/remotes/origin/main", "HEAD"]);
    let world = world.env("GITHUB_ACTIONS", "true").env("GITHUB_BASE_REF", "main");
    assert_eq!(model(&world, &["--repo", &lib]), "base");
}

#[test]
fn a_pull_request_of_another_ci_needs_a_reference() {
    let (world, base) = pull_request();
    let mut world = world;
    for (name, value) in [("CHANGE_TARGET", "main"), ("TRAVIS_PULL_REQUEST", "7"), ("BITBUCKET_PR_ID", "1")] {
        world = world.env(name, value);
        let ran = world.run(&["check", "triage"]);
        assert!(ran.code == 4 && ran.err.contains(name) && ran.err.contains("--config-ref"), "{}", ran.all());
        assert_eq!(model(&world, &["--config-ref", &base]), "base");
        world = world.without(name);
    }
    let world = world.env("TRAVIS_PULL_REQUEST", "false").env("CI", "true");
    assert!(world.run(&["list"]).out.contains("added"), "no pull request");
    let world = world.env("GITLAB_CI", "true").env("CI_MERGE_REQUEST_DIFF_BASE_SHA", "HEAD");
    assert_eq!(world.run(&["check", "triage"]).code, 4, "only a commit is a base");
}

/// A CI that is not known says nothing about pull requests; the default branch of the remote is the only one that is trusted.
#[test]
fn an_unknown_ci_needs_a_reference_outside_the_default_branch() {
    let (world, base) = pull_request();
    assert!(world.run(&["list"]).out.contains("added"), "no CI");
    let world = world.env("CI", "true");
    let ran = world.run(&["check", "triage"]);
    assert!(
        ran.code == 4 && ran.err.contains("CI is set") && ran.err.contains("--config-ref"),
        "{}",
        ran.all()
    );
    assert_eq!(model(&world, &["--config-ref", &base]), "base");
    assert!(world.run(&["list", "--config-ref", "worktree"]).out.contains("added"));
    git(&world, &["checkout", "-q", "--detach"]);
    assert_eq!(world.run(&["list"]).code, 4, "a detached head");
    git(&world, &["update-ref", "refs/remotes/origin/main", "HEAD"]);
    assert!(world.run(&["list"]).out.contains("added"), "merged");
    git(&world, &["update-ref", "refs/remotes/origin/trunk", &base]);
    git(&world, &["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/trunk"]);
    assert_eq!(world.run(&["list"]).code, 4, "the remote names another default branch");
    for name in ["refs/remotes/origin/HEAD", "refs/remotes/origin/main", "refs/remotes/origin/trunk"] {
        git(&world, &["update-ref", "--no-deref", "-d", name]);
    }
    assert_eq!(world.run(&["list"]).code, 4, "a detached head of a repository without remotes");
    git(&world, &["checkout", "-q", "-b", "own"]);
    assert!(world.run(&["list"]).out.contains("added"), "a branch of a repository without remotes");
    let world = world.env("CI", "false");
    git(&world, &["checkout", "-q", "--detach"]);
    assert!(world.run(&["list"]).out.contains("added"), "no CI");
}

#[test]
fn a_base_that_was_not_fetched_is_missing() {
    let (world, _) = pull_request();
    git(&world, &["update-ref", "-d", "refs/remotes/origin/main"]);
    let world = world.env("GITHUB_ACTIONS", "true").env("GITHUB_BASE_REF", "main");
    for command in [&["check"][..], &["explain", "triage"], &["run", "triage"], &["list"]] {
        let ran = world.run(command);
        assert_eq!((ran.code, ran.out.as_str()), (4, ""), "{command:?}: {}", ran.all());
        assert!(ran.err.contains("git fetch origin"), "{}", ran.all());
    }
    insta::assert_snapshot!("config-ref-missing", world.run(&["check"]).all());
    let absent = "0123456789012345678901234567890123456789";
    assert_eq!(world.run(&["check", "--config-ref", absent]).code, 4);
}

#[test]
fn a_base_without_a_layer_has_no_harness() {
    let world = World::new();
    git(&world, &["init", "-q"]);
    git(&world, &["commit", "-qm", "base", "--allow-empty"]);
    world.write("repo/.fullsend/harness/triage.yaml", "agent: agents/a.md\n");
    git(&world, &["add", "-A"]);
    git(&world, &["commit", "-qm", "head"]);
    let ran = world.run(&["check", "triage", "--config-ref", "HEAD~1"]);
    assert_eq!(ran.code, 3, "{}", ran.all());
    assert!(ran.err.contains("there is no harness `triage`"), "{}", ran.all());
}

#[test]
fn a_repository_without_git_has_no_commits() {
    let ran = World::with_harness().run(&["check", "--config-ref", "main"]);
    assert_eq!(ran.code, 4, "{}", ran.all());
}

#[test]
fn an_option_is_not_a_commit() {
    let (world, _) = pull_request();
    for reference in ["--upload-pack=x", "-h", "", "main:../x", "HEAD^{/x}", "a b"] {
        let ran = world.run(&["check", &format!("--config-ref={reference}")]);
        assert_eq!(ran.code, 4, "{reference}: {}", ran.all());
    }
}

/// What git would write into the checkout stays inside it, and links are links.
#[test]
fn links_in_the_base_do_not_lead_out() {
    let (world, _) = pull_request();
    let path = world.path("repo/.fullsend/agents/triage.md");
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
    git(&world, &["rm", "-qr", "--cached", ".fullsend/customized"]);
    git(&world, &["add", "-A", ".fullsend/agents"]);
    git(&world, &["commit", "-qm", "link"]);
    let ran = world.run(&["check", "triage", "--config-ref", "HEAD"]);
    assert_eq!(ran.code, 3, "{}", ran.all());
    assert!(ran.err.contains("leads out of its layer through a symbolic link"), "{}", ran.all());
}

/// The repository's own git configuration runs nothing.
#[test]
fn the_repository_s_configuration_of_git_starts_nothing() {
    let (world, _) = pull_request();
    let script = world.script("evil.sh", "#!/bin/sh\ntouch \"$(dirname \"$0\")/started\"\n");
    for key in ["core.fsmonitor", "core.pager", "core.sshCommand", "diff.external", "core.editor"] {
        git(&world, &["config", key, &script.to_string_lossy()]);
    }
    assert_eq!(world.run(&["check", "triage", "--config-ref", "origin/main"]).code, 0);
    assert!(!world.path("started").exists());
}

#[test]
fn an_organisation_inside_the_repository_is_read_from_the_base_too() {
    let world = World::with_harness();
    world.write("repo/.fullsend/config.yaml", "org: rules\n");
    world.write("repo/rules/config.yaml", "security: {fail_mode: closed}\n");
    world.write(
        "repo/.fullsend/harness/triage.yaml",
        format!("{HARNESS}security: {{fail_mode: open}}\n").replace("policy: policies/p.yaml\n", ""),
    );
    git(&world, &["init", "-q"]);
    git(&world, &["add", "-A"]);
    git(&world, &["commit", "-qm", "base"]);
    world.write("repo/rules/config.yaml", "runtime: claude\n");
    git(&world, &["add", "-A"]);
    git(&world, &["commit", "-qm", "the head takes the pin away"]);
    let ran = world.run(&["check", "triage", "--config-ref", "HEAD~1"]);
    assert_eq!(ran.code, 3, "{}", ran.all());
    assert!(ran.err.contains("[pinned]"), "{}", ran.all());
}

/// Every command that reads the layer stops, and says what to name.
fn asks_for_a_commit(world: &World, event: &str) {
    for command in [&["check"][..], &["explain", "triage"], &["run", "triage"], &["list"]] {
        let ran = world.run(command);
        assert_eq!((ran.code, ran.out.as_str()), (4, ""), "{event} {command:?}: {}", ran.all());
        assert!(ran.err.contains("--config-ref"), "{}", ran.all());
    }
}

#[test]
fn without_a_base_the_ci_must_name_a_commit() {
    let (world, base) = pull_request();
    let head = git(&world, &["rev-parse", "HEAD"]);
    let world = world.env("GITHUB_ACTIONS", "true");
    asks_for_a_commit(&world, "none");
    insta::assert_snapshot!("config-ref-no-base", world.run(&["check"]).all());
    // What a pull request brings is in GITHUB_SHA for these.
    let mut world = world.env("GITHUB_SHA", &head);
    for event in ["pull_request", "pull_request_review", "pull_request_review_comment", "merge_group", "new"]
    {
        world = world.env("GITHUB_EVENT_NAME", event);
        asks_for_a_commit(&world, event);
    }
    // The workflow comes from GITHUB_SHA, whatever was checked out since.
    for event in ["issue_comment", "workflow_run", "push", "schedule"] {
        world = world.env("GITHUB_EVENT_NAME", event).env("GITHUB_SHA", &base);
        assert_eq!(model(&world, &[]), "base", "{event}");
        world = world.env("GITHUB_SHA", "main");
        asks_for_a_commit(&world, event);
    }
    let as_they_are = world.run(&["list", "--config-ref", "worktree"]).out;
    assert!(as_they_are.contains("added"), "said so, it is done so");
    let mut world = world.without("GITHUB_ACTIONS").env("GITLAB_CI", "true").env("CI_COMMIT_SHA", &head);
    for source in ["merge_request_event", "external_pull_request_event", "parent_pipeline"] {
        world = world.env("CI_PIPELINE_SOURCE", source);
        asks_for_a_commit(&world, source);
    }
    let world = world.env("CI_PIPELINE_SOURCE", "push").env("CI_OPEN_MERGE_REQUESTS", "acme/widgets!1");
    asks_for_a_commit(&world, "a branch with a merge request");
    let world = world.without("CI_OPEN_MERGE_REQUESTS").env("CI_COMMIT_SHA", &base);
    assert_eq!(model(&world, &[]), "base");
    held(AttackRow::PullRequestRules, Who::Caller);
}

/// Whoever opens a pull request chooses the name of its branch.
#[test]
fn a_branch_or_a_tag_with_the_name_of_the_base_is_not_the_base() {
    let (world, base) = pull_request();
    for evil in [
        "refs/heads/origin/main",
        "refs/tags/origin/main",
        "refs/origin/main",
        "refs/heads/refs/remotes/origin/main",
        "refs/tags/refs/remotes/origin/main",
        "refs/heads/HEAD",
        "refs/tags/stable",
    ] {
        git(&world, &["update-ref", evil, "HEAD"]);
    }
    git(&world, &["update-ref", "refs/heads/stable", &base]);
    let world = world.env("GITHUB_ACTIONS", "true").env("GITHUB_BASE_REF", "main");
    assert_eq!(model(&world, &[]), "base");
    assert_eq!(model(&world, &["--config-ref", "refs/heads/stable"]), "base");
    assert_eq!(model(&world, &["--config-ref", "refs/remotes/origin/main"]), "base");
    assert_eq!(model(&world, &["--config-ref", "HEAD~1"]), "base");
    for reference in ["origin/main", "stable", "stable~0"] {
        let ran = world.run(&["check", "--config-ref", reference]);
        assert_eq!(ran.code, 4, "{reference}: {}", ran.all());
        assert!(ran.err.contains("is ambiguous"), "{}", ran.all());
    }
    insta::assert_snapshot!("config-ref-ambiguous", world.run(&["check", "--config-ref", "stable"]).all());
    let abbreviation = &base[..8];
    assert_eq!(model(&world, &["--config-ref", abbreviation]), "base");
    git(&world, &["update-ref", &format!("refs/heads/{abbreviation}"), "HEAD"]);
    assert_eq!(world.run(&["check", "--config-ref", abbreviation]).code, 4);
    // Without the base, nothing else takes its place.
    git(&world, &["update-ref", "-d", "refs/remotes/origin/main"]);
    assert_eq!(world.run(&["check"]).code, 4);
    assert_eq!(world.run(&["check", "--config-ref", "refs/remotes/origin/main"]).code, 4);
    // The remote's HEAD is no branch of that name.
    git(&world, &["update-ref", "refs/remotes/origin/HEAD", "HEAD"]);
    let mut world = world;
    for name in ["HEAD", "main^{commit}", "main:x", "@{-1}", "a..b"] {
        world = world.env("GITHUB_BASE_REF", name);
        let ran = world.run(&["list"]);
        assert_eq!(ran.code, 4, "{name}: {}", ran.all());
    }
}

#[test]
fn a_replaced_commit_is_not_the_base() {
    let (world, base) = pull_request();
    git(&world, &["replace", &base, "HEAD"]);
    let world = world.env("GITHUB_ACTIONS", "true").env("GITHUB_BASE_REF", "main");
    assert_eq!(model(&world, &[]), "base");
}

#[test]
fn a_directory_of_the_repository_stands_for_it() {
    let (world, _) = pull_request();
    world.write("repo/sub/deep/file", "");
    assert!(world.run(&["list", "--repo", "sub/deep"]).out.contains("added"));
    let world = world.env("GITHUB_ACTIONS", "true").env("GITHUB_BASE_REF", "main");
    assert_eq!(model(&world, &["--repo", "sub/deep"]), "base");
    // A layer of its own, which the pull request adds, does not count.
    world.write("repo/sub/.fullsend/harness/triage.yaml", "agent: agents/evil.md\nmodel: evil\n");
    git(&world, &["add", "-A"]);
    git(&world, &["commit", "-qm", "a layer below"]);
    assert_eq!(model(&world, &["--repo", "sub/deep"]), "base");
    assert_eq!(model(&world, &["--repo", "sub"]), "base");
    // One that the base has does.
    git(&world, &["update-ref", "refs/remotes/origin/main", "HEAD"]);
    world.write("repo/sub/.fullsend/harness/triage.yaml", "agent: agents/evil.md\nmodel: worse\n");
    let explained = world.run(&["explain", "triage", "model", "--repo", "sub/deep"]);
    assert!(explained.out.contains("evil") && !explained.out.contains("worse"), "{}", explained.all());
    assert!(explained.out.contains("refs/remotes/origin/main:sub/.fullsend/harness"), "{}", explained.all());
}
