//! A worker without a repository: it fetches the repository of each session.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::stage::{EVERY_WAKE, Stage, as_user, finish, shell, sleeps, when};
use crate::remote::server::Site;
use crate::support::World;

pub fn git(directory: &Path, words: &[&str]) {
    let status = Command::new("git")
        .args(["-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "safe.directory=*"])
        .args(words)
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .status()
        .unwrap();
    assert!(status.success(), "git {words:?}");
}

/// Commits the repository with this marker, and publishes it under a name.
fn publish(stage: &Stage, repositories: &Path, name: &str, marker: &str) {
    stage.world.write("repo/marker.txt", marker);
    let repository = stage.world.path("repo");
    git(&repository, &["add", "--all"]);
    git(&repository, &["commit", "--quiet", "--message", marker]);
    let bare = repositories.join(format!("{name}.git"));
    let bare = bare.to_str().unwrap();
    if !Path::new(bare).exists() {
        git(repositories, &["init", "--quiet", "--bare", "--initial-branch=main", bare]);
    }
    git(&repository, &["push", "--quiet", "--force", bare, "HEAD:refs/heads/main"]);
}

/// A store that all workers share, and an agent that remembers the marker of its checkout.
fn stage_of_fleet(site: &Site) -> Stage {
    let copies = shell("cp marker.txt /sandbox/workspace/session/marker.md");
    let mut stage = Stage::new(&[when(EVERY_WAKE, json!([copies, finish(sleeps("Done."))]))]);
    let world = std::mem::replace(&mut stage.world, World::new());
    world.write("ca.pem", &site.certificate);
    let store = world.path("shared.db");
    let roots = world.path("ca.pem");
    stage.world = world
        .env("FULLSEND_SESSION_STORE", store.to_str().unwrap())
        .env("SSL_CERT_FILE", roots.to_str().unwrap());
    stage
}

fn one_worker_serves_many_repositories() {
    let repositories = tempfile::tempdir().unwrap();
    let site = Site::start(repositories.path());
    let mut stage = stage_of_fleet(&site);
    let world = std::mem::replace(&mut stage.world, World::new());
    stage.world = world.env("FLEET_TOKEN", "a-token-of-the-fleet");
    let repository = stage.world.path("repo");
    git(&repository, &["init", "--quiet"]);
    git(&repository, &["remote", "add", "origin", "https://example.com/elsewhere.git"]);
    let elsewhere = stage.told("hello");
    let mut sessions = Vec::new();
    for name in ["one", "two"] {
        git(&repository, &["remote", "set-url", "origin", &site.url(&format!("git/{name}.git"))]);
        publish(&stage, repositories.path(), name, name);
        sessions.push(stage.told("hello"));
    }
    // The directory in which the worker starts says nothing.
    std::fs::rename(repository.join(".fullsend"), stage.world.path("kept")).unwrap();
    let address = site.url("git");
    let worker = ["worker", "--drain", "--json", "--checkout", &address, "--checkout-token", "FLEET_TOKEN"];
    let ran = stage.world.run(&worker);
    assert_eq!((ran.code, ran.out.lines().count()), (0, 2), "{}{}", ran.out, ran.err);
    assert_eq!(site.authorization().as_deref(), Some("Basic b2F1dGgyOmEtdG9rZW4tb2YtdGhlLWZsZWV0"));
    assert_eq!(stage.memory(&sessions[0], "marker.md").as_deref(), Some("one"));
    assert_eq!(stage.memory(&sessions[1], "marker.md").as_deref(), Some("two"));
    assert_eq!(stage.show(&elsewhere)["pending"], 1, "a repository that the worker does not serve");

    std::fs::rename(stage.world.path("kept"), repository.join(".fullsend")).unwrap();
    publish(&stage, repositories.path(), "one", "one, changed");
    stage.send(&sessions[0], "again");
    let ran = stage.world.run(&worker);
    assert_eq!((ran.code, ran.out.lines().count()), (0, 1), "{}{}", ran.out, ran.err);
    assert_eq!(stage.memory(&sessions[0], "marker.md").as_deref(), Some("one, changed"));

    site.close();
    stage.send(&sessions[0], "once more");
    let ran = stage.world.run(&worker);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{}", ran.err);
    let said = format!("cannot run session {} here: cannot check out {address}/one.git", sessions[0]);
    assert!(ran.err.contains(&said), "{}", ran.err);
    assert!(!ran.err.contains("a-token-of-the-fleet"), "{}", ran.err);
    assert_eq!(stage.show(&sessions[0])["pending"], 1, "nothing is consumed while the server is away");
}

#[test]
fn a_worker_fetches_the_repositories_of_its_sessions() {
    one_worker_serves_many_repositories();
    as_user(one_worker_serves_many_repositories);
}

/// A session on another branch gets its files, and the harness of the default branch.
#[test]
fn a_session_works_on_its_branch_with_the_harness_of_the_default_branch() {
    let repositories = tempfile::tempdir().unwrap();
    let site = Site::start(repositories.path());
    let stage = stage_of_fleet(&site);
    let repository = stage.world.path("repo");
    git(&repository, &["init", "--quiet"]);
    git(&repository, &["remote", "add", "origin", &site.url("git/one.git")]);
    publish(&stage, repositories.path(), "one", "main");
    let create = |reference: &str, id: &str| {
        let created =
            stage.world.run(&["session", "create", "--agent", "helper", "--ref", reference, "--id", id]);
        if created.code == 0 {
            stage.send(id, "hello");
        }
        created
    };
    let branch = "01890000-0000-7000-8000-000000000001";
    let missing = "01890000-0000-7000-8000-000000000002";
    let pinned = "01890000-0000-7000-8000-000000000003";
    assert_eq!(create("fix/marker", branch).code, 0);
    assert_eq!(create("no-such-branch", missing).code, 0);
    for wrong in ["--upload-pack=x", "a..b", "refs/heads/*", "a b", "x.lock", "@{1}"] {
        let created = create(wrong, "01890000-0000-7000-8000-000000000009");
        assert_ne!(created.code, 0, "{wrong}");
    }
    let head = Command::new("git").args(["rev-parse", "HEAD"]).current_dir(&repository).output().unwrap();
    let main = String::from_utf8(head.stdout).unwrap();
    assert_eq!(create(main.trim(), pinned).code, 0);
    // The branch changes the file, and would run another agent.
    let agent = stage.world.path("repo/.fullsend/harness/helper.yaml");
    std::fs::write(&agent, "agent: does-not-exist\n").unwrap();
    stage.world.write("repo/marker.txt", "of the branch");
    git(&repository, &["add", "--all"]);
    git(&repository, &["commit", "--quiet", "--message", "branch"]);
    let bare = repositories.path().join("one.git");
    git(&repository, &["push", "--quiet", bare.to_str().unwrap(), "HEAD:refs/heads/fix/marker"]);

    let here = stage.world.run(&["session", "run", branch]);
    assert!(here.code != 0 && here.err.contains("only a worker with --checkout"), "{}", here.all());
    let ran = stage.world.run(&["worker", "--drain", "--json", "--checkout", &site.url("git")]);
    assert_eq!((ran.code, ran.out.lines().count()), (0, 2), "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("has no branch or tag `no-such-branch`"), "{}", ran.err);
    assert_eq!(stage.memory(branch, "marker.md").as_deref(), Some("of the branch"));
    assert_eq!(stage.memory(pinned, "marker.md").as_deref(), Some("main"));
    assert_eq!(stage.show(missing)["pending"], 1, "its message waits");
    assert_eq!(stage.show(branch)["ref"], "fix/marker");
}

#[test]
fn a_fleet_needs_a_shared_store_and_a_token_that_is_set() {
    let world = World::new();
    let ran = world.run(&["worker", "--drain", "--checkout", "https://github.com/acme"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("--checkout needs a store that the repositories share"), "{}", ran.err);
    let store = world.path("shared.db");
    let store = store.to_str().unwrap();
    let unset = ["worker", "--drain", "--store", store, "--checkout", "https://github.com/acme"];
    let ran = world.run(&[&unset[..], &["--checkout-token", "UNSET_TOKEN"]].concat());
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(ran.err.contains("UNSET_TOKEN is not set"), "{}", ran.err);
    let two = ["--checkout", "https://git.example.com/acme", "--checkout-token", "PATH"];
    let ran = world.run(&[&unset[..], &two].concat());
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("--checkout-token is for one server"), "{}", ran.err);
    let ran = world.run(&["worker", "--checkout", "http://git.example.com/acme"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("plain HTTP is only accepted for localhost"), "{}", ran.err);
}
