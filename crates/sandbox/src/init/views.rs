//! Copy-on-write views: the host's directory below, what the sandbox changes above, in the state directory. Where the
//! state directory's file system cannot be an upper layer, the changes are kept in memory.

use super::{edits, place, root};
use crate::spec::CopyOnWrite;
use rustix::fs::Mode;
use rustix::mount::{FsOpenFlags, UnmountFlags};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

/// How a view was really made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ViewFact {
    UpperOnDisk,
    UpperInMemory,
}

const MEMORY_INODES: u64 = 2_000_000;

/// A detached mount that shows `lower` with the view's edits.
pub(super) fn build(
    new_root: &OwnedFd,
    state: &OwnedFd,
    index: usize,
    view: &CopyOnWrite,
    lower: &OwnedFd,
) -> io::Result<(OwnedFd, ViewFact)> {
    let on_disk = place::make_directories(state, Path::new(&format!("view-{index}")))
        .and_then(|layers| overlay(&layers, lower));
    let (tree, fact) = match on_disk {
        Ok(tree) => (tree, ViewFact::UpperOnDisk),
        // What overlayfs says to an upper layer that it cannot use, such as another overlayfs.
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {
            (in_memory(new_root, index, view.memory_bytes, lower)?, ViewFact::UpperInMemory)
        }
        Err(e) => return Err(e),
    };
    edits::apply(&tree, &view.edits)?;
    Ok((tree, fact))
}

fn overlay(layers: &OwnedFd, lower: &OwnedFd) -> io::Result<OwnedFd> {
    let upper = new_directory(layers, "upper")?;
    let work = new_directory(layers, "work")?;
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

/// overlayfs clones its layers from mounts of this namespace, so the memory is attached while the view is made.
fn in_memory(new_root: &OwnedFd, index: usize, size_bytes: u64, lower: &OwnedFd) -> io::Result<OwnedFd> {
    let name = format!(".view-{index}");
    let place = place::make_directories(new_root, Path::new(&name))?;
    let memory = root::temporary(size_bytes, MEMORY_INODES, 0o700)?;
    place::attach(&memory, &place)?;
    let tree = overlay(&memory, lower);
    rustix::mount::unmount(by_descriptor(&memory), UnmountFlags::DETACH)?;
    rustix::fs::unlinkat(new_root, &name, rustix::fs::AtFlags::REMOVEDIR)?;
    tree
}

fn new_directory(parent: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o755))?;
    place::open_beneath(parent, Path::new(name))
}

/// A path that leads to exactly what the descriptor refers to.
fn by_descriptor(fd: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}
