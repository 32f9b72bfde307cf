//! Which machine runs a wake: the one that serves its labels, and the next one as well as the last, because nothing stays on
//! the disk of the worker.

use std::path::Path;

use serde_json::{Value as Json, json};

use super::checkouts::git;
use super::stage::{EVERY_WAKE, Stage, finish, shell, sleeps, when};
use crate::remote::server::Site;

/// Another machine has the repository and the store, and nothing else of the first one.
pub fn move_to_another_machine(stage: &mut Stage, name: &str) {
    let state = stage.world.path("state");
    std::fs::rename(&state, stage.world.path(&format!("state-of-{name}"))).unwrap();
    std::fs::create_dir(state).unwrap();
    let home = stage.world.path(&format!("home-after-{name}"));
    std::fs::create_dir(&home).unwrap();
    let world = std::mem::replace(&mut stage.world, crate::support::World::new());
    stage.world = world.env("HOME", home.to_str().unwrap());
}

fn attachments(bundle: &str) -> Vec<String> {
    let records = bundle.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
    let attached = records.filter(|record| record["record"] == "attachment");
    attached.map(|record| record["attachment"]["name"].as_str().unwrap().to_owned()).collect()
}

/// Three wakes' worth of a session, on three machines that share a store. Returns the last machine and the session.
pub fn goes_on_elsewhere(variables: &[(&str, &str)]) -> (Stage, String) {
    let mut stage = Stage::new(&[
        when("the second message", json!([finish(sleeps("Two."))])),
        when(
            EVERY_WAKE,
            json!([
                shell("env > /sandbox/workspace/session/environment.md"),
                shell("echo kept > /sandbox/workspace/session/notes.md"),
                finish(sleeps("One."))
            ]),
        ),
    ]);
    let world = std::mem::replace(&mut stage.world, crate::support::World::new());
    let shared = world.path("shared.db");
    stage.world = world.env("FULLSEND_SESSION_STORE", shared.to_str().unwrap());
    for (name, value) in variables {
        let world = std::mem::replace(&mut stage.world, crate::support::World::new());
        stage.world = world.env(name, value);
    }
    let id = stage.told("the first message");
    stage.wakes(&id, 0);
    move_to_another_machine(&mut stage, "one");
    stage.send(&id, "the second message");
    stage.wakes(&id, 0);
    let said = stage.of_type(&id, "agent.message");
    assert_eq!(said.last().unwrap()["message"], "Two.", "{}", stage.log(&id));
    assert_eq!(stage.memory(&id, "notes.md").as_deref(), Some("kept\n"));
    let transcript = stage.last_transcript();
    assert!(transcript.contains("the first message"), "{transcript}");
    assert!(!transcript.contains("The conversation so far"), "the conversation is resumed: {transcript}");
    move_to_another_machine(&mut stage, "two");
    let exported = attachments(&stage.world.run(&["session", "export", &id]).out);
    assert!(exported.len() >= 2, "the transcripts of both runs: {exported:?}");
    let fetched = stage.world.run(&["session", "fetch", &id]);
    assert_eq!((fetched.code, fetched.out.lines().count()), (0, 2), "{}", fetched.err);
    for directory in fetched.out.lines() {
        let run = Path::new(directory).file_name().unwrap().to_str().unwrap().to_owned();
        let shown = stage.world.run(&["runs", "show", &run]);
        assert_eq!(shown.code, 0, "{}{}", shown.out, shown.err);
    }
    let unknown = stage.world.run(&["session", "fetch", &id, "018f"]);
    assert_eq!(unknown.code, 4);
    assert!(unknown.err.contains("the store has no bundle of run 018f"), "{}", unknown.err);
    (stage, id)
}

#[test]
fn the_next_wake_runs_on_another_machine_with_nothing_missing() {
    goes_on_elsewhere(&[]);
}

#[test]
fn objects_are_in_a_directory_that_machines_share() {
    let shared = tempfile::tempdir().unwrap();
    let (stage, id) = goes_on_elsewhere(&[("FULLSEND_SESSION_OBJECTS", shared.path().to_str().unwrap())]);
    let files = std::fs::read_dir(shared.path().join(&id)).unwrap().count();
    assert_eq!(files, 3, "two bundles and a conversation");
    let removed = stage.world.run(&["session", "rm", "--force", &id]);
    assert_eq!(removed.code, 0, "{}", removed.err);
    assert!(!shared.path().join(id).exists());
}

