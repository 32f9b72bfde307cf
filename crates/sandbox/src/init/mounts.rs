//! Mounts what the spec lists into the new root, in the spec's order: a later mount may lie inside an earlier one.

use super::image::{self, ImageEntry, MergedImage};
use super::mount_point::{self, ReadOnly, TargetKind};
use super::sources::{Source, Sources};
use super::staging::StagingArea;
use super::views::View;
use super::views::ViewFact;
use super::{layout, root, views};
use crate::spec::{Mount, MountKind, SandboxIdentity, SandboxSpec};
use crate::step::{StartStep, StepContext, StepError};
use rustix::fs::Mode;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Makes every mount, and returns how each view was made.
pub(super) fn mount_all(
    root: &OwnedFd,
    spec: &SandboxSpec,
    sources: Sources,
) -> Result<Vec<(PathBuf, ViewFact)>, StepError> {
    let Sources { mounts, image, program, layers } = sources;
    let staging = StagingArea::open(root, layers).at(StartStep::Mounts, "the staging")?;
    let image =
        MergedImage::build(&staging, spec, &image, &mounts).at(StartStep::Mounts, "the image's layers")?;
    let mut builder = MountBuilder {
        root,
        staging,
        image,
        pinned: BTreeSet::new(),
        identity: spec.identity,
        views: Vec::new(),
    };
    for (index, (mount, source)) in spec.mounts.iter().zip(mounts).enumerate() {
        let step = if matches!(mount.kind, MountKind::CopyOnWrite(_) | MountKind::ReadOnlyView(_)) {
            StartStep::Views
        } else {
            StartStep::Mounts
        };
        builder.mount(&spec.mounts[..index], mount, source, index).at(step, mount.target.display())?;
    }
    if let (Some(path), Some(tree)) = (&spec.program, program) {
        attach_at(root, path, &tree, TargetKind::File).at(StartStep::Mounts, path.display())?;
    }
    spec.defences.reach(StartStep::Views)?;
    let MountBuilder { staging, views, .. } = builder;
    staging.close(root).at(StartStep::Mounts, "closing the staging")?;
    Ok(views)
}

/// Files in a directory that the image does not have.
const NEW_INODES: u64 = 1 << 16;

struct MountBuilder<'a> {
    root: &'a OwnedFd,
    staging: StagingArea,
    image: Option<MergedImage>,
    pinned: BTreeSet<PathBuf>,
    identity: SandboxIdentity,
    views: Vec<(PathBuf, ViewFact)>,
}

