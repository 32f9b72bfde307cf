//! The image that parts of the root come from: its layers over each other, and over them one of our own with everything
//! that the spec puts inside the image. Anything that the image has in those places, such as a link, is covered and
//! never followed.

use super::sources::Source;
use super::staging::StagingArea;
use super::{layout, mount_point, root, views};
use crate::open_in_root;
use crate::spec::{Mount, MountKind, SandboxSpec};
use rustix::fs::{AtFlags, OFlags};
use rustix::io::Errno;
use rustix::mount::FsOpenFlags;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The image, merged and read-only.
pub(super) struct MergedImage {
    tree: OwnedFd,
}

/// What the image has at a path.
pub(super) enum ImageEntry {
    Nothing,
    Link(PathBuf),
    Other { entry: OwnedFd, is_directory: bool },
}

impl MergedImage {
    /// `None` where the spec has no image.
    pub(super) fn build(
        staging: &StagingArea,
        spec: &SandboxSpec,
        layers: &[OwnedFd],
        sources: &[Source],
    ) -> io::Result<Option<Self>> {
        if layers.is_empty() {
            return Ok(None);
        }
        let own = staging.directory("image-own")?;
        prepare_own(&own, spec, sources)?;
        // overlayfs takes its layers from mounts of this namespace only.
        for (index, layer) in layers.iter().enumerate() {
            staging.attach(layer, &format!("image-{index}"))?;
        }
        let all: Vec<&OwnedFd> = std::iter::once(&own).chain(layers).collect();
        let tree = overlay(&all)?;
        staging.attach(&tree, "image")?;
        Ok(Some(Self { tree }))
    }

    /// Follows links on the way, inside the image; a link at the end is returned as a link.
    pub(super) fn find(&self, path: &Path) -> io::Result<ImageEntry> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Errno::INVAL.into());
        };
        let parent = match self.open(parent) {
            Err(e) if is_absent(&e) => return Ok(ImageEntry::Nothing),
            opened => opened?,
        };
        let status = match rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(ImageEntry::Nothing),
            status => status?,
        };
        match status.st_mode & libc::S_IFMT {
            libc::S_IFLNK => {
                let to = rustix::fs::readlinkat(&parent, name, Vec::new())?;
                Ok(ImageEntry::Link(PathBuf::from(OsString::from_vec(to.into_bytes()))))
            }
            kind => {
                let entry = mount_point::open_path(&parent, name)?;
                Ok(ImageEntry::Other { entry, is_directory: kind == libc::S_IFDIR })
            }
        }
    }

    /// The directory at `path`, links followed inside the image.
    pub(super) fn find_directory(&self, path: &Path) -> io::Result<Option<OwnedFd>> {
        match self.open(path) {
            Err(e) if is_absent(&e) => Ok(None),
            opened => opened.map(Some),
        }
    }

    fn open(&self, path: &Path) -> io::Result<OwnedFd> {
        open_in_root(&self.tree, path, OFlags::PATH | OFlags::DIRECTORY)
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR | libc::ELOOP))
}

/// Whether `target` lies in something of the image, which is read-only and gets its contents from the own layer.
pub(super) fn covers(before: &[Mount], target: &Path) -> bool {
    layout::covering(before, target).is_some_and(|cover| cover.kind == MountKind::Image)
}

/// Puts mount points, files and links where the spec has something inside the image.
fn prepare_own(own: &OwnedFd, spec: &SandboxSpec, sources: &[Source]) -> io::Result<()> {
    for (index, (mount, source)) in spec.mounts.iter().zip(sources).enumerate() {
        if covers(&spec.mounts[..index], &mount.target) {
            prepare_one(own, mount, source)?;
        }
    }
    match &spec.program {
        Some(program) if covers(&spec.mounts, program) => {
            mount_point(own, program, mount_point::TargetKind::File)
        }
        _ => Ok(()),
    }
}

fn prepare_one(own: &OwnedFd, Mount { target, kind }: &Mount, source: &Source) -> io::Result<()> {
    use mount_point::TargetKind::{Directory, File};
    match kind {
        MountKind::File { contents, mode } => {
            let (parent, name) = mount_point::open_parent(own, target)?;
            mount_point::write_new(parent, name, contents, *mode)
        }
        MountKind::Symlink { to } => {
            let (parent, name) = mount_point::open_parent(own, target)?;
            Ok(rustix::fs::symlinkat(to, parent, name)?)
        }
        MountKind::ReadOnly { .. } | MountKind::ReadWrite { .. } => {
            let is_file = matches!(source, Source::Tree { directory: false, .. });
            mount_point(own, target, if is_file { File } else { Directory })
        }
        MountKind::Socket { .. } => mount_point(own, target, File),
        MountKind::CopyOnWrite(_)
        | MountKind::ReadOnlyView(_)
        | MountKind::ImageView { .. }
        | MountKind::Temporary { .. }
        | MountKind::Directory { .. } => mount_point(own, target, Directory),
        // Contents of a visible part of the image are visible with it.
        MountKind::Image => Ok(()),
    }
}

fn mount_point(own: &OwnedFd, target: &Path, kind: mount_point::TargetKind) -> io::Result<()> {
    mount_point::make_target(own, target, kind).map(drop)
}

/// Only layers to read from, the uppermost first.
fn overlay(layers: &[&OwnedFd]) -> io::Result<OwnedFd> {
    let context = rustix::mount::fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let mut one_by_one = true;
    for layer in layers {
        match rustix::mount::fsconfig_set_string(&context, "lowerdir+", views::by_descriptor(layer)) {
            Err(Errno::INVAL) if one_by_one && std::ptr::eq(*layer, layers[0]) => {
                one_by_one = false;
                break;
            }
            set => set?,
        }
    }
    if !one_by_one {
        // Linux before 6.5 takes them in one string, and of that not more than 255 bytes.
        let all: Vec<String> = layers.iter().map(|layer| views::by_descriptor(layer)).collect();
        rustix::mount::fsconfig_set_string(&context, "lowerdir", all.join(":"))?;
    }
    // Ordinary users may not read trusted attributes.
    rustix::mount::fsconfig_set_flag(&context, "userxattr")?;
    root::mounted(&context)
}
