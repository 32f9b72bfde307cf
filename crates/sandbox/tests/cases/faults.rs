//! Faults of the machine: a full disk below a view, a huge number of files, a file system that hangs.

use crate::runner::{Case, skip};
use crate::world::{Who, World, shell};
use sandbox::{CopyOnWrite, Mount, MountKind};
use std::process::Command;
use std::time::{Duration, Instant};

pub(crate) const CASES: &[Case] = &[
    Case { name: "a_disk_that_is_full_below_a_view_is_an_error_inside_only", run: full_disk },
    Case { name: "many_files_are_bounded_and_removed", run: many_files },
    Case { name: "a_hung_file_system_holds_nobody_for_ever", run: hung },
];

fn full_disk(world: &World) {
    if world.who == Who::User {
        skip("a full disk below a view: only root can make a small file system");
        return;
    }
    // In a namespace of its own, so that the small disk goes with it.
    let status = Command::new("unshare")
        .args(["--mount", "--propagation", "private"])
        .arg(std::env::current_exe().unwrap())
        .arg("--full-disk")
        .arg(&world.directory)
        .status()
        .unwrap();
    assert!(status.success());
}

/// The part of `full_disk` in its own namespace.
pub(crate) fn live_on_full_disk(directory: &std::path::Path) {
    use rustix::mount::MountFlags;
    let small = directory.join("small");
    std::fs::create_dir(&small).unwrap();
    rustix::mount::mount("small", &small, "tmpfs", MountFlags::empty(), Some(c"size=2m")).unwrap();
    std::fs::create_dir(directory.join("lower")).unwrap();
    std::fs::write(directory.join("lower/file"), vec![b'x'; 1 << 20]).unwrap();
    let mut spec = World::spec_in(small.join("state"));
    let view = CopyOnWrite { source: directory.join("lower"), edits: Vec::new(), memory_bytes: 1 << 20 };
    spec.mounts.push(Mount { target: "/view".into(), kind: MountKind::CopyOnWrite(view) });
    let sandbox = sandbox::Sandbox::start(spec).unwrap_or_else(|e| panic!("{e}"));
    let said = shell(&sandbox, "cd /view; head -c 4000000 /dev/zero > big; echo more >> file; echo alive");
    assert!(said.stderr.contains("No space left"), "{said:?}");
    assert_eq!(said.stdout, "alive\n");
    sandbox.close().unwrap();
    assert!(!small.join("state").exists());
    assert_eq!(std::fs::read(directory.join("lower/file")).unwrap().len(), 1 << 20);
}

fn many_files(world: &World) {
    let mut spec = world.spec();
    let few = MountKind::Temporary { size_bytes: 1 << 20, inodes: 100, mode: 0o755 };
    spec.mounts.push(Mount { target: "/few".into(), kind: few });
    let source = world.make_directory("lower");
    let view = CopyOnWrite { source, edits: Vec::new(), memory_bytes: 64 << 20 };
    spec.mounts.push(Mount { target: "/view".into(), kind: MountKind::CopyOnWrite(view) });
    let state = spec.state_directory.clone();
    let sandbox = world.start(spec);
    let said = shell(&sandbox, "cd /few; for i in $(seq 200); do touch $i || break; done; ls | wc -l");
    assert!(said.stderr.contains("No space left"), "{said:?}");
    assert!(said.stdout.trim().parse::<u32>().unwrap() < 100, "{said:?}");
    // A million takes minutes on a small machine; what matters is that all of them go.
    let script = "cd /view; for d in $(seq 20); do mkdir $d; (cd $d; seq 1000 | xargs touch); done; find . -type f | wc -l";
    assert_eq!(shell(&sandbox, script).stdout, "20000\n");
    let begun = Instant::now();
    sandbox.close().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert!(!state.exists());
}

fn hung(world: &World) {
    if world.who == Who::User {
        skip("a hung file system: only root can mount one here");
        return;
    }
    if std::fs::File::open("/dev/fuse").is_err() {
        skip("a hung file system: no /dev/fuse on this machine");
        return;
    }
    let status = Command::new("unshare")
        .args(["--mount", "--propagation", "private"])
        .arg(std::env::current_exe().unwrap())
        .arg("--stuck")
        .arg(&world.directory)
        .status()
        .unwrap();
    assert!(status.success());
}