impl MountBuilder<'_> {
    fn mount(&mut self, before: &[Mount], mount: &Mount, source: Source, index: usize) -> io::Result<()> {
        let target = mount.target.as_path();
        match (&mount.kind, source) {
            (
                MountKind::ReadOnly { .. } | MountKind::ReadWrite { .. } | MountKind::Socket { .. },
                Source::Tree { tree, directory },
            ) => {
                if !layout::is_writable(&mount.kind) {
                    self.pin(before, target)?;
                }
                let kind = if directory { TargetKind::Directory } else { TargetKind::File };
                attach_at(self.root, target, &tree, kind)
            }
            (MountKind::CopyOnWrite(view) | MountKind::ReadOnlyView(view), Source::Lower(lower)) => {
                let view = View { edits: &view.edits, memory_bytes: view.memory_bytes };
                let made = views::build(&self.staging, index, &view, &lower, self.identity)?;
                self.given_view(before, mount, made)
            }
            (MountKind::CopyOnWrite(view) | MountKind::ReadOnlyView(view), Source::Copied(name)) => {
                let made = views::of_copy(&self.staging, &name, &view.edits)?;
                self.given_view(before, mount, made)
            }
            (MountKind::Image, _) => self.of_image(before, target),
            (MountKind::ImageView { memory_bytes }, _) => self.image_view(target, index, *memory_bytes),
            (MountKind::Temporary { size_bytes, inodes, mode }, _) => {
                let tree = root::temporary(*size_bytes, *inodes, *mode)?;
                attach_at(self.root, target, &tree, TargetKind::Directory)
            }
            (MountKind::File { contents, mode }, _) => self.file(before, target, contents, *mode),
            (MountKind::Directory { mode }, _) => {
                if image::covers(before, target) {
                    return Ok(());
                }
                let (parent, name) = mount_point::open_parent(self.root, target)?;
                if !mount_point::exists(&parent, name)? {
                    rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(mode & 0o7777))?;
                }
                Ok(())
            }
            (MountKind::Symlink { to }, _) => {
                if image::covers(before, target) {
                    return Ok(());
                }
                let (parent, name) = mount_point::open_parent(self.root, target)?;
                Ok(rustix::fs::symlinkat(to, parent, name)?)
            }
            (_, _) => Err(io::Error::other("the source does not fit the mount")),
        }
    }

    fn of_image(&mut self, before: &[Mount], target: &Path) -> io::Result<()> {
        if image::covers(before, target) {
            return Ok(());
        }
        let image = self.image.as_ref().ok_or_else(|| io::Error::other("there is no image"))?;
        match image.find(target)? {
            ImageEntry::Nothing => Ok(()),
            ImageEntry::Link(to) => {
                let (parent, name) = mount_point::open_parent(self.root, target)?;
                Ok(rustix::fs::symlinkat(to, parent, name)?)
            }
            ImageEntry::Other { entry, is_directory } => {
                let tree = mount_point::clone_mount(&entry)?;
                mount_point::restrict(&tree, ReadOnly::Yes)?;
                self.pin(before, target)?;
                let kind = if is_directory { TargetKind::Directory } else { TargetKind::File };
                attach_at(self.root, target, &tree, kind)
            }
        }
    }

    fn image_view(&mut self, target: &Path, index: usize, memory_bytes: u64) -> io::Result<()> {
        let image = self.image.as_ref().ok_or_else(|| io::Error::other("there is no image"))?;
        let Some(directory) = image.find_directory(target)? else {
            let tree = root::temporary(memory_bytes, NEW_INODES, 0o755)?;
            return attach_at(self.root, target, &tree, TargetKind::Directory);
        };
        let lower = mount_point::clone_mount(&directory)?;
        let view = View { edits: &[], memory_bytes };
        let made = views::build(&self.staging, index, &view, &lower, self.identity)?;
        self.view(target, made)
    }

    /// Its edits are done: make it read-only now, if it must be.
    fn given_view(&mut self, before: &[Mount], mount: &Mount, made: (OwnedFd, ViewFact)) -> io::Result<()> {
        if !layout::is_writable(&mount.kind) {
            self.pin(before, &mount.target)?;
            mount_point::restrict(&made.0, ReadOnly::Yes)?;
        }
        self.view(&mount.target, made)
    }

    fn view(&mut self, target: &Path, (tree, fact): (OwnedFd, ViewFact)) -> io::Result<()> {
        self.views.push((target.to_path_buf(), fact));
        attach_at(self.root, target, &tree, TargetKind::Directory)
    }

    /// The root ends up read-only, so that a file there needs no mount of its own; elsewhere it does.
    fn file(&mut self, before: &[Mount], target: &Path, contents: &[u8], mode: u32) -> io::Result<()> {
        // A file inside the image is in the image's own layer already.
        if image::covers(before, target) {
            return Ok(());
        }
        if layout::covering(before, target).is_none() {
            let (parent, name) = mount_point::open_parent(self.root, target)?;
            return mount_point::write_new(parent, name, contents, mode);
        }
        self.pin(before, target)?;
        let tree = self.staging.file(contents, mode)?;
        mount_point::restrict(&tree, ReadOnly::Yes)?;
        attach_at(self.root, target, &tree, TargetKind::File)
    }

    fn pin(&mut self, before: &[Mount], target: &Path) -> io::Result<()> {
        for directory in layout::pins(before, target, &self.pinned) {
            mount_point::pin(self.root, &directory)?;
            self.pinned.insert(directory);
        }
        Ok(())
    }
}

fn attach_at(root: &OwnedFd, target: &Path, tree: &OwnedFd, kind: TargetKind) -> io::Result<()> {
    mount_point::attach(tree, mount_point::make_target(root, target, kind)?)
}
