//! The sandbox's file tree: only listed paths exist. Host directories of the policy are read-only, `/etc` is generated
//! here, and the workspace is new.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use policy::baseline::PathAccess;
use policy::model::{Compatibility, RunAs};
use sandbox::{CopyOnWrite, Edit, LandlockRequirement, Mount, MountKind, SystemCalls};

use crate::check::host_sockets::{self, HostSockets};
use crate::check::policies::CheckedPolicy;
use crate::harness::Harness;
use crate::harness::names::SystemCallList;
use crate::runtime;
use crate::runtime::paths::{self, GATEWAY, GATEWAY_NAME};

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

/// The system settings of git, which every other file of settings overrides.
pub const GIT_CONFIG: &str = "/etc/gitconfig";

/// The default author of commits. Without a name git refuses to commit.
pub const GIT_IDENTITY: &str = "[user]\n\tname = fullsend\n\temail = fullsend@localhost\n";

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

/// Directories that are links into /usr on many systems; without them no program finds a shell.
const SYSTEM_LINKS: &[&str] = &["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// The parts of the system that programs need, as the policy lists them.
pub fn system(policy: &CheckedPolicy, root: Root) -> Vec<Mount> {
    match root {
        Root::Host => host_system(policy),
        Root::Image => image_system(policy),
    }
}

/// The paths that the policy makes readable and nothing makes writable, each once.
fn readable(policy: &CheckedPolicy) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = Vec::new();
    let writable: Vec<&str> = policy.paths(PathAccess::ReadWrite).collect();
    let listed = policy.paths(PathAccess::ReadOnly).filter(|path| !writable.contains(path));
    for path in listed.chain(SYSTEM_LINKS.iter().copied()).map(PathBuf::from) {
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    paths
}

/// The paths that the policy makes writable, each once, except those that the sandbox creates itself.
fn writable_paths(policy: &CheckedPolicy) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = policy.paths(PathAccess::ReadWrite).map(PathBuf::from).collect();
    paths.retain(|path| !MADE_INSIDE.iter().any(|place| path.starts_with(place)));
    paths.sort();
    paths.dedup();
    paths
}

/// The same for an image, with the image's `/etc` except the files that are generated here.
fn image_system(policy: &CheckedPolicy) -> Vec<Mount> {
    let is_made =
        |path: &PathBuf| MADE_INSIDE.iter().any(|place| path.starts_with(place)) && !path.starts_with("/etc");
    let readable = readable(policy).into_iter().filter(|path| !is_made(path));
    let mut mounts: Vec<Mount> = readable.map(|target| Mount { target, kind: MountKind::Image }).collect();
    mounts.extend(etc(policy));
    let view = |target| Mount { target, kind: MountKind::ImageView { memory_bytes: WRITABLE_BYTES } };
    mounts.extend(writable_paths(policy).into_iter().map(view));
    mounts
}

fn host_system(policy: &CheckedPolicy) -> Vec<Mount> {
    let mut readable = readable(policy);
    // Paths in the sandbox's own /tmp can still be mounted.
    let is_in_tmp = |path: &PathBuf| path.starts_with("/tmp") && path != Path::new("/tmp");
    readable.retain(|path| is_in_tmp(path) || !MADE_INSIDE.iter().any(|place| path.starts_with(place)));
    let mut mounts: Vec<Mount> = readable.iter().filter_map(|path| from_host(path, &readable)).collect();
    let covers = covers(&mounts);
    mounts.extend(covers);
    mounts.extend(ETC_FROM_HOST.iter().filter_map(|path| from_host(Path::new(path), &[])));
    mounts.extend(super::java::settings().iter().filter_map(|path| from_host(path, &[])));
    mounts.extend(etc(policy));
    mounts.extend(writable_paths(policy).iter().map(|path| writable(path)));
    mounts
}

/// A writable path of the policy: a copy-on-write view of the host's directory, or an empty directory if the host has
/// none.
fn writable(path: &Path) -> Mount {
    let kind = match path.canonicalize() {
        Ok(source) => {
            MountKind::CopyOnWrite(CopyOnWrite { source, edits: Vec::new(), memory_bytes: WRITABLE_BYTES })
        }
        Err(_) => MountKind::Temporary { size_bytes: WRITABLE_BYTES, inodes: 1 << 16, mode: 0o755 },
    };
    Mount { target: path.to_owned(), kind }
}

