//! Workers: what is due runs once, however many there are and however they end.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::stage::{EVERY_WAKE, FOREVER, Stage, finish, shell, sleeps, wait_for, when};
use crate::cluster::{self, Cluster, Durability};
use crate::support::skip;

/// How often each input was consumed by a wake.
fn consumed(events: &[Json]) -> BTreeMap<u64, usize> {
    let mut counts = BTreeMap::new();
    for range in events.iter().flat_map(|event| event["span"]["consumed"].as_array().into_iter().flatten()) {
        for seq in range[0].as_u64().unwrap()..=range[1].as_u64().unwrap() {
            *counts.entry(seq).or_default() += 1;
        }
    }
    counts
}

#[test]
pub fn one_worker_with_two_hands_drains_what_is_due() {
    let stage = Stage::new(&[when(EVERY_WAKE, json!([finish(sleeps("Done."))]))]);
    let ids: Vec<String> = (0..5).map(|number| stage.told(&format!("number {number}"))).collect();
    let once = stage.world.run(&["worker", "--once", "--json"]);
    assert_eq!((once.code, once.out.lines().count()), (0, 1), "{}", once.err);
    let ran = stage.world.run(&["worker", "--drain", "--concurrency", "2", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(ran.out.lines().count(), 4, "{}{}", ran.out, ran.err);
    for id in &ids {
        assert_eq!(stage.of_type(id, "agent.message").len(), 1);
        assert_eq!(stage.show(id)["status"], "idle");
    }
    assert_eq!(stage.world.run(&["worker", "--drain", "--json"]).out, "", "nothing is left");
}

/// A worker is killed in the middle of a run; another takes the wake over, with the same name and the same inputs.
fn a_worker_is_killed(runtime: &str) {
    let story = [when(EVERY_WAKE, json!([shell(FOREVER), finish(sleeps("Never."))]))];
    let Some(stage) = Stage::of(&[runtime], &story) else { return };
    let id = stage.told("survive this");
    // Long enough for a busy machine to renew it, short enough to wait for its end.
    let mut child = stage.world.spawn(&["worker", "--watch", "--lease-seconds", "5"]);
    stage.wait_for(&id, FOREVER);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(stage.show(&id)["pending"], 1, "nothing was consumed before the commit");
    stage.scenario(&[when(EVERY_WAKE, json!([finish(sleeps("Survived."))]))]);
    wait_for(|| {
        let ran = stage.world.run(&["worker", "--once", "--json"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        (!ran.out.is_empty()).then_some(())
    });
    let events = stage.events(&id);
    let said: Vec<_> = stage.of_type(&id, "agent.message");
    assert_eq!((said.len(), &said[0]["message"]), (1, &json!("Survived.")), "{}", stage.log(&id));
    assert_eq!(consumed(&events), BTreeMap::from([(1, 1)]));
    let starts: Vec<&Json> =
        events.iter().filter(|event| event["type"] == "span.started" && event["name"] == "wake").collect();
    assert_eq!(starts.len(), 2);
    assert_eq!(starts[0]["span_id"], starts[1]["span_id"], "scripts see the same wake");
    assert_eq!((&starts[0]["span"]["token"], &starts[1]["span"]["token"]), (&json!(1), &json!(2)));
    assert_eq!(stage.of_type(&id, "session.error")[0]["class"], "lost", "and the log says what happened");
    assert_eq!(stage.show(&id)["status"], "idle");
}

#[test]
pub fn a_worker_that_is_killed_loses_nothing_and_repeats_nothing_in_the_log() {
    a_worker_is_killed("native");
}

#[test]
pub fn a_worker_that_is_killed_over_claude() {
    a_worker_is_killed("claude");
}

#[test]
pub fn a_worker_that_is_killed_over_codex() {
    a_worker_is_killed("codex");
}

/// A worker that watches runs what comes, at once, and ends in order.
#[test]
pub fn a_worker_watches_and_ends_when_asked() {
    let stage = Stage::new(&[when(EVERY_WAKE, json!([finish(sleeps("Done."))]))]);
    let mut child = stage.world.spawn(&["worker", "--watch"]);
    let id = stage.told("hello");
    stage.wait_for(&id, "\"session.status_idle\"");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

fn server(test: &str) -> Option<&'static Cluster> {
    match cluster::shared() {
        Ok(cluster) => Some(cluster),
        Err(why) => {
            skip(&format!("wakes {test}"), why);
            None
        }
    }
}

/// The server dies in the middle of a run and comes back before the lease ends: the run goes on and is committed.
#[test]
pub fn a_server_that_goes_away_and_comes_back_costs_no_work() {
    let mut cluster = match Cluster::start(Durability::Memory) {
        Ok(cluster) => cluster,
        Err(why) => return skip("wakes a_server_that_goes_away", &why),
    };
    let mut stage = Stage::new(&[when(EVERY_WAKE, json!([shell("sleep 4.875"), finish(sleeps("Done."))]))]);
    stage.world = stage.world.env("FULLSEND_SESSION_STORE", &cluster.database());
    let id = stage.told("go");
    let mut worker = stage.world.spawn(&["worker", "--once"]);
    stage.wait_for(&id, "sleep 4.875");
    cluster.crash();
    cluster.start_again();
    assert!(worker.wait().unwrap().success());
    let events = stage.events(&id);
    assert_eq!(stage.of_type(&id, "agent.message").len(), 1, "{}", stage.log(&id));
    assert_eq!(consumed(&events), BTreeMap::from([(1, 1)]));
    let starts = events.iter().filter(|event| event["name"] == "wake").count();
    assert_eq!(starts, 1, "the work was done once");
}

fn two_workers_share(runtime: &str, count: usize) {
    let Some(cluster) = server("two_workers_on_a_server") else { return };
    let story = [when(EVERY_WAKE, json!([finish(sleeps("Done."))]))];
    let Some(mut stage) = Stage::of(&[runtime], &story) else { return };
    stage.world = stage.world.env("FULLSEND_SESSION_STORE", &cluster.database());
    let ids: Vec<String> = (0..count).map(|number| stage.told(&format!("number {number}"))).collect();
    let workers: Vec<_> = (0..2)
        .map(|number| {
            stage
                .world
                .spawn_to(&["worker", "--drain", "--concurrency", "2", "--json"], &format!("worker-{number}"))
        })
        .collect();
    for worker in workers {
        assert!(worker.wait_with_output().unwrap().status.success());
    }
    let lines: String = (0..2)
        .map(|number| std::fs::read_to_string(stage.world.path(&format!("worker-{number}"))).unwrap())
        .collect();
    let mut ran: Vec<String> = lines
        .lines()
        .map(|line| serde_json::from_str::<Json>(line).unwrap()["session"].as_str().unwrap().to_owned())
        .collect();
    ran.sort();
    let mut expected = ids.clone();
    expected.sort();
    assert_eq!(ran, expected, "each once");
    for id in &ids {
        assert_eq!(stage.of_type(id, "agent.message").len(), 1);
        assert_eq!(consumed(&stage.events(id)), BTreeMap::from([(1, 1)]));
    }
    // And on to an embedded store, for a machine without the server.
    let bundle = stage.world.path("bundle");
    let bundle = bundle.to_str().unwrap();
    assert_eq!(stage.world.run(&["session", "export", &ids[0], "-o", bundle]).code, 0);
    assert_eq!(stage.world.run(&["session", "import", bundle, "--store", "../embedded.db"]).code, 0);
    let there = stage.world.run(&["session", "events", &ids[0], "--store", "../embedded.db"]).out;
    assert_eq!(there, stage.log(&ids[0]));
}

#[test]
pub fn two_workers_on_a_server_share_the_work() {
    two_workers_share("native", 8);
}

#[test]
pub fn two_workers_on_a_server_share_the_work_of_claude() {
    two_workers_share("claude", 3);
}

#[test]
pub fn two_workers_on_a_server_share_the_work_of_codex() {
    two_workers_share("codex", 3);
}
