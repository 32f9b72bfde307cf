//! Workers that report themselves: who is listed, for how long, and that nobody who waits is woken by it.

use std::time::Duration;

use super::{Place, over_stores};
use crate::fixture::Clock;
use session::{Sessions, StoredWorker, Timestamp, WaitFor, WorkerDescription};

over_stores!(
    a_worker_is_listed_until_it_ends,
    a_silent_worker_is_forgotten,
    a_long_description_is_shortened,
    a_heartbeat_wakes_nobody,
);

const HOUR_MS: i64 = 3_600_000;

fn worker(name: &str, seen_ms: i64) -> StoredWorker {
    let description = WorkerDescription {
        host: "build-7".to_owned(),
        repositories: vec!["example.com/acme/".to_owned()],
        agent: Some("triage".to_owned()),
        labels: vec!["gpu".to_owned()],
        concurrency: 4,
    };
    StoredWorker {
        name: name.to_owned(),
        description,
        started_ms: Timestamp(10 * HOUR_MS),
        seen_ms: Timestamp(seen_ms),
    }
}

fn names(sessions: &mut Sessions) -> Vec<String> {
    sessions.workers().unwrap().into_iter().map(|worker| worker.name).collect()
}

fn a_worker_is_listed_until_it_ends(place: &Place, sessions: &mut Sessions, _: &mut Clock) {
    assert_eq!(sessions.workers().unwrap(), []);
    sessions.remove_worker("one").unwrap();
    let now = 10 * HOUR_MS;
    sessions.report_worker(&worker("one", now)).unwrap();
    place.open().report_worker(&worker("two", now + 1)).unwrap();
    sessions.report_worker(&worker("one", now + 2)).unwrap();
    assert_eq!(place.open().workers().unwrap(), [worker("one", now + 2), worker("two", now + 1)]);
    sessions.remove_worker("one").unwrap();
    assert_eq!(names(&mut place.open()), ["two"]);
}

fn a_silent_worker_is_forgotten(_: &Place, sessions: &mut Sessions, _: &mut Clock) {
    let now = 10 * HOUR_MS;
    sessions.report_worker(&worker("gone", now)).unwrap();
    sessions.report_worker(&worker("here", now + HOUR_MS)).unwrap();
    assert_eq!(names(sessions), ["here", "gone"]);
    sessions.report_worker(&worker("here", now + HOUR_MS + 1)).unwrap();
    assert_eq!(names(sessions), ["here"]);
}

fn a_long_description_is_shortened(_: &Place, sessions: &mut Sessions, _: &mut Clock) {
    let mut long = worker("one", 0);
    long.description.host = "\u{e4}".repeat(1_000);
    long.description.labels = vec!["label".to_owned(); 1_000];
    sessions.report_worker(&long).unwrap();
    let stored = &sessions.workers().unwrap()[0].description;
    assert_eq!((stored.host.chars().count(), stored.labels.len()), (100, 50));
}

fn a_heartbeat_wakes_nobody(place: &Place, sessions: &mut Sessions, _: &mut Clock) {
    // A wait may return early: the first has nothing to compare with. A heartbeat must not end all of them.
    let mut is_woken = || {
        place.open().report_worker(&worker("one", 1)).unwrap();
        place.open().remove_worker("one").unwrap();
        sessions.wait(WaitFor::Due, Duration::from_millis(100)).unwrap()
    };
    assert!((0..5).any(|_| !is_woken()));
}
