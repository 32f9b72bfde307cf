//! The new root: an empty file system in memory that only gets what the spec lists.

use super::mount_point;
use crate::step::{StartStep, StepContext, StepError};
use crate::sys::{self, MountAttributes};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, UnmountFlags};
use std::io;
use std::os::fd::OwnedFd;

/// The root holds directories, links and small files only.
const ROOT_BYTES: u64 = 256 << 20;
const ROOT_INODES: u64 = 100_000;

/// Mounts an empty root over the old one. Lookups still see the old one until `pivot`, because a process's own root is
/// never searched for mounts on top of it.
pub(super) fn attach() -> Result<OwnedFd, StepError> {
    rustix::mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .at(StartStep::Root, "making mounts private")?;
    let tree = temporary(ROOT_BYTES, ROOT_INODES, 0o755).at(StartStep::Root, "tmpfs")?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let old = rustix::fs::open("/", flags, Mode::empty()).at(StartStep::Root, "/")?;
    mount_point::attach(&tree, &old).at(StartStep::Root, "attaching the new root")?;
    Ok(tree)
}

/// A detached file system in memory, bounded in bytes and files.
pub(super) fn temporary(size_bytes: u64, inodes: u64, mode: u32) -> io::Result<OwnedFd> {
    let context = rustix::mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_set_string(&context, "size", size_bytes.to_string())?;
    rustix::mount::fsconfig_set_string(&context, "nr_inodes", inodes.to_string())?;
    rustix::mount::fsconfig_set_string(&context, "mode", format!("{:o}", mode & 0o7777))?;
    mounted(&context)
}

/// Creates the file system of `context`; never with devices or setuid.
pub(super) fn mounted(context: &OwnedFd) -> io::Result<OwnedFd> {
    rustix::mount::fsconfig_create(context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOSUID;
    Ok(rustix::mount::fsmount(context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// Makes the new root the only one: the old one is detached, so that no path leads to the host any more.
pub(super) fn pivot(root: &OwnedFd) -> Result<(), StepError> {
    let read_only = MountAttributes { set: libc::MOUNT_ATTR_RDONLY, ..MountAttributes::default() };
    sys::set_mount_attributes(root, read_only).at(StartStep::Pivot, "making the root read-only")?;
    rustix::process::fchdir(root).at(StartStep::Pivot, "entering the new root")?;
    // With both names the same, the old root lands on top of the new one and `.` reaches it for the detaching.
    rustix::process::pivot_root(".", ".").at(StartStep::Pivot, "pivot_root")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH).at(StartStep::Pivot, "detaching the old root")?;
    rustix::process::chdir("/").at(StartStep::Pivot, "/")
}
