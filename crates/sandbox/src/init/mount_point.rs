//! Making things at a path of the new root, descriptor by descriptor: no symlink is followed and nothing outside is reached,
//! whatever a mounted tree contains.

use crate::beneath::open_beneath;
use crate::sys::{self, MountAttributes};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

/// What a mount target must be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TargetKind {
    Directory,
    File,
}

/// Opens `path` below `root` as a bare reference.
pub(super) fn open_path(root: impl AsFd, path: impl AsRef<Path>) -> io::Result<OwnedFd> {
    open_beneath(root, path, OFlags::PATH)
}

/// The directory that `path` lies in, made if needed, and the last part of `path`.
pub(super) fn open_parent(root: impl AsFd, path: &Path) -> io::Result<(OwnedFd, &Path)> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Errno::INVAL.into());
    };
    Ok((make_directories(root, parent)?, Path::new(name)))
}

/// Opens the directory `path` below `root`, making what is missing with mode 0755.
pub(super) fn make_directories(root: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    let mut here = rustix::io::fcntl_dupfd_cloexec(&root, 3)?;
    for part in path.components() {
        let Component::Normal(name) = part else { continue };
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        here = match open_beneath(&here, name, flags) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                rustix::fs::mkdirat(&here, name, Mode::from_raw_mode(0o755))?;
                open_beneath(&here, name, flags)?
            }
            opened => opened?,
        };
    }
    Ok(here)
}

/// Opens what something will be mounted on, making it if needed.
pub(super) fn make_target(root: impl AsFd, path: &Path, kind: TargetKind) -> io::Result<OwnedFd> {
    match open_path(&root, path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        opened => return opened,
    }
    if kind == TargetKind::Directory {
        return make_directories(root, path);
    }
    let (parent, name) = open_parent(&root, path)?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    drop(rustix::fs::openat(&parent, name, flags, Mode::from_raw_mode(0o644))?);
    open_path(&parent, name)
}

/// Writes a new file; what exists is an error.
pub(super) fn write_new(parent: impl AsFd, name: &Path, contents: &[u8], mode: u32) -> io::Result<()> {
    use std::io::Write;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mode = Mode::from_raw_mode(mode & 0o777);
    let mut file = std::fs::File::from(rustix::fs::openat(parent, name, flags, mode)?);
    file.write_all(contents)?;
    // The umask is whatever the caller of the host side had.
    rustix::fs::fchmod(&file, mode)?;
    Ok(())
}

/// A detached copy of the mount at `at`. Recursive: a copy without what is mounted below would show what those
/// mounts hide, and the kernel refuses it.
pub(super) fn clone_mount(at: impl AsFd) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    Ok(rustix::mount::open_tree(at, "", flags)?)
}

/// Attaches the detached mount `tree` at `target`.
pub(super) fn attach(tree: impl AsFd, target: impl AsFd) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(rustix::mount::move_mount(tree, "", target, "", flags)?)
}

/// No devices and no setuid anywhere; read-only where asked for.
pub(super) fn restrict(tree: impl AsFd, read_only: ReadOnly) -> io::Result<()> {
    let always = libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_NOSUID;
    let set = match read_only {
        ReadOnly::Yes => always | libc::MOUNT_ATTR_RDONLY,
        ReadOnly::No => always,
    };
    sys::set_mount_attributes(tree, MountAttributes { set, recursive: true, ..MountAttributes::default() })
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadOnly {
    Yes,
    No,
}

/// Makes a directory at its own place a mount point, so that it cannot be renamed.
pub(super) fn pin(root: impl AsFd, path: &Path) -> io::Result<()> {
    let directory = make_target(&root, path, TargetKind::Directory)?;
    attach(clone_mount(&directory)?, &directory)
}

/// Whether there is something at `name` in `parent`, links not followed.
pub(super) fn exists(parent: impl AsFd, name: &Path) -> io::Result<bool> {
    match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(e) => Err(e.into()),
    }
}
