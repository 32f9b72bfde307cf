//! A minimal `/dev`: the harmless nodes of the host, terminals of its own, and private `/dev/shm` and `/tmp`.

use super::mount_point::{self, TargetKind};
use super::root;
use crate::step::{StartStep, StepContext, StepError};
use rustix::mount::FsOpenFlags;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

pub(super) const NODES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];
/// The size if the spec has no limit: half of the kernel's default, and never unbounded.
const SHARED_MEMORY_BYTES: u64 = 1 << 30;
const TEMPORARY_BYTES: u64 = 4 << 30;
const TEMPORARY_INODES: u64 = 1_000_000;

pub(super) fn mount(root: &OwnedFd) -> Result<(), StepError> {
    let dev = mount_point::make_directories(root, Path::new("/dev")).at(StartStep::Dev, "/dev")?;
    for name in NODES {
        bind_node(&dev, name).at(StartStep::Dev, format_args!("/dev/{name}"))?;
    }
    for (name, to) in LINKS {
        rustix::fs::symlinkat(to, &dev, name).at(StartStep::Dev, format_args!("/dev/{name}"))?;
    }
    terminals(&dev).at(StartStep::Dev, "/dev/pts")?;
    memory(&dev, "shm", SHARED_MEMORY_BYTES).at(StartStep::Dev, "/dev/shm")?;
    memory(root, "tmp", TEMPORARY_BYTES).at(StartStep::Dev, "/tmp")
}

/// Bound, not made: an ordinary user may not make device nodes. The bind keeps devices usable where the rest of the
/// tree is mounted without them.
fn bind_node(dev: &OwnedFd, name: &str) -> io::Result<()> {
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC | rustix::fs::OFlags::NOFOLLOW;
    let node = rustix::fs::open(format!("/dev/{name}"), flags, rustix::fs::Mode::empty())?;
    let target = mount_point::make_target(dev, Path::new(name), TargetKind::File)?;
    mount_point::attach(mount_point::clone_mount(node)?, target)
}

fn terminals(dev: &OwnedFd) -> io::Result<()> {
    let context = rustix::mount::fsopen("devpts", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_set_flag(&context, "newinstance")?;
    rustix::mount::fsconfig_set_string(&context, "ptmxmode", "0666")?;
    rustix::mount::fsconfig_set_string(&context, "mode", "0620")?;
    rustix::mount::fsconfig_create(&context)?;
    let attributes =
        rustix::mount::MountAttrFlags::MOUNT_ATTR_NOSUID | rustix::mount::MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let tree = rustix::mount::fsmount(&context, rustix::mount::FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    mount_point::attach(tree, mount_point::make_target(dev, Path::new("pts"), TargetKind::Directory)?)
}

fn memory(parent: &OwnedFd, name: &str, size_bytes: u64) -> io::Result<()> {
    let target = mount_point::make_target(parent, Path::new(name), TargetKind::Directory)?;
    mount_point::attach(root::temporary(size_bytes, TEMPORARY_INODES, 0o1777)?, target)
}
