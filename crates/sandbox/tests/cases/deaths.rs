//! The owner dies at every step, and a step fails at every step: what is left is counted by looking at the machine, not by
//! asking the sandbox.

use crate::runner::Case;
use crate::victim::{self, READY};
use crate::world::World;
use sandbox::{Defences, FailAction, Sandbox, StartError, StartStep, pause_name, sweep};
use std::collections::BTreeSet;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

pub(crate) const CASES: &[Case] = &[
    Case { name: "a_step_that_fails_leaves_nothing", run: failing_steps },
    Case { name: "an_owner_killed_at_any_step_leaves_nothing", run: killed_at_each_step },
    Case { name: "an_owner_killed_while_running_leaves_nothing", run: killed_while_running },
];

/// What a sandbox of one owner could leave behind on the machine. Others run sandboxes here too, so each trace is
/// identified: processes by descent, mounts by the test's directory, cgroups by the owner's pid in their name and by
/// their age, because pids are reused.
#[derive(Debug, PartialEq, Eq)]
struct Traces {
    mounts: Vec<String>,
    cgroups: BTreeSet<PathBuf>,
    state: bool,
}

impl Traces {
    const NONE: Self = Self { mounts: Vec::new(), cgroups: BTreeSet::new(), state: false };

    fn look(directory: &Path, owner: u32) -> Self {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mark = directory.to_string_lossy();
        let mounts = mounts.lines().filter(|line| line.contains(&*mark)).map(str::to_owned).collect();
        let since = directory.metadata().and_then(|about| about.created()).unwrap_or(SystemTime::UNIX_EPOCH);
        Self { mounts, cgroups: cgroups(owner, since), state: directory.join("states/victim").exists() }
    }
}

fn cgroups(owner: u32, since: SystemTime) -> BTreeSet<PathBuf> {
    let is_newer = |group: &DirEntry| {
        group.metadata().and_then(|about| about.modified()).is_ok_and(|made| made >= since)
    };
    let prefix = format!("fullsend-{owner}-");
    let mut found = BTreeSet::new();
    let mut open = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(directory) = open.pop() {
        for group in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            if group.file_name().to_string_lossy().starts_with(&prefix) && is_newer(&group) {
                found.insert(group.path());
            } else if group.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(group.path());
            }
        }
    }
    found
}

/// All processes that descend from `pid`, each with the time of its start, so that a reused pid does not match.
fn descendants(pid: u32) -> BTreeSet<(u32, String)> {
    let mut found = BTreeSet::new();
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace().map(|child| child.parse::<u32>().unwrap()) {
            found.extend(started(child).map(|start| (child, start)));
            found.extend(descendants(child));
        }
    }
    found
}

/// When the process started; one that is dead and only waits to be reaped by the machine is gone.
fn started(pid: u32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit(')').next()?.split_whitespace();
    let is_alive = fields.next().is_some_and(|state| !["Z", "X"].contains(&state));
    fields.nth(18).filter(|_| is_alive).map(str::to_owned)
}

fn failing_steps(world: &World) {
    let owner = std::process::id();
    let processes = descendants(owner);
    for step in StartStep::ALL {
        let mut spec = victim::full_spec(&world.directory);
        std::fs::create_dir_all(world.directory.join("states")).unwrap();
        spec.defences = Defences::failing(step, FailAction::Fail);
        match Sandbox::start(spec) {
            Err(StartError::Step { step: found, .. }) => assert_eq!(found, step),
            other => panic!("{step}: {other:?}"),
        }
        assert_eq!(Traces::look(&world.directory, owner), Traces::NONE, "{step}");
        assert_eq!(descendants(owner), processes, "{step}");
    }
}

/// Killed whatever happens to the test.
struct Victim(Child);

impl Drop for Victim {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn spawn_victim(world: &World, step: &str) -> Victim {
    std::fs::create_dir_all(world.directory.join("states")).unwrap();
    let mut command = Command::new("/proc/self/exe");
    command.arg("--victim").arg(&world.directory).arg(step).stdin(Stdio::null());
    Victim(command.spawn().unwrap())
}

/// Kills the owner and waits until its processes are gone; directories and cgroups may wait for the sweep.
fn kill_and_look(world: &World, victim: Victim, step: &str) {
    let owner = victim.0.id();
    let mut processes = descendants(owner);
    drop(victim);
    let killed = Instant::now();
    loop {
        processes.retain(|(pid, start)| started(*pid).as_ref() == Some(start));
        if processes.is_empty() {
            break;
        }
        assert!(killed.elapsed() < Duration::from_secs(1), "{step}: {processes:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(Traces::look(&world.directory, owner).mounts.is_empty(), "{step}");
    let swept = sweep(&world.directory.join("states")).unwrap();
    assert!(swept.failed.is_empty() && swept.alive.is_empty(), "{step}: {swept:?}");
    assert_eq!(Traces::look(&world.directory, owner), Traces::NONE, "{step}");
}

fn killed_at_each_step(world: &World) {
    let rounds = rounds();
    for step in StartStep::ALL.into_iter().cycle().take(StartStep::ALL.len() * rounds) {
        let victim = spawn_victim(world, step.name());
        wait_for(step.name(), || is_paused(victim.0.id(), &pause_name(step)));
        kill_and_look(world, victim, step.name());
    }
    println!("{:<6} {:<4} {} owners killed, nothing left", "", world.who, StartStep::ALL.len() * rounds);
}

/// `--rounds=N` on the command line; once through all steps without it.
fn rounds() -> usize {
    let given = std::env::args().find_map(|argument| argument.strip_prefix("--rounds=")?.parse().ok());
    given.unwrap_or(1)
}

fn killed_while_running(world: &World) {
    for _ in 0..5 {
        let victim = spawn_victim(world, "running");
        // PID 1, a shell and its two sleeping children.
        let is_running = || world.directory.join(READY).exists() && descendants(victim.0.id()).len() >= 4;
        wait_for("running", is_running);
        kill_and_look(world, victim, "running");
        std::fs::remove_file(world.directory.join(READY)).unwrap();
    }
}

fn wait_for(what: &str, mut arrived: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !arrived() {
        assert!(begun.elapsed() < Duration::from_secs(10), "{what} was never reached");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether a thread of the process, or of one of its children, has the name.
fn is_paused(pid: u32, name: &str) -> bool {
    let tasks: Vec<PathBuf> = std::fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|task| task.path())
        .collect();
    tasks.iter().any(|task| {
        let comm = std::fs::read_to_string(task.join("comm")).unwrap_or_default();
        let children = std::fs::read_to_string(task.join("children")).unwrap_or_default();
        comm.trim() == name
            || children.split_whitespace().any(|child| is_paused(child.parse().unwrap(), name))
    })
}
