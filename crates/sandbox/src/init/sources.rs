//! Descriptors of the host's files that the spec mounts, opened once, by real path. After this no host path is looked up
//! again, so that nothing can be swapped between the check and the mount.

use super::copy;
use super::idmap::IdentityMaps;
use super::mount_point::{self, ReadOnly};
use crate::identity::Mapping;
use crate::spec::{MountKind, SandboxSpec};
use crate::state_directory;
use crate::step::{StartStep, StepContext, StepError};
use rustix::fs::{Mode, OFlags, ResolveFlags, Stat};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The open source of one mount. Trees are detached copies of mounts, restricted and mapped already.
pub(super) enum Source {
    /// Nothing of the host is needed.
    None,
    Tree {
        tree: OwnedFd,
        directory: bool,
    },
    /// The lower directory of a view.
    Lower(OwnedFd),
    /// A view that had to be copied into the layers directory, under this name.
    Copied(String),
}

pub(super) struct Sources {
    /// One for each mount of the spec, in order.
    pub(super) mounts: Vec<Source>,
    /// The layers of the image, the uppermost first.
    pub(super) image: Vec<OwnedFd>,
    pub(super) program: Option<OwnedFd>,
    /// Where the upper layers of views go; belongs to the sandbox's identity.
    pub(super) layers: Option<OwnedFd>,
}

pub(super) fn open(spec: &SandboxSpec, mapping: Mapping) -> Result<Sources, StepError> {
    spec.defences.reach(StartStep::OpenSources)?;
    let mut opener = Opener {
        maps: match mapping {
            Mapping::Caller => None,
            Mapping::Fresh { id } => Some((IdentityMaps::new(id), id)),
        },
        mapping,
        path: state_directory::layers(&spec.state_directory),
    };
    let mut mounts = Vec::with_capacity(spec.mounts.len());
    for (index, mount) in spec.mounts.iter().enumerate() {
        mounts.push(opener.open_one(&mount.kind, index)?);
    }
    let mut image = Vec::with_capacity(spec.image.len());
    for layer in &spec.image {
        image.push(opener.layer(layer).at(StartStep::OpenSources, layer.display())?);
    }
    let program = match &spec.program {
        Some(_) => Some(clone_program().at(StartStep::OpenSources, "our own program")?),
        None => None,
    };
    let layers = opener.clone_layers().at(StartStep::OpenSources, opener.path.display())?;
    Ok(Sources { mounts, image, program, layers })
}

struct Opener {
    maps: Option<(IdentityMaps, u32)>,
    mapping: Mapping,
    /// Of the layers directory, which is there only if something needs it.
    path: PathBuf,
}

