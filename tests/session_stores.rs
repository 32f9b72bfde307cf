//! Where sessions are stored: one default store per repository, found from everywhere, and the store that all repositories
//! shared in earlier versions.

use std::path::Path;

use serde_json::Value as Json;

use crate::session_commands::{create, events, show};
use crate::support::World;

const WIDGETS: &str = "state/fullsend/stores/acme/widgets/sessions.db";

/// A repository of `acme` with a remote.
fn with_remote() -> World {
    let world = World::with_harness();
    world.write("repo/.git/config", "[remote \"origin\"]\n\turl = https://example.com/acme/widgets.git\n");
    world
}

fn ids(world: &World, more: &[&str]) -> Vec<String> {
    let ran = world.run(&[&["session", "list", "--json"], more].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let id = |line: &str| serde_json::from_str::<Json>(line).unwrap()["id"].as_str().unwrap().to_owned();
    ran.out.lines().map(id).collect()
}

#[test]
fn a_repository_has_a_store_of_its_own() {
    let world = with_remote();
    let id = create(&world);
    assert!(world.path(WIDGETS).is_file());
    assert!(!world.path("state/fullsend/sessions.db").exists());
    let shown = show(&world, &id);
    assert_eq!(shown["repository"], "example.com/acme/widgets");
    assert_eq!(shown["organisation"], "acme");
    assert_eq!(shown["harness"].as_str().map(str::len), Some(64), "{shown}");
    world.write(
        "repo/.fullsend/harness/triage.yaml",
        "agent: agents/triage.md\nruntime: native\nproviders: [model]\n",
    );
    let again = world.run(&["session", "create", "--agent", "triage", "--id", &id]);
    assert_eq!(again.code, 0, "the harness may change after a session was created: {}", again.err);
    assert_ne!(show(&world, &create(&world))["harness"], shown["harness"]);
}

#[test]
fn a_session_is_found_from_another_repository() {
    let world = with_remote();
    let id = create(&world);
    world.write("repo/.git/config", "[remote \"origin\"]\n\turl = https://example.com/acme/gadgets.git\n");
    assert_eq!(ids(&world, &[]), [""; 0], "the list is of this repository");
    assert_eq!(world.run(&["session", "send", &id, "hello"]).code, 0);
    assert_eq!(world.run(&["session", "send", &id[id.len() - 8..], "hello again"]).code, 0);
    assert_eq!(events(&world, &id).len(), 2);
    let refused = world.run(&["session", "run", &id]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("belongs to repository `example.com/acme/widgets`"), "{}", refused.err);
    let unknown = world.run(&["session", "show", "018bcfe5-6800-7000-8000-00000000000a"]);
    assert_eq!(unknown.code, 4);
    assert!(unknown.err.contains("there is no session"), "{}", unknown.err);
}

#[test]
fn sessions_of_the_shared_store_are_moved() {
    let world = with_remote();
    let shared = world.path("state/fullsend/sessions.db");
    let shared = shared.to_str().unwrap();
    let store = ["--store", shared];
    let make = |world: &World| {
        let ran = world.run(&[&["session", "create", "--agent", "triage"], &store[..]].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
        serde_json::from_str::<Json>(&ran.out).unwrap()["id"].as_str().unwrap().to_owned()
    };
    let moved = make(&world);
    for message in ["one", "two"] {
        assert_eq!(world.run(&["session", "send", &moved, message, "--store", shared]).code, 0);
    }
    let before = world.run(&["session", "events", &moved, "--store", shared]).out;
    std::fs::remove_file(world.path("repo/.git/config")).unwrap();
    std::fs::remove_dir(world.path("repo/.git")).unwrap();
    let of_nobody = make(&world);
    let world = {
        world.write("repo/.git/config", "[remote \"origin\"]\n\turl = git@example.com:acme/widgets.git\n");
        world
    };
    assert!(!Path::new(&world.path(WIDGETS)).exists());
    assert_eq!(ids(&world, &[]), std::slice::from_ref(&moved));
    assert_eq!(world.run(&["session", "events", &moved]).out, before, "the log is the same");
    assert_eq!(show(&world, &moved)["pending"], 2);
    assert_eq!(ids(&world, &store), std::slice::from_ref(&of_nobody), "it is only there");
    assert_eq!(show(&world, &of_nobody)["id"], of_nobody.as_str(), "and the rest is still found");
    assert_eq!(world.run(&["session", "send", &moved, "three"]).code, 0);
    assert_eq!(events(&world, &moved).len(), 3);
}
