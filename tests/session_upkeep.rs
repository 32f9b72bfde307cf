//! `fullsend session` for those who look after a store: schedules, lists, short ids, removal, stores that cannot be written.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value as Json;

use crate::session_commands::{create, events, show};
use crate::support::World;

#[test]
fn a_wake_is_queued_and_cancelled() {
    let world = World::with_harness();
    let id = create(&world);
    let ran = world.run(&["session", "wake", &id, "--in", "2h", "--reason", "look again", "--key", "look"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.starts_with("wake ") && ran.out.contains(" at 20"), "{}", ran.out);
    let again = world.run(&["session", "wake", &id, "--in", "9h", "--key", "look"]);
    assert_eq!(again.out, ran.out, "one wake per key");
    let cron = world.run(&["session", "wake", &id, "--cron", "0 9 * * 1", "--json"]);
    assert_eq!(cron.code, 0, "{}", cron.err);
    assert_eq!(world.run(&["session", "wake", &id, "--at", "2090-01-31T09:00:00Z"]).code, 0);
    let shown = show(&world, &id);
    let wakes = shown["wakes"].as_array().unwrap();
    assert_eq!(wakes.len(), 3);
    assert_eq!(
        (&wakes[1]["cron"], &wakes[2]["due_ms"]),
        (&Json::from("0 9 * * 1"), &Json::from(3_789_536_400_000_u64))
    );
    assert_eq!(shown["status"], "rescheduling");
    for wake in wakes {
        let name = wake["id"].as_str().unwrap();
        assert_eq!(world.run(&["session", "wake", &id, "--cancel", name]).out, "cancelled\n");
    }
    assert_eq!(show(&world, &id)["status"], "idle");
    for (bad, why) in [
        (&["--in", "soon"][..], "not a length of time"),
        (&["--at", "tomorrow"], "not a time"),
        (&["--cron", "every monday"], "is not valid or never occurs"),
        (&["--cancel", "look"], "no queued wake has this id or key"),
    ] {
        let refused = world.run(&[&["session", "wake", &id], bad].concat());
        assert_eq!(refused.code, 2, "{bad:?}");
        assert!(refused.err.contains(why), "{bad:?}: {}", refused.err);
    }
}

#[test]
fn a_short_id_names_a_session() {
    let world = World::with_harness();
    let id = create(&world);
    let other = create(&world);
    let short = &id[id.len() - 8..];
    assert_eq!(world.run(&["session", "send", short, "hello"]).code, 0);
    assert_eq!(events(&world, &id).len(), 1);
    let unknown = world.run(&["session", "show", "ffffffffff"]);
    assert_eq!(unknown.code, 4);
    assert!(unknown.err.contains("there is no session ffffffffff"), "{}", unknown.err);
    let both = id.chars().zip(other.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a).collect::<String>();
    let unclear = world.run(&["session", "show", &both[..6]]);
    assert_eq!(unclear.code, 2);
    assert!(unclear.err.contains("more than one session id"), "{}", unclear.err);
}

#[test]
fn lists_are_filtered_and_paged() {
    let world = World::with_harness();
    let ids: Vec<String> = (0..3).map(|_| create(&world)).collect();
    assert_eq!(world.run(&["session", "send", &ids[1], "hello"]).code, 0);
    let listed = |more: &[&str]| -> Vec<String> {
        let ran = world.run(&[&["session", "list", "--json"], more].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
        let id = |line: &str| serde_json::from_str::<Json>(line).unwrap()["id"].as_str().unwrap().to_owned();
        ran.out.lines().map(id).collect()
    };
    assert_eq!(listed(&["--status", "rescheduling"]), [ids[1].clone()]);
    assert_eq!(listed(&["--status", "idle"]), [ids[0].clone(), ids[2].clone()]);
    assert_eq!(listed(&["--status", "idle", "--after", &ids[0]]), [ids[2].clone()]);
    assert_eq!(listed(&["--repository", "example.com/other"]), [""; 0]);
    let page = world.run(&["session", "list", "--limit", "2"]);
    assert!(page.err.contains(&format!("--after {}", ids[1])), "{}", page.err);
    assert_eq!(world.run(&["session", "list", "--status", "busy"]).code, 2);
}

#[test]
fn sessions_leave_the_store() {
    let world = World::with_harness();
    let ids: Vec<String> = (0..3).map(|_| create(&world)).collect();
    for id in &ids {
        assert_eq!(world.run(&["session", "send", id, "hello"]).code, 0);
    }
    let refused = world.run(&["session", "rm", &ids[0]]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("only a terminated session can be removed"), "{}", refused.err);
    assert_eq!(world.run(&["session", "rm", &ids[0], "--force"]).code, 0);
    assert_eq!(world.run(&["session", "show", &ids[0]]).code, 4);
    let bundle = world.path("bundle");
    let bundle = bundle.to_str().unwrap();
    assert_eq!(world.run(&["session", "archive", &ids[1]]).code, 2, "an archive needs a file");
    assert_eq!(world.run(&["session", "archive", &ids[1], "--output", bundle]).code, 0);
    assert_eq!(world.run(&["session", "show", &ids[1]]).code, 4);
    assert_eq!(world.run(&["session", "import", bundle]).code, 0);
    assert_eq!(show(&world, &ids[1])["pending"], 1, "the archive has the message");
    assert_eq!(world.run(&["session", "terminate", &ids[2]]).code, 0);
    assert_eq!(world.run(&["session", "prune", "--older-than", "1d"]).out, "");
    let dry = world.run(&["session", "prune", "--older-than", "0s", "--dry-run"]);
    assert_eq!(dry.out, format!("would remove {}\n", ids[2]));
    assert_eq!(world.run(&["session", "prune", "--older-than", "0s"]).out, format!("removed {}\n", ids[2]));
    assert_eq!(world.run(&["session", "list", "--json"]).out.lines().count(), 1);
    assert_eq!(world.run(&["session", "prune", "--older-than", "old"]).code, 2);
}

/// A store that its reader cannot write: the file alone, or its directory too.
#[test]
fn a_store_that_cannot_be_written_is_read() {
    let world = World::with_harness();
    // Nothing is read-only for root.
    let world = world.by_user();
    let Some(world) = world else { return };
    let id = create(&world);
    assert_eq!(world.run(&["session", "send", &id, "hello"]).code, 0);
    let directory = world.path("state/fullsend");
    let file = directory.join("sessions.db");
    for (file_mode, directory_mode) in [(0o444, 0o755), (0o644, 0o555), (0o444, 0o555)] {
        let set = |path: &std::path::Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        set(&file, file_mode);
        set(&directory, directory_mode);
        let what = format!("{file_mode:o} in {directory_mode:o}");
        assert_eq!(events(&world, &id).len(), 1, "{what}");
        assert_eq!(world.run(&["session", "list", "--json"]).out.lines().count(), 1, "{what}");
        assert_eq!(world.run(&["session", "export", &id]).code, 0, "{what}");
        let refused = world.run(&["session", "send", &id, "more"]);
        assert_eq!(refused.code, 4, "{what}");
        assert!(refused.err.contains("it is read-only"), "{what}: {}", refused.err);
        set(&directory, 0o755);
        set(&file, 0o600);
    }
    assert_eq!(world.run(&["session", "send", &id, "more"]).code, 0);
}

#[test]
fn a_store_is_migrated_by_its_own_command() {
    let world = World::with_harness();
    let ran = world.run(&["store", "migrate", "--store", "../new.db"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, "the session store is up to date\n"));
    assert_eq!(world.run(&["session", "list", "--store", "../new.db", "--json"]).code, 0);
}
