//! Copy-on-write views: the host's directory is the lower layer, and the sandbox's changes are the upper layer, in the
//! state directory. Where the state directory's file system cannot be an upper layer, the changes are kept in memory;
//! where an overlay would not be writable at all, the directory is copied.

use super::staging::StagingArea;
use super::{copy, edits, mount_point, root};
use crate::spec::{Edit, SandboxIdentity};
use crate::state_directory;
use rustix::fs::{AtFlags, Mode};
use rustix::mount::FsOpenFlags;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// How a view was really made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ViewFact {
    UpperOnDisk,
    UpperInMemory,
    Copied,
}

/// The edits of a view, and its size limit if it must be in memory.
pub(super) struct View<'a> {
    pub(super) edits: &'a [Edit],
    pub(super) memory_bytes: u64,
}

const MEMORY_INODES: u64 = 2_000_000;

/// A detached mount that shows `lower` with the view's edits.
pub(super) fn build(
    staging: &StagingArea,
    index: usize,
    view: &View<'_>,
    lower: &OwnedFd,
    identity: SandboxIdentity,
) -> io::Result<(OwnedFd, ViewFact)> {
    // overlayfs takes its layers from mounts of this namespace only.
    staging.attach(lower, &format!("lower-{index}"))?;
    let (tree, fact) = if is_owned_by(lower, identity)? {
        layered(staging, index, view, lower)?
    } else {
        copied(staging, index, lower)?
    };
    edits::apply(&tree, view.edits)?;
    Ok((tree, fact))
}

/// A view that was copied before already.
pub(super) fn of_copy(staging: &StagingArea, name: &str, edits: &[Edit]) -> io::Result<(OwnedFd, ViewFact)> {
    let tree = mount_point::clone_mount(mount_point::open_path(staging.layers()?, name)?)?;
    edits::apply(&tree, edits)?;
    Ok((tree, ViewFact::Copied))
}

/// overlayfs keeps the owner of a file that it copies up, and fails if that owner is not mapped inside.
fn is_owned_by(lower: &OwnedFd, identity: SandboxIdentity) -> io::Result<bool> {
    let status = rustix::fs::fstat(lower)?;
    Ok((status.st_uid, status.st_gid) == (identity.uid, identity.gid))
}

fn layered(
    staging: &StagingArea,
    index: usize,
    view: &View<'_>,
    lower: &OwnedFd,
) -> io::Result<(OwnedFd, ViewFact)> {
    match overlay(staging.layers()?, index, lower) {
        // The error of overlayfs for an upper layer that it cannot use, such as another overlayfs.
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => forget(staging.layers()?, index)?,
        done => return done.map(|tree| (tree, ViewFact::UpperOnDisk)),
    }
    let memory = root::temporary(view.memory_bytes, MEMORY_INODES, 0o700)?;
    staging.attach(&memory, &format!("memory-{index}"))?;
    match overlay(&memory, index, lower) {
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => copied(staging, index, lower),
        done => done.map(|tree| (tree, ViewFact::UpperInMemory)),
    }
}

fn copied(staging: &StagingArea, index: usize, lower: &OwnedFd) -> io::Result<(OwnedFd, ViewFact)> {
    let name = format!("copy-{index}");
    copy::copy_source(lower, staging.layers()?, &name, None)?;
    let tree = mount_point::clone_mount(mount_point::open_path(staging.layers()?, &name)?)?;
    Ok((tree, ViewFact::Copied))
}

/// Side by side in `layers`: each further directory costs time when it is created and removed.
fn overlay(layers: &OwnedFd, index: usize, lower: &OwnedFd) -> io::Result<OwnedFd> {
    let upper = new_directory(layers, &state_directory::upper(index))?;
    let work = new_directory(layers, &format!("work-{index}"))?;
    let context = rustix::mount::fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_set_string(&context, "lowerdir", by_descriptor(lower))?;
    rustix::mount::fsconfig_set_string(&context, "upperdir", by_descriptor(&upper))?;
    rustix::mount::fsconfig_set_string(&context, "workdir", by_descriptor(&work))?;
    // Ordinary users may not write trusted attributes.
    rustix::mount::fsconfig_set_flag(&context, "userxattr")?;
    // Nothing in a view has to survive a power cut.
    rustix::mount::fsconfig_set_flag(&context, "volatile")?;
    root::mounted(&context)
}

/// Only an upper layer that is in use exists in the state directory: the host side relies on it.
fn forget(layers: &OwnedFd, index: usize) -> io::Result<()> {
    Ok(rustix::fs::unlinkat(layers, state_directory::upper(index), AtFlags::REMOVEDIR)?)
}

fn new_directory(parent: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o755))?;
    mount_point::open_path(parent, name)
}

/// A path that leads to exactly what the descriptor refers to.
pub(super) fn by_descriptor(fd: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}
