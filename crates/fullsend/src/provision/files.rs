//! The sandbox's tree: what is not listed is not there. Host directories of the policy appear read-only; `/etc` is made
//! here and never the host's; the workspace is fresh.

use std::path::{Path, PathBuf};

use policy::baseline::PathAccess;
use policy::model::{Compatibility, Identity};
use sandbox::{CopyOnWrite, LandlockRequirement, Mount, MountKind};

use crate::check::policies::PolicyFile;
use crate::harness::Harness;
use crate::runtime::contract;
use crate::runtime::inside::{self, DOOR, DOOR_NAME};

/// Files of the host's `/etc` that hold no secrets and without which programs do not start.
const ETC_FROM_HOST: &[&str] = &[
    "/etc/ssl",
    "/etc/ca-certificates",
    "/etc/pki",
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
];

/// How much may be written to one writable path of the policy.
const WRITABLE_BYTES: u64 = 1 << 30;

/// Made by the sandbox itself.
const MADE_INSIDE: &[&str] = &["/proc", "/dev", "/tmp", "/sandbox", "/etc"];

/// Where the system's directories come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    Host,
    Image,
}

/// Where these are links into /usr they say so; without them nothing finds a shell.
const SYSTEM_LINKS: &[&str] = &["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// The parts of the system that programs need, as the policy lists them.
pub fn system(policy: &PolicyFile, root: Root) -> Vec<Mount> {
    match root {
        Root::Host => host_system(policy),
        Root::Image => image_system(policy),
    }
}

/// The same of an image, with its own `/etc` but for the files that are made here.
fn image_system(policy: &PolicyFile) -> Vec<Mount> {
    let mut mounts: Vec<Mount> = Vec::new();
    let listed = policy.paths(PathAccess::ReadOnly).chain(SYSTEM_LINKS.iter().copied());
    for path in listed.map(Path::new) {
        let made = MADE_INSIDE.iter().any(|place| path.starts_with(place)) && !path.starts_with("/etc");
        if !made && !mounts.iter().any(|mount| mount.target == path) {
            mounts.push(Mount { target: path.to_owned(), kind: MountKind::Image });
        }
    }
    mounts.extend(etc());
    let writable = policy.paths(PathAccess::ReadWrite).map(Path::new);
    let writable = writable.filter(|path| !MADE_INSIDE.iter().any(|place| path.starts_with(place)));
    mounts.extend(writable.map(|path| Mount {
        target: path.to_owned(),
        kind: MountKind::ImageView { memory_bytes: WRITABLE_BYTES },
    }));
    mounts
}

fn host_system(policy: &PolicyFile) -> Vec<Mount> {
    let mut mounts = Vec::new();
    for path in policy.paths(PathAccess::ReadOnly).map(PathBuf::from) {
        let made = |place: &&str| path == Path::new(place) || path.starts_with(place);
        if MADE_INSIDE.iter().any(made) {
            continue;
        }
        mounts.extend(from_host(&path));
    }
    for path in SYSTEM_LINKS {
        if !mounts.iter().any(|mount: &Mount| mount.target == Path::new(path)) {
            mounts.extend(from_host(Path::new(path)));
        }
    }
    mounts.extend(ETC_FROM_HOST.iter().filter_map(|path| from_host(Path::new(path))));
    mounts.extend(super::java::settings().iter().filter_map(|path| from_host(path)));
    mounts.extend(etc());
    mounts.extend(policy.paths(PathAccess::ReadWrite).filter_map(|path| writable(Path::new(path))));
    mounts
}

/// A writable path of the policy: a view of the host's directory that keeps the host's files as they are, or an empty
/// directory where the host has none.
fn writable(path: &Path) -> Option<Mount> {
    if MADE_INSIDE.iter().any(|place| path.starts_with(place)) {
        return None;
    }
    let kind = match path.canonicalize() {
        Ok(source) => {
            MountKind::CopyOnWrite(CopyOnWrite { source, edits: Vec::new(), memory_bytes: WRITABLE_BYTES })
        }
        Err(_) => MountKind::Temporary { size_bytes: WRITABLE_BYTES, inodes: 1 << 16, mode: 0o755 },
    };
    Some(Mount { target: path.to_owned(), kind })
}

/// A link stays a link; anything else appears read-only; what the host does not have is not there.
fn from_host(path: &Path) -> Option<Mount> {
    let about = std::fs::symlink_metadata(path).ok()?;
    let target = path.to_owned();
    if about.is_symlink() {
        return std::fs::read_link(path).ok().map(|to| Mount { target, kind: MountKind::Symlink { to } });
    }
    let source = path.canonicalize().ok()?;
    Some(Mount { target, kind: MountKind::ReadOnly { source } })
}

fn etc() -> Vec<Mount> {
    let hosts = format!("127.0.0.1 localhost sandbox\n::1 localhost\n{} {}\n", DOOR.ip(), DOOR_NAME);
    let files = [
        ("/etc/passwd", "root:x:0:0:root:/root:/usr/sbin/nologin\nsandbox:x:1000:1000:sandbox:/sandbox:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n".to_owned()),
        ("/etc/group", "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n".to_owned()),
        ("/etc/hosts", hosts),
        ("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n".to_owned()),
        ("/etc/hostname", "sandbox\n".to_owned()),
    ];
    let file = |(path, text): (&str, String)| Mount {
        target: path.into(),
        kind: MountKind::File { contents: text.into_bytes(), mode: 0o644 },
    };
    files.into_iter().map(file).collect()
}

/// The layout of the agent's own directories.
pub fn workspace(harness: &Harness, staging: &Path) -> Vec<Mount> {
    let size_bytes = harness.sandbox.limits.disk_mb.get() << 20;
    let config = contract::of(harness.runtime.value).config_directory;
    let mount = |target: &str, kind: MountKind| Mount { target: PathBuf::from(target), kind };
    vec![
        mount("/sandbox", MountKind::Temporary { size_bytes, inodes: 1 << 20, mode: 0o755 }),
        mount("/sandbox/workspace", MountKind::Directory { mode: 0o755 }),
        mount("/sandbox/workspace/output", MountKind::Directory { mode: 0o755 }),
        mount(config, MountKind::Directory { mode: 0o755 }),
        mount(&format!("{config}/agents"), MountKind::ReadOnly { source: staging.join("config/agents") }),
        mount(&format!("{config}/skills"), MountKind::ReadOnly { source: staging.join("config/skills") }),
        mount(inside::PLUGINS, MountKind::ReadOnly { source: staging.join("config/plugins") }),
        mount("/tmp/workspace", MountKind::Symlink { to: "/sandbox/workspace".into() }),
    ]
}

pub fn landlock(policy: &PolicyFile) -> LandlockRequirement {
    match policy.policy.landlock.value {
        Compatibility::HardRequirement => LandlockRequirement::Required,
        Compatibility::BestEffort => LandlockRequirement::BestEffort,
    }
}

/// Who the agent is inside: `sandbox` is 1000, as in its passwd file; a number is itself.
pub fn identity(policy: &PolicyFile) -> sandbox::Identity {
    let number = |identity: Option<&yaml::At<Identity>>| match identity.map(|identity| identity.value) {
        Some(Identity::Number(number)) => number,
        Some(Identity::Sandbox) | None => 1000,
    };
    let process = &policy.policy.process;
    sandbox::Identity { uid: number(process.user.as_ref()), gid: number(process.group.as_ref()) }
}
