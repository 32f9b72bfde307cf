//! The owner dies at every step, and a step fails at every step: what is left is counted by looking at the machine, not by
//! asking the sandbox.

use crate::runner::Case;
use crate::victim::{self, READY};
use crate::world::World;
use sandbox::{FailAction, Failpoint, Sandbox, StartError, Step, pause_name, sweep};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) const CASES: &[Case] = &[
    Case { name: "a_step_that_fails_leaves_nothing", run: failing_steps },
    Case { name: "an_owner_killed_at_any_step_leaves_nothing", run: killed_at_each_step },
    Case { name: "an_owner_killed_while_running_leaves_nothing", run: killed_while_running },
];

/// What a sandbox could leave behind on the machine.
#[derive(Debug, PartialEq, Eq)]
struct Traces {
    processes: BTreeSet<u32>,
    mounts: String,
    cgroups: BTreeSet<PathBuf>,
}

impl Traces {
    /// Processes of this binary or of this test's directory, all mounts of the host, all cgroups of our name.
    fn look(directory: &Path) -> Self {
        let marks = [directory.to_string_lossy().into_owned(), "__init".to_owned(), "86400".to_owned()];
        let mut processes = BTreeSet::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
            let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let mounts = std::fs::read_to_string(entry.path().join("mountinfo")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command);
            let ours = marks.iter().any(|mark| command.contains(mark.as_str())) || mounts.contains(&marks[0]);
            if ours && is_of_this_user(&entry.path()) {
                processes.insert(pid);
            }
        }
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        Self { processes, mounts, cgroups: cgroups() }
    }
}

/// Other tests of this machine run sandboxes too.
fn is_of_this_user(process: &Path) -> bool {
    let metadata = std::fs::metadata(process);
    let uid = metadata.map(|metadata| std::os::unix::fs::MetadataExt::uid(&metadata)).unwrap_or(0);
    rustix::process::geteuid().is_root() || uid == rustix::process::geteuid().as_raw()
}

fn cgroups() -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for hierarchy in std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten() {
        for group in std::fs::read_dir(hierarchy.path()).into_iter().flatten().flatten() {
            if group.file_name().to_string_lossy().starts_with("fullsend-") {
                found.insert(group.path());
            }
        }
    }
    found
}

fn failing_steps(world: &World) {
    for step in Step::ALL {
        let mut spec = victim::full_spec(&world.directory);
        std::fs::create_dir_all(world.directory.join("states")).unwrap();
        spec.failpoint = Some(Failpoint { step, action: FailAction::Fail });
        let before = Traces::look(&world.directory);
        match Sandbox::start(spec) {
            Err(StartError::Step { step: found, .. }) => assert_eq!(found, step),
            other => panic!("{step}: {other:?}"),
        }
        assert_eq!(Traces::look(&world.directory), before, "{step}");
        assert!(!world.directory.join("states/victim").exists(), "{step}");
    }
}

fn spawn_victim(world: &World, step: &str) -> Child {
    std::fs::create_dir_all(world.directory.join("states")).unwrap();
    Command::new("/proc/self/exe")
        .arg("--victim")
        .arg(&world.directory)
        .arg(step)
        .stdin(Stdio::null())
        .spawn()
        .unwrap()
}

/// Kills the owner and waits until the machine looks as before; directories and cgroups may wait for the sweep.
fn kill_and_look(world: &World, mut victim: Child, before: &Traces, step: &str) {
    victim.kill().unwrap();
    victim.wait().unwrap();
    let killed = Instant::now();
    loop {
        let now = Traces::look(&world.directory);
        if now.processes == before.processes && now.mounts == before.mounts {
            break;
        }
        assert!(killed.elapsed() < Duration::from_secs(1), "{step}: {now:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    let swept = sweep(&world.directory.join("states")).unwrap();
    assert!(swept.failed.is_empty() && swept.alive.is_empty(), "{step}: {swept:?}");
    assert_eq!(&Traces::look(&world.directory), before, "{step}");
    assert!(!world.directory.join("states/victim").exists(), "{step}");
}

fn killed_at_each_step(world: &World) {
    for step in Step::ALL {
        let before = Traces::look(&world.directory);
        let victim = spawn_victim(world, step.name());
        wait_for(step.name(), || is_paused(victim.id(), &pause_name(step)));
        kill_and_look(world, victim, &before, step.name());
    }
}

fn killed_while_running(world: &World) {
    for _ in 0..5 {
        let before = Traces::look(&world.directory);
        let victim = spawn_victim(world, "running");
        wait_for("running", || world.directory.join(READY).exists());
        kill_and_look(world, victim, &before, "running");
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
