//! `fullsend session` on a store: what each command prints, what it refuses, and that a log survives moving between stores.
//! Nothing runs here; wakes have their own tests.

use std::fs;

use serde_json::Value as Json;

use crate::support::{Ran, World};

/// A session of the harness `triage`.
pub fn create(world: &World) -> String {
    let ran = world.run(&["session", "create", "--agent", "triage"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let line: Json = serde_json::from_str(&ran.out).unwrap();
    line["id"].as_str().unwrap().to_owned()
}

/// The log, one event a line.
pub fn events(world: &World, id: &str) -> Vec<Json> {
    let ran = world.run(&["session", "events", id]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub fn show(world: &World, id: &str) -> Json {
    let ran = world.run(&["session", "show", id, "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    serde_json::from_str(&ran.out).unwrap()
}

/// Ids and times are another every time.
fn settled(ran: &Ran, id: &str) -> String {
    let other = "018bcfe5-6800-7000-8000-00000000000a";
    ran.all().replace(id, "SESSION").replace(other, "OTHER")
}

#[test]
fn sent_messages_are_logged_once_and_in_order() {
    let world = World::with_harness();
    let id = create(&world);
    assert_eq!(world.run(&["session", "send", &id, "one"]).code, 0);
    let keyed = ["session", "send", &id, "two", "--key", "delivery-7", "--json"];
    let first = world.run(&keyed);
    let again = world.run(&keyed);
    assert_eq!((first.code, &first.out), (0, &again.out), "the same key is the same event");
    assert_eq!(world.run(&["session", "send", &id, "other words", "--key", "delivery-7"]).code, 2);
    let outcome =
        ["session", "send", &id, "in detail", "--outcome", "All green", "--criterion", "tests pass"];
    assert_eq!(world.run(&outcome).code, 0);
    let log = events(&world, &id);
    let seen: Vec<(u64, &str)> =
        log.iter().map(|event| (event["seq"].as_u64().unwrap(), event["type"].as_str().unwrap())).collect();
    assert_eq!(seen, [(1, "user.message"), (2, "user.message"), (3, "user.define_outcome")]);
    assert_eq!(log[2]["success_criteria"][0], "tests pass");
    let shown = show(&world, &id);
    assert_eq!((&shown["status"], &shown["pending"]), (&Json::from("rescheduling"), &Json::from(3)));
    let tail = world.run(&["session", "events", &id, "--from", "3"]).out;
    assert_eq!(tail.lines().count(), 1);
}

#[test]
fn an_interrupt_silences_a_session_that_does_not_run_and_termination_is_final() {
    let world = World::with_harness();
    let id = create(&world);
    assert_eq!(world.run(&["session", "interrupt", &id, "--note", "enough"]).code, 0);
    assert_eq!(show(&world, &id)["stop_reason"], "interrupted");
    for _ in 0..2 {
        assert_eq!(world.run(&["session", "terminate", &id]).code, 0, "ending twice is once");
    }
    let refused = world.run(&["session", "send", &id, "still there?"]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("terminated"), "{}", refused.err);
    let followed = world.run(&["session", "events", &id, "--follow"]);
    assert_eq!(followed.out.lines().count(), 2, "following ends with the session: {}", followed.out);
}

#[test]
fn following_resumes_without_a_gap() {
    let world = World::with_harness();
    let id = create(&world);
    world.run(&["session", "send", &id, "one"]);
    let reader =
        world.spawn_to(&["session", "events", &id, "--from", "1", "--follow", "--timeout", "30"], "seen");
    for text in ["two", "three"] {
        world.run(&["session", "send", &id, text]);
    }
    world.run(&["session", "terminate", &id]);
    let ended = reader.wait_with_output().unwrap();
    assert!(ended.status.success());
    let seen = fs::read_to_string(world.path("seen")).unwrap();
    let numbers: Vec<u64> = seen
        .lines()
        .map(|line| serde_json::from_str::<Json>(line).unwrap()["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
}

#[test]
fn a_bundle_carries_a_session_to_another_store_and_a_changed_one_changes_nothing() {
    let world = World::with_harness();
    let id = create(&world);
    world.run(&["session", "send", &id, "remember me"]);
    let bundle = world.path("bundle");
    let bundle = bundle.to_str().unwrap();
    assert_eq!(world.run(&["session", "export", &id, "--output", bundle]).code, 0);
    let there = world.run(&["session", "import", bundle, "--store", "../other.db", "--json"]);
    assert_eq!(there.code, 0, "{}", there.err);
    let log = world.run(&["session", "events", &id, "--store", "../other.db"]).out;
    assert_eq!(log, world.run(&["session", "events", &id]).out, "the same log");
    assert_eq!(world.run(&["session", "import", bundle, "--store", "../other.db"]).code, 2, "it is there");
    let changed = fs::read_to_string(bundle).unwrap().replace("remember me", "remember us");
    fs::write(bundle, changed).unwrap();
    let refused = world.run(&["session", "import", bundle, "--store", "../third.db"]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("digest"), "{}", refused.err);
    assert_eq!(world.run(&["session", "list", "--store", "../third.db", "--json"]).out, "");
}

#[test]
fn resources_and_environments_are_kept_with_the_session() {
    let world = World::with_harness();
    world.write("repo/docs/a.md", "a");
    world.write("repo/.fullsend/environments/night.yaml", "limits: {pids: 50}\n");
    let ran = world.run(&[
        "session",
        "create",
        "--agent",
        "triage",
        "--environment",
        "night",
        "--resource",
        "docs:docs",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let id: Json = serde_json::from_str(&ran.out).unwrap();
    let shown = show(&world, id["id"].as_str().unwrap());
    assert_eq!(shown["environment"]["id"], "night");
    assert_eq!(shown["environment"]["digest"].as_str().unwrap().len(), 64);
    assert_eq!(shown["resources"][0]["mount"], "/sandbox/workspace/resources/docs");
    assert_eq!(shown["resources"][0]["access"], "read_only");
}

/// Every first mistake, with what a person reads then.
#[test]
fn mistakes_are_explained() {
    let world = World::with_harness();
    let id = create(&world);
    let other = "018bcfe5-6800-7000-8000-00000000000a";
    let long = "x".repeat(300 << 10);
    for (name, arguments) in [
        ("unknown", &["session", "show", other][..]),
        ("no-id", &["session", "show", "triage"]),
        ("empty", &["session", "send", &id, "  "]),
        ("no-request", &["session", "tool-result", &id, other, "{}"]),
        ("not-json", &["session", "tool-result", &id, other, "done"]),
        ("no-confirmation", &["session", "confirm", &id, other, "allow"]),
        ("decision", &["session", "confirm", &id, other, "maybe"]),
        ("no-agent", &["session", "create", "--agent", "traige"]),
        (
            "resource-mount",
            &["session", "create", "--agent", "triage", "--resource", "CODEOWNERS:/etc/passwd"],
        ),
        ("resource-climbs", &["session", "create", "--agent", "triage", "--resource", "CODEOWNERS:../x"]),
        ("resource-source", &["session", "create", "--agent", "triage", "--resource", "nowhere:docs"]),
        ("resource-form", &["session", "create", "--agent", "triage", "--resource", "docs"]),
        ("store-user", &["session", "list", "--store", "postgres://127.0.0.1/db"]),
        ("store-directory", &["session", "list", "--store", "/"]),
        ("bundle", &["session", "import", "CODEOWNERS"]),
        ("bundle-missing", &["session", "import", "nowhere"]),
        ("too-large", &["session", "send", &id, &long]),
        ("none", &["session", "list", "--store", "../empty.db"]),
    ] {
        // A command line holds no more than 128 KiB in one word: long texts come through standard input.
        let ran = if name == "too-large" {
            world.run_with(&["session", "send", &id, "-"], &long)
        } else {
            world.run(arguments)
        };
        insta::assert_snapshot!(format!("session-{name}"), settled(&ran, &id));
    }
}
