//! Descriptors of what the host lends: opened once, by real path, before anything else changes. From here on no host path
//! is looked up again, so that nothing can be swapped between looking and mounting.

use crate::spec::{MountKind, SandboxSpec};
use crate::step::{AtStep, Step, StepError};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::mount::OpenTreeFlags;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// What was opened for one mount.
pub(super) enum Source {
    /// Nothing of the host is needed.
    None,
    /// A private copy of the mount, with all below it.
    Tree { tree: OwnedFd, directory: bool },
    /// The lower directory of a view.
    Lower(OwnedFd),
}

pub(super) struct Sources {
    /// One for each mount of the spec, in order.
    pub(super) mounts: Vec<Source>,
    pub(super) program: Option<OwnedFd>,
    pub(super) state: OwnedFd,
}

pub(super) fn open(spec: &SandboxSpec) -> Result<Sources, StepError> {
    let mounts = spec.mounts.iter().map(|mount| open_one(&mount.kind)).collect::<Result<_, _>>()?;
    let program = match &spec.program {
        Some(_) => Some(clone_program().at(Step::OpenSources, "our own program")?),
        None => None,
    };
    let state = open_real(&spec.state_directory, OFlags::DIRECTORY)
        .at(Step::OpenSources, spec.state_directory.display())?;
    Ok(Sources { mounts, program, state })
}

fn open_one(kind: &MountKind) -> Result<Source, StepError> {
    match kind {
        MountKind::ReadOnly { source } | MountKind::ReadWrite { source } => {
            clone_tree(source).at(Step::OpenSources, source.display())
        }
        MountKind::CopyOnWrite(view) => {
            let lower = open_real(&view.source, OFlags::DIRECTORY);
            Ok(Source::Lower(lower.at(Step::OpenSources, view.source.display())?))
        }
        MountKind::Temporary { .. }
        | MountKind::File { .. }
        | MountKind::Directory { .. }
        | MountKind::Symlink { .. } => Ok(Source::None),
    }
}

fn clone_tree(path: &Path) -> io::Result<Source> {
    let place = open_real(path, OFlags::empty())?;
    let directory = rustix::fs::fstat(&place)?.st_mode & libc::S_IFMT == libc::S_IFDIR;
    Ok(Source::Tree { tree: clone_mount(&place)?, directory })
}

/// A detached copy of the mount at `place`. Recursive: a copy without what is mounted below would show what those
/// mounts hide, and the kernel refuses it.
pub(super) fn clone_mount(place: impl AsFd) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    Ok(rustix::mount::open_tree(place, "", flags)?)
}

/// The kernel's link to the running file leads into the old mount namespace, so the file is opened by its path and
/// then compared with the link.
fn clone_program() -> io::Result<OwnedFd> {
    let path = std::fs::read_link("/proc/self/exe")?;
    let place = open_real(&path, OFlags::empty())?;
    let (running, found) = (rustix::fs::stat("/proc/self/exe")?, rustix::fs::fstat(&place)?);
    if (running.st_dev, running.st_ino) != (found.st_dev, found.st_ino) {
        return Err(io::Error::other(format!("{} was replaced while it runs", path.display())));
    }
    clone_mount(place)
}

fn open_real(path: &Path, extra: OFlags) -> io::Result<OwnedFd> {
    // Without NOFOLLOW: with it, a link at the end would be opened as itself instead of being refused.
    let flags = OFlags::PATH | OFlags::CLOEXEC | extra;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    Ok(rustix::fs::openat2(rustix::fs::CWD, path, flags, Mode::empty(), resolve)?)
}
