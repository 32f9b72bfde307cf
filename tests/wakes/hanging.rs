//! A worker whose connection to the store hangs: its run ends before another worker starts the same wake, and the process ends
//! when it is asked to.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::json;

use super::stage::{EVERY_WAKE, Stage, finish, shell, sleeps, wait_for, when};
use crate::cluster;
use crate::proxy::{Proxy, Traffic};
use crate::support::skip;

/// Whether a process with these words in its command line runs anywhere on this machine.
fn runs(words: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.into_iter().any(|line| String::from_utf8_lossy(&line).replace('\0', " ").contains(words))
}

#[test]
pub fn a_run_ends_before_its_wake_runs_elsewhere_while_the_store_hangs() {
    let cluster = match cluster::shared() {
        Ok(cluster) => cluster,
        Err(why) => return skip("wakes a_run_ends_before_its_wake_runs_elsewhere", why),
    };
    let database = cluster.database();
    let proxy = Proxy::start(cluster.directory());
    let forever = "sleep 300.4375";
    let mut stage = Stage::new(&[when(EVERY_WAKE, json!([shell(forever), finish(sleeps("Never."))]))]);
    stage.world = stage.world.env("FULLSEND_SESSION_STORE", &database);
    let id = stage.told("go");
    let url = proxy.url(&database);
    let mut hanging = stage.world.spawn(&["worker", "--watch", "--lease-seconds", "6", "--store", &url]);
    stage.wait_for(&id, forever);
    wait_for(|| runs(forever).then_some(()));
    stage.scenario(&[when(EVERY_WAKE, json!([finish(sleeps("Done."))]))]);
    proxy.set(Traffic::Stalls);
    let starts = || stage.events(&id).iter().filter(|event| event["name"] == "wake").count();
    let before = starts();
    let mut other = stage.world.spawn(&["worker", "--watch", "--lease-seconds", "6"]);
    wait_for(|| (starts() > before).then_some(()));
    assert!(!runs(forever), "two agents ran one wake side by side");
    stage.wait_for(&id, "\"agent.message\"");
    let asked = Instant::now();
    let pid = rustix::process::Pid::from_child(&hanging);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    hanging.wait().unwrap();
    assert!(asked.elapsed() < Duration::from_secs(30), "it took {:?} to end", asked.elapsed());
    other.kill().unwrap();
    other.wait().unwrap();
    let shown = stage.show(&id);
    assert_eq!((&shown["status"], &shown["pending"]), (&json!("idle"), &json!(0)));
    assert_eq!(stage.of_type(&id, "agent.message").len(), 1);
    assert!(shown["usage"]["turns"].as_u64().unwrap() >= 2, "the lost attempt counts: {shown}");
}