impl Opener {
    fn clone_layers(&self) -> io::Result<Option<OwnedFd>> {
        match open_real(&self.path, OFlags::DIRECTORY) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
            Ok(opened) => {
                let tree = mount_point::clone_mount(opened)?;
                mount_point::restrict(&tree, ReadOnly::No)?;
                Ok(Some(tree))
            }
        }
    }

    /// The layers directory on the host, made if nothing has needed it so far.
    fn layers(&self) -> io::Result<OwnedFd> {
        match open_real(&self.path, OFlags::DIRECTORY) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                state_directory::make_layers(&self.path, self.mapping)?;
                open_real(&self.path, OFlags::DIRECTORY)
            }
            opened => opened,
        }
    }

    fn open_one(&mut self, kind: &MountKind, index: usize) -> Result<Source, StepError> {
        match kind {
            MountKind::ReadOnly { source } => {
                self.tree(source, ReadOnly::Yes, index).at(StartStep::OpenSources, source.display())
            }
            MountKind::ReadWrite { source } => {
                self.tree(source, ReadOnly::No, index).at(StartStep::OpenSources, source.display())
            }
            MountKind::Socket { source } => socket(source).at(StartStep::OpenSources, source.display()),
            MountKind::CopyOnWrite(view) | MountKind::ReadOnlyView(view) => {
                self.lower(&view.source, index).at(StartStep::OpenSources, view.source.display())
            }
            MountKind::Image
            | MountKind::ImageView { .. }
            | MountKind::Temporary { .. }
            | MountKind::File { .. }
            | MountKind::Directory { .. }
            | MountKind::Symlink { .. } => Ok(Source::None),
        }
    }

    fn tree(&mut self, path: &Path, read_only: ReadOnly, index: usize) -> io::Result<Source> {
        let opened = open_real(path, OFlags::empty())?;
        let status = rustix::fs::fstat(&opened)?;
        let directory = is_directory(&status);
        let tree = mount_point::clone_mount(&opened)?;
        mount_point::restrict(&tree, read_only)?;
        let Some((maps, id)) = &mut self.maps else { return Ok(Source::Tree { tree, directory }) };
        if read_only == ReadOnly::Yes && is_everybodys(&status) {
            return Ok(Source::Tree { tree, directory });
        }
        match maps.apply(&tree, (status.st_uid, status.st_gid)) {
            Ok(()) => Ok(Source::Tree { tree, directory }),
            Err(e) if !lacks_identity_maps(&e) => Err(e),
            Err(_) if read_only == ReadOnly::Yes => {
                let name = format!("copy-{index}");
                let id = *id;
                let layers = self.layers()?;
                copy::copy_source(&opened, &layers, &name, Some(id))?;
                let tree = mount_point::clone_mount(mount_point::open_path(&layers, &name)?)?;
                mount_point::restrict(&tree, ReadOnly::Yes)?;
                Ok(Source::Tree { tree, directory })
            }
            Err(_) => Err(io::Error::other(
                "its file system does not support identity maps, which root needs for a writable mount; use another directory",
            )),
        }
    }

    /// A file system without identity maps is fine here: every user may read what an image holds.
    fn layer(&mut self, path: &Path) -> io::Result<OwnedFd> {
        let opened = open_real(path, OFlags::DIRECTORY)?;
        let tree = mount_point::clone_mount(&opened)?;
        mount_point::restrict(&tree, ReadOnly::Yes)?;
        let Some((maps, _)) = &mut self.maps else { return Ok(tree) };
        let status = rustix::fs::fstat(&opened)?;
        match maps.apply(&tree, (status.st_uid, status.st_gid)) {
            Err(e) if !lacks_identity_maps(&e) => Err(e),
            _ => Ok(tree),
        }
    }

    fn lower(&mut self, path: &Path, index: usize) -> io::Result<Source> {
        let opened = open_real(path, OFlags::DIRECTORY)?;
        let tree = mount_point::clone_mount(&opened)?;
        mount_point::restrict(&tree, ReadOnly::Yes)?;
        let Some((maps, id)) = &mut self.maps else { return Ok(Source::Lower(tree)) };
        let status = rustix::fs::fstat(&opened)?;
        match maps.apply(&tree, (status.st_uid, status.st_gid)) {
            Ok(()) => Ok(Source::Lower(tree)),
            // A file system without identity maps, such as a container's overlayfs: root copies the files and changes
            // their owner.
            Err(e) if lacks_identity_maps(&e) => {
                let name = format!("copy-{index}");
                let id = *id;
                copy::copy_source(&opened, &self.layers()?, &name, Some(id))?;
                Ok(Source::Copied(name))
            }
            Err(e) => Err(e),
        }
    }
}

/// No identity map: a socket's mode says who may connect, and a socket cannot be copied.
fn socket(path: &Path) -> io::Result<Source> {
    let opened = open_real(path, OFlags::empty())?;
    if rustix::fs::fstat(&opened)?.st_mode & libc::S_IFMT != libc::S_IFSOCK {
        return Err(io::Error::other("it is not a socket"));
    }
    let tree = mount_point::clone_mount(&opened)?;
    mount_point::restrict(&tree, ReadOnly::Yes)?;
    Ok(Source::Tree { tree, directory: false })
}

/// The kernel's error for an identity map on a file system without support for them.
fn lacks_identity_maps(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP))
}

fn is_directory(status: &Stat) -> bool {
    status.st_mode & libc::S_IFMT == libc::S_IFDIR
}

/// A directory of the system that every user may read. Without a map its few private files stay private.
fn is_everybodys(status: &Stat) -> bool {
    is_directory(status) && status.st_uid == 0 && status.st_mode & 0o005 == 0o005
}

/// The kernel's link to the running file may lead into another mount namespace, so the file is opened by its path and
/// then compared with the link.
fn clone_program() -> io::Result<OwnedFd> {
    let path = std::fs::read_link("/proc/self/exe")?;
    let opened = open_real(&path, OFlags::empty())?;
    let running = rustix::fs::stat("/proc/self/exe")?;
    let found = rustix::fs::fstat(&opened)?;
    if (running.st_dev, running.st_ino) != (found.st_dev, found.st_ino) {
        return Err(io::Error::other(format!("{} was replaced while it runs", path.display())));
    }
    let tree = mount_point::clone_mount(opened)?;
    mount_point::restrict(&tree, ReadOnly::Yes)?;
    Ok(tree)
}

fn open_real(path: &Path, extra: OFlags) -> io::Result<OwnedFd> {
    // Without NOFOLLOW: with it, a link at the end would be opened as itself instead of being refused.
    let flags = OFlags::PATH | OFlags::CLOEXEC | extra;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    Ok(rustix::fs::openat2(rustix::fs::CWD, path, flags, Mode::empty(), resolve)?)
}