/// A session with labels runs where all of them are served, and nowhere else.
#[test]
fn a_worker_runs_sessions_whose_labels_it_serves() {
    let stage = Stage::new(&[when(EVERY_WAKE, json!([finish(sleeps("Done."))]))]);
    let id = stage.create(&["--label", "large", "--label", "gpu"]);
    stage.send(&id, "hello");
    for labels in [&[][..], &["--label", "gpu"]] {
        let ran = stage.world.run(&[&["worker", "--drain", "--json"], labels].concat());
        assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{labels:?}: {}", ran.err);
    }
    let shown = stage.show(&id);
    assert_eq!((&shown["pending"], &shown["labels"]), (&json!(1), &json!(["gpu", "large"])));
    let both = ["worker", "--drain", "--json", "--label", "gpu", "--label", "large", "--label", "other"];
    let ran = stage.world.run(&both);
    assert_eq!((ran.code, ran.out.lines().count()), (0, 1), "{}", ran.err);
    assert_eq!(stage.show(&id)["status"], "idle");
}

/// A session starts another one, which works and reports back.
#[test]
fn a_session_starts_another_and_gets_its_result() {
    let spawns = json!({
        "response": "I asked for help.", "summary": "Waiting.", "outcome": "sleep",
        "spawn": [{ "title": "a part", "message": "do a part of it" }],
    });
    let stage = Stage::new(&[
        when("which you started, ended: The part is done.", json!([finish(sleeps("All is done."))])),
        when("do a part of it", json!([finish(sleeps("The part is done."))])),
        when(EVERY_WAKE, json!([finish(spawns)])),
    ]);
    let id = stage.told("do it");
    let ran = stage.world.run(&["worker", "--drain", "--json"]);
    assert_eq!((ran.code, ran.out.lines().count()), (0, 3), "{}{}", ran.out, ran.err);
    let shown = stage.show(&id);
    assert_eq!(shown["status"], "idle");
    let child = shown["children"][0]["id"].as_str().unwrap();
    assert_eq!(stage.show(child)["parent"]["session"], id.as_str());
    let said: Vec<Json> =
        stage.of_type(&id, "agent.message").iter().map(|event| event["message"].clone()).collect();
    assert_eq!(said, ["I asked for help.", "All is done."]);
}

/// A resource by URL is on every machine. It is fetched by its commit, under the harness's prefixes.
#[test]
fn a_resource_of_a_commit_is_on_every_machine() {
    let repositories = tempfile::tempdir().unwrap();
    let site = Site::start(repositories.path());
    let guide = repositories.path().join("guide");
    std::fs::create_dir_all(guide.join("text")).unwrap();
    std::fs::write(guide.join("text/one.md"), "the guide\n").unwrap();
    git(&guide, &["init", "--quiet"]);
    git(&guide, &["add", "--all"]);
    git(&guide, &["commit", "--quiet", "--message", "text"]);
    let commit = std::fs::read_to_string(guide.join(".git/refs/heads/master"))
        .or_else(|_| std::fs::read_to_string(guide.join(".git/refs/heads/main")))
        .unwrap();
    let copies = shell("cp /sandbox/workspace/resources/guide/one.md /sandbox/workspace/session/copy.md");
    let mut stage = Stage::new(&[when(EVERY_WAKE, json!([copies, finish(sleeps("Done."))]))]);
    let world = std::mem::replace(&mut stage.world, crate::support::World::new());
    stage.world = site.allow(world);
    let source = format!("git+{}@{}//text", site.url("git/guide"), commit.trim());
    let id = stage.create(&["--resource", &format!("{source}:guide")]);
    stage.send(&id, "copy it");
    stage.wakes(&id, 0);
    assert_eq!(stage.memory(&id, "copy.md").as_deref(), Some("the guide\n"));

    let elsewhere = "git+https://example.com/guide@";
    let id = stage.create(&["--resource", &format!("{elsewhere}{}:guide", commit.trim())]);
    stage.send(&id, "copy it");
    let ran = stage.world.run(&["worker", "--drain"]);
    let said = "no prefix in the harness's `allowed_remote_resources` covers it";
    assert!(ran.err.contains(said), "{}", ran.err);
    assert_eq!(stage.show(&id)["pending"], 1);

    for (resource, why) in [
        (format!("{source}:guide:rw"), "a resource from a URL cannot be written"),
        ("https://example.com/a.md:a".to_owned(), "must have the digest"),
        ("git+https://example.com/a:a".to_owned(), "must be `git+https://HOST/REPOSITORY@COMMIT//PATH`"),
    ] {
        let ran = stage.world.run(&["session", "create", "--agent", "helper", "--resource", &resource]);
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(ran.err.contains(why), "{}", ran.err);
    }
}
