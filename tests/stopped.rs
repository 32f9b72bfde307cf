//! A run that is asked to end: by a person, by the system, twice, or by its own clock. It ends cleanly, keeps its
//! output as `partial`, and never runs its post-script.

use std::fs;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value as Json;

use crate::support::{World, wait_for};

/// A world whose agent writes half a result and then sleeps.
fn sleeping_agent(seconds: &str, more: &str) -> World {
    let command = format!("echo half > /sandbox/workspace/output/notes.txt; sleep {seconds}");
    let scenario = format!(r#"{{"turns":[[{{"shell":"{command}"}}]]}}"#);
    let world = World::scripted(&format!("post_script: scripts/post.sh\n{more}"), scenario);
    world.script("repo/.fullsend/scripts/post.sh", "#!/bin/sh\ntouch \"$TARGET_REPO_DIR/posted\"\n");
    world
}

fn run_directory(world: &World) -> Option<PathBuf> {
    Some(fs::read_dir(world.path("state/fullsend/runs/local")).ok()?.flatten().next()?.path())
}

/// Waits until the run's log says `text`.
fn said(world: &World, text: &str) -> PathBuf {
    wait_for(|| {
        let directory = run_directory(world)?;
        fs::read_to_string(directory.join("events.jsonl")).ok()?.contains(text).then_some(directory)
    })
}

/// As a terminal does it: to the program and everything in its group.
fn signal(child: &Child, signal: Signal) {
    let group = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process_group(group, signal).unwrap();
}

fn record(directory: &std::path::Path) -> Json {
    serde_json::from_slice(&fs::read(directory.join("run.json")).unwrap()).unwrap()
}

fn ends_in_order(with: Signal, code: i32, seconds: &str) {
    let world = sleeping_agent(seconds, "");
    let mut child = world.spawn(&["run", "triage"]);
    let directory = said(&world, &format!("sleep {seconds}"));
    wait_for(|| is_running(seconds).then_some(()));
    signal(&child, with);
    assert_eq!(child.wait().unwrap().code(), Some(code));
    let record = record(&directory);
    assert_eq!(record["outcome"], "interrupted");
    assert_eq!(record["exit_code"], code);
    assert_eq!(record["attempts"][0]["ending"], "interrupted");
    assert_eq!(fs::read_to_string(directory.join("iteration-1/partial/notes.txt")).unwrap(), "half\n");
    let transcript = directory.join("iteration-1/transcripts/conversation.json");
    assert!(
        fs::read_to_string(transcript).unwrap().contains(&format!("sleep {seconds}")),
        "its words are kept"
    );
    assert!(!directory.join("iteration-1/output").exists() && !world.path("repo/posted").exists());
    assert!(!directory.join("sandboxes").exists() && !is_running(seconds), "nothing is left");
    assert_eq!(world.run(&["sweep"]).out, "", "there is nothing to sweep");
}

fn is_running(seconds: &str) -> bool {
    let wanted = format!("sleep\0{seconds}\0");
    let line = |entry: fs::DirEntry| fs::read(entry.path().join("cmdline"));
    fs::read_dir("/proc").unwrap().flatten().any(|entry| line(entry).is_ok_and(|l| l == wanted.as_bytes()))
}

#[test]
fn an_interrupted_run_ends_in_order() {
    ends_in_order(Signal::INT, 130, "876.501");
}

#[test]
fn a_terminated_run_ends_in_order() {
    ends_in_order(Signal::TERM, 143, "876.502");
}

#[test]
fn the_second_signal_takes_the_grace_away() {
    let world = sleeping_agent("876.503", "pre_script: scripts/pre.sh\n");
    world
        .script("repo/.fullsend/scripts/pre.sh", "#!/bin/sh\ntrap '' TERM INT\ntouch begun\nsleep 876.504\n");
    let mut child = world.spawn(&["run", "triage"]);
    wait_for(|| world.path("repo/begun").exists().then_some(()));
    let started = Instant::now();
    signal(&child, Signal::INT);
    std::thread::sleep(Duration::from_millis(300));
    signal(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(started.elapsed() < Duration::from_millis(4800), "the grace of five seconds was not waited for");
    let directory = run_directory(&world).unwrap();
    assert_eq!(record(&directory)["outcome"], "interrupted");
    assert!(!is_running("876.504"));
}

#[test]
fn a_run_is_cancelled_from_another_terminal() {
    let world = sleeping_agent("101", "").env("USER", "alice");
    let mut running = world.spawn(&["run", "triage", "--quiet"]);
    let directory = said(&world, "sleep 101");
    let id = directory.file_name().unwrap().to_string_lossy().into_owned();
    let cancelled = world.run(&["runs", "cancel"]);
    assert_eq!((cancelled.code, cancelled.err), (0, format!("cancelled {id}\n")), "{}", cancelled.out);
    assert!(!running.wait().unwrap().success());
    assert_eq!(record(&directory)["outcome"], "interrupted");
    let log = fs::read_to_string(directory.join("events.jsonl")).unwrap();
    assert!(log.contains(r#""by":"alice""#), "{log}");
    let again = world.run(&["runs", "cancel", &id]);
    assert_eq!(again.code, 1, "{}", again.all());
    assert!(again.err.contains(&format!("cannot cancel the run {id}: it has ended")), "{}", again.err);
}
