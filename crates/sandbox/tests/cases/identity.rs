//! Identity: nobody inside is root on the host, and the caller's files are usable inside and stay the caller's.

use crate::runner::Case;
use crate::world::{TIMEOUT, Who, World, shell};
use sandbox::{
    Command, CopyOnWrite, IsolationMechanism, Mount, MountKind, Sandbox, SandboxPart, SandboxSpec,
};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

pub(crate) const CASES: &[Case] = &[
    Case { name: "nobody_inside_is_root_on_the_host", run: not_root },
    Case { name: "private_files_of_the_owner_are_usable_in_a_view", run: private_files },
    Case { name: "what_is_made_in_a_writable_mount_belongs_to_its_owner", run: read_write },
    Case { name: "a_view_of_what_belongs_to_somebody_else_is_writable", run: foreign_view },
    Case { name: "the_identity_inside_is_the_spec_s", run: chosen_identity },
];

fn host_uid_of(pid: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("Uid:")).unwrap();
    let uids: Vec<u32> = line.split_whitespace().skip(1).map(|uid| uid.parse().unwrap()).collect();
    assert!(uids.iter().all(|uid| *uid == uids[0]), "{line}");
    uids[0]
}

fn not_root(world: &World) {
    let sandbox = world.start(world.spec());
    let pid = sandbox.host_pid();
    let process = sandbox.exec(Command::new(["sleep", "60"])).unwrap();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let child: u32 = children.split_whitespace().next().unwrap().parse().unwrap();
    for pid in [pid, child] {
        let uid = host_uid_of(pid);
        match world.who {
            Who::Root => assert!(uid >= 30_000, "{uid}"),
            Who::User => assert_eq!(uid, rustix::process::getuid().as_raw()),
        }
    }
    // Needed to know which program opened a connection.
    assert!(std::fs::read_dir(format!("/proc/{child}/fd")).unwrap().count() >= 3);
    process.signal(9).unwrap();
    process.wait(TIMEOUT).unwrap();
    sandbox.close().unwrap();
}

fn with_view(world: &World, source: PathBuf) -> SandboxSpec {
    let mut spec = world.spec();
    let view = CopyOnWrite { source, edits: Vec::new(), memory_bytes: 64 << 20 };
    spec.mounts.push(Mount { target: "/view".into(), kind: MountKind::CopyOnWrite(view) });
    spec
}

fn how_views_were_made(sandbox: &Sandbox) -> String {
    let facts = &sandbox.describe().facts;
    facts
        .iter()
        .find(|fact| fact.part == SandboxPart::Mechanism(IsolationMechanism::Views))
        .unwrap()
        .reason
        .clone()
}

fn private_files(world: &World) {
    let lower = world.make_directory("lower");
    std::fs::write(lower.join("private"), "mine").unwrap();
    for (path, mode) in [(lower.join("private"), 0o600), (lower.clone(), 0o700)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let sandbox = world.start(with_view(world, lower.clone()));
    let output =
        shell(&sandbox, "cd /view && cat private && echo x >private && test -O private && rm private");
    assert_eq!((output.stdout.as_str(), output.exit.success()), ("mine", true), "{output:?}");
    sandbox.close().unwrap();
    assert_eq!(std::fs::read_to_string(lower.join("private")).unwrap(), "mine");
}

fn read_write(world: &World) {
    let shared = world.make_directory("shared");
    let mut spec = world.spec();
    spec.mounts
        .push(Mount { target: "/shared".into(), kind: MountKind::ReadWrite { source: shared.clone() } });
    let Some(sandbox) = world.start_or_skip(spec) else { return };
    assert!(shell(&sandbox, "echo made >/shared/made").exit.success());
    sandbox.close().unwrap();
    let made = std::fs::metadata(shared.join("made")).unwrap();
    assert_eq!(made.uid(), rustix::process::getuid().as_raw());
}

fn foreign_view(world: &World) {
    let (source, how) = match world.who {
        Who::Root => {
            let source = world.make_directory("foreign");
            std::fs::write(source.join("file"), "theirs").unwrap();
            for path in [source.join("file"), source.clone()] {
                std::os::unix::fs::chown(path, Some(4242), Some(4242)).unwrap();
            }
            (source, "")
        }
        Who::User => (PathBuf::from("/etc/skel"), "copied"),
    };
    if !source.exists() {
        crate::runner::skip("a view of what belongs to somebody else: no /etc/skel");
        return;
    }
    let before = listing(&source);
    let sandbox = world.start(with_view(world, source.clone()));
    let output =
        shell(&sandbox, "cd /view && for f in $(ls -A); do echo x >>$f || exit 1; done; echo y >new; ls -A");
    assert!(output.exit.success() && output.stdout.contains("new"), "{output:?}");
    assert!(how_views_were_made(&sandbox).contains(how), "{}", how_views_were_made(&sandbox));
    sandbox.close().unwrap();
    assert_eq!(listing(&source), before);
}

fn listing(directory: &Path) -> Vec<(PathBuf, u64, i64)> {
    let mut all: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let metadata = std::fs::symlink_metadata(&path).unwrap();
            (path, metadata.len(), metadata.mtime())
        })
        .collect();
    all.sort();
    all
}

fn chosen_identity(world: &World) {
    let mut spec = world.spec();
    spec.identity = sandbox::SandboxIdentity { uid: 998, gid: 997 };
    let sandbox = world.start(spec);
    let output = shell(&sandbox, "id -u; id -g; touch /tmp/x && stat -c '%u %g' /tmp/x");
    assert_eq!(output.stdout, "998\n997\n998 997\n");
    sandbox.close().unwrap();
}
