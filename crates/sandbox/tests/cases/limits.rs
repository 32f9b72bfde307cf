//! Limits: each bomb is stopped, the description names the mechanism correctly, and a sandbox with a too weak limit
//! does not start.

use crate::runner::Case;
use crate::world::{TIMEOUT, World, shell};
use sandbox::{
    Command, CommandExit, CopyOnWrite, IsolationMechanism, Limit, Mount, MountKind, Sandbox, SandboxPart,
    SandboxSpec, StartError, Status, WaitError,
};
use std::path::Path;
use std::time::{Duration, Instant};

pub(crate) const CASES: &[Case] = &[
    Case { name: "a_memory_bomb_is_stopped", run: memory },
    Case { name: "a_fork_bomb_is_stopped", run: processes },
    Case { name: "a_full_disk_is_stopped", run: disk },
    Case { name: "a_fast_writer_does_not_outrun_the_disk_limit", run: fast_disk },
    Case { name: "a_hidden_full_disk_is_stopped", run: hidden_disk },
    Case { name: "a_run_that_takes_too_long_is_stopped", run: wall_clock },
    Case { name: "large_files_and_many_descriptors_are_refused", run: resource_limits },
    Case { name: "what_is_too_weak_does_not_start_unless_accepted", run: floor },
    Case { name: "everything_is_described_once", run: described },
    Case { name: "cgroups_are_gone_after_close", run: cgroups_gone },
];

fn status(sandbox: &Sandbox, limit: Limit) -> Status {
    sandbox.describe().status(SandboxPart::Limit(limit)).unwrap()
}

fn memory(world: &World) {
    let mut spec = world.spec();
    spec.limits.memory_bytes = Some(64 << 20);
    let sandbox = world.start(spec);
    // tail keeps its whole input, because it never sees the end of a line.
    let process = sandbox.exec(Command::new(["tail", "/dev/zero"])).unwrap();
    match (status(&sandbox, Limit::Memory), process.wait(TIMEOUT)) {
        (Status::Enforced, outcome) => assert_eq!(outcome, Ok(CommandExit::Signal(9))),
        (Status::Watched, Err(WaitError::Gone { how })) => assert!(how.contains("memory"), "{how}"),
        other => panic!("{other:?}"),
    }
    assert!(
        sandbox.exceeded().iter().any(|exceeded| exceeded.limit == Limit::Memory),
        "{:?}",
        sandbox.exceeded()
    );
    sandbox.close().unwrap();
}

fn processes(world: &World) {
    let mut spec = world.spec();
    spec.limits.processes = Some(40);
    let sandbox = world.start(spec);
    let output = shell(&sandbox, "for i in $(seq 100); do sleep 100 >/dev/null 2>&1 & done; echo survived");
    assert!(output.stderr.contains("fork"), "{output:?}");
    assert_eq!(status(&sandbox, Limit::Processes), Status::Enforced);
    let begun = Instant::now();
    sandbox.close().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(2));
}

fn with_view(world: &World, disk_bytes: u64) -> SandboxSpec {
    let mut spec = world.spec();
    let view =
        CopyOnWrite { source: world.make_directory("lower"), edits: Vec::new(), memory_bytes: 16 << 20 };
    spec.mounts.push(Mount { target: "/view".into(), kind: MountKind::CopyOnWrite(view) });
    spec.limits.disk_bytes = Some(disk_bytes);
    spec
}

fn fills(world: &World, script: &str) {
    let sandbox = world.start(with_view(world, 8 << 20));
    let in_memory = |fact: &sandbox::Fact| {
        fact.part == SandboxPart::Mechanism(IsolationMechanism::Views) && fact.reason.contains("memory")
    };
    if sandbox.describe().facts.iter().any(in_memory) {
        assert!(shell(&sandbox, script).stderr.contains("No space"));
        return;
    }
    let process = sandbox.exec(Command::new(["sh", "-c", script])).unwrap();
    match process.wait(TIMEOUT) {
        Err(WaitError::Gone { how }) => assert!(how.contains("disk"), "{how}"),
        other => panic!("{other:?}"),
    }
    sandbox.close().unwrap();
}

fn disk(world: &World) {
    fills(world, "head -c 40M /dev/zero >/view/file; sleep 20");
}