/// The host's file or directory at a path, read-only; a missing path stays missing. A link to another listed path stays
/// a link; any other link is replaced by its target.
fn from_host(path: &Path, listed: &[PathBuf]) -> Option<Mount> {
    let source = path.canonicalize().ok()?;
    let is_link = |path: &Path| path.symlink_metadata().is_ok_and(|about| about.is_symlink());
    if path.ancestors().skip(1).any(|above| is_link(above) && listed.iter().any(|other| other == above)) {
        // The link makes it visible, or its own name is not listed.
        return None;
    }
    let target = path.to_owned();
    let is_listed = listed.iter().any(|other| other != path && source.starts_with(other));
    if is_link(path) && is_listed {
        return std::fs::read_link(path).ok().map(|to| Mount { target, kind: MountKind::Symlink { to } });
    }
    // Overlayfs shows a socket as a separate file without a listener, so neither present nor later sockets can be used.
    let kind = match host_sockets::at(&source) {
        HostSockets::None => MountKind::ReadOnly { source },
        HostSockets::Itself => return None,
        HostSockets::Below(sockets) => {
            let edits = sockets.into_iter().map(|path| Edit::Remove { path }).collect();
            MountKind::ReadOnlyView(CopyOnWrite { source, edits, memory_bytes: WRITABLE_BYTES })
        }
    };
    Some(Mount { target, kind })
}

/// Empty files over the sockets that are bound below directories that are shown as they are.
fn covers(mounts: &[Mount]) -> Vec<Mount> {
    let mut targets = BTreeSet::new();
    for mount in mounts {
        let MountKind::ReadOnly { source } = &mount.kind else { continue };
        for bound in host_sockets::bound_below(source) {
            targets.extend(bound.strip_prefix(source).ok().map(|below| mount.target.join(below)));
        }
    }
    let cover = |target| Mount { target, kind: MountKind::File { contents: Vec::new(), mode: 0o444 } };
    targets.into_iter().map(cover).collect()
}

fn etc(policy: &CheckedPolicy) -> Vec<Mount> {
    let sandbox::SandboxIdentity { uid, gid } = identity(policy);
    let hosts = format!("127.0.0.1 localhost sandbox\n::1 localhost\n{} {}\n", GATEWAY.ip(), GATEWAY_NAME);
    let nologin = "/usr/sbin/nologin";
    let passwd = format!(
        "root:x:0:0:root:/root:{nologin}\nsandbox:x:{uid}:{gid}:sandbox:/sandbox:/bin/sh\n\
         nobody:x:65534:65534:nobody:/nonexistent:{nologin}\n"
    );
    let files = [
        ("/etc/passwd", passwd),
        ("/etc/group", format!("root:x:0:\nsandbox:x:{gid}:\nnogroup:x:65534:\n")),
        ("/etc/hosts", hosts),
        ("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n".to_owned()),
        ("/etc/hostname", "sandbox\n".to_owned()),
        // Git's system settings: a repository, a variable and `git config --global` override them.
        (GIT_CONFIG, GIT_IDENTITY.to_owned()),
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
    let config = runtime::of(harness.runtime.value).config_directory;
    let mount = |target: &str, kind: MountKind| Mount { target: PathBuf::from(target), kind };
    vec![
        mount("/sandbox", MountKind::Temporary { size_bytes, inodes: 1 << 20, mode: 0o755 }),
        mount("/sandbox/workspace", MountKind::Directory { mode: 0o755 }),
        mount("/sandbox/workspace/output", MountKind::Directory { mode: 0o755 }),
        mount(config, MountKind::Directory { mode: 0o755 }),
        mount(&format!("{config}/agents"), MountKind::ReadOnly { source: staging.join("config/agents") }),
        mount(&format!("{config}/skills"), MountKind::ReadOnly { source: staging.join("config/skills") }),
        mount(paths::PLUGINS, MountKind::ReadOnly { source: staging.join("config/plugins") }),
        mount("/tmp/workspace", MountKind::Symlink { to: "/sandbox/workspace".into() }),
    ]
}

pub fn landlock(policy: &CheckedPolicy) -> LandlockRequirement {
    match policy.policy.landlock.value {
        Compatibility::HardRequirement => LandlockRequirement::Required,
        Compatibility::BestEffort => LandlockRequirement::BestEffort,
    }
}

pub fn system_calls(list: SystemCallList) -> SystemCalls {
    match list {
        SystemCallList::Deny => SystemCalls::AllButDenied,
        SystemCallList::Allow => SystemCalls::OnlyAllowed,
    }
}

/// The agent's user id inside: `sandbox` is 1000, as in its passwd file; a number stays as it is.
pub fn identity(policy: &CheckedPolicy) -> sandbox::SandboxIdentity {
    let number = |identity: Option<&yaml::Spanned<RunAs>>| match identity.map(|identity| identity.value) {
        Some(RunAs::Number(number)) => number,
        Some(RunAs::Sandbox) | None => 1000,
    };
    let process = &policy.policy.process;
    sandbox::SandboxIdentity { uid: number(process.user.as_ref()), gid: number(process.group.as_ref()) }
}