/// However fast it is written, a view stays close to its limit.
fn fast_disk(world: &World) {
    let limit = 50 << 20;
    let spec = with_view(world, limit);
    let layers = spec.state_directory.join("layers");
    let sandbox = world.start(spec);
    let script =
        "for i in 1 2 3 4 5 6 7 8; do dd if=/dev/zero of=/view/$i bs=16M count=64 2>/dev/null & done; wait";
    let process = sandbox.exec(Command::new(["/bin/sh", "-c", script])).unwrap();
    match process.wait(TIMEOUT) {
        Err(WaitError::Gone { how }) => assert!(how.contains("disk"), "{how}"),
        other => panic!("{other:?}"),
    }
    let written = bytes_below(&layers);
    assert!(written < 2 * limit, "{written} bytes of {limit}");
    sandbox.close().unwrap();
}

fn bytes_below(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| {
            let about = entry.metadata().unwrap();
            about.blocks() * 512 + if about.is_dir() { bytes_below(&entry.path()) } else { 0 }
        })
        .sum()
}

fn hidden_disk(world: &World) {
    fills(
        world,
        "mkdir /view/d && exec 3>/view/d/file && chmod 0 /view/d && head -c 40M /dev/zero >&3; sleep 20",
    );
}

fn wall_clock(world: &World) {
    let mut spec = world.spec();
    spec.limits.wall_clock = Some(Duration::from_millis(200));
    let sandbox = world.start(spec);
    let begun = Instant::now();
    let process = sandbox.exec(Command::new(["sleep", "60"])).unwrap();
    match process.wait(TIMEOUT) {
        Err(WaitError::Gone { how }) => assert!(how.contains("wall-clock"), "{how}"),
        other => panic!("{other:?}"),
    }
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    sandbox.close().unwrap();
}

fn resource_limits(world: &World) {
    let mut spec = world.spec();
    spec.limits.file_bytes = Some(1 << 20);
    spec.limits.open_files = Some(32);
    let sandbox = world.start(spec);
    assert_eq!(shell(&sandbox, "exec head -c 4M /dev/zero >/tmp/file").exit, CommandExit::Signal(25));
    let output = shell(&sandbox, "ulimit -n; ulimit -n 64; ulimit -c");
    assert!(output.stdout.starts_with("32\n") && output.stdout.ends_with("0\n"), "{output:?}");
    sandbox.close().unwrap();
}

fn floor(world: &World) {
    let weight = |spec: &mut SandboxSpec| spec.limits.cpu_weight = Some(50);
    let mut strict = world.spec();
    weight(&mut strict);
    let state = strict.state_directory.clone();
    match Sandbox::start(strict) {
        Ok(sandbox) => assert_eq!(status(&sandbox, Limit::CpuWeight), Status::Enforced),
        Err(StartError::TooWeak { part, reason }) => {
            assert_eq!(part, SandboxPart::Limit(Limit::CpuWeight));
            assert!(reason.contains("cgroup"), "{reason}");
            assert!(!state.exists());
            let mut accepting = world.spec();
            weight(&mut accepting);
            accepting.accept_weaker.insert(part);
            let sandbox = world.start(accepting);
            assert_eq!(status(&sandbox, Limit::CpuWeight), Status::Absent);
            let mut default = world.spec();
            default.limits.cpu_weight = Some(100);
            assert_eq!(status(&world.start(default), Limit::CpuWeight), Status::Enforced);
        }
        Err(e) => panic!("{e}"),
    }
}

fn described(world: &World) {
    let mut spec = world.spec();
    spec.limits.memory_bytes = Some(1 << 30);
    let sandbox = world.start(spec);
    let facts = &sandbox.describe().facts;
    for fact in facts {
        let same = facts.iter().filter(|other| other.part == fact.part).count();
        assert_eq!(same, 1, "{fact:?}");
        assert!(!fact.reason.is_empty());
    }
    let limits = facts.iter().filter(|fact| matches!(fact.part, SandboxPart::Limit(_))).count();
    assert_eq!(limits, 8);
    sandbox.close().unwrap();
}

fn cgroups_gone(world: &World) {
    let mut spec = world.spec();
    spec.limits.memory_bytes = Some(1 << 30);
    let state = spec.state_directory.clone();
    let sandbox = world.start(spec);
    let noted = std::fs::read_to_string(state.join("cgroups")).unwrap_or_default();
    let made: Vec<&Path> = noted.lines().map(Path::new).filter(|path| path.exists()).collect();
    assert_eq!(made.is_empty(), status(&sandbox, Limit::Memory) != Status::Enforced);
    assert!(shell(&sandbox, "true").exit.success());
    sandbox.close().unwrap();
    assert!(made.iter().all(|path| !path.exists()), "{made:?}");
}
