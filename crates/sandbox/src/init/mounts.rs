//! Placing what the spec lists into the new root, in its order.

use super::place::{self, ReadOnly, TargetKind};
use super::sources::{Source, Sources};
use super::{layout, root, sources, views};
use crate::spec::{Mount, MountKind, SandboxSpec};
use crate::step::{AtStep, Step, StepError};
use rustix::fs::Mode;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Places every mount; the descriptors that are only needed meanwhile are closed on return.
pub(super) fn place_all(
    root: &OwnedFd,
    spec: &SandboxSpec,
    sources: Sources,
) -> Result<Vec<views::ViewFact>, StepError> {
    let Sources { mounts, program, state } = sources;
    let files = root::temporary(256 << 20, 100_000, 0o700).at(Step::Mounts, "tmpfs for files")?;
    let mut placer = Placer { root, files, file_count: 0, pinned: BTreeSet::new(), state, views: Vec::new() };
    for (index, (mount, source)) in spec.mounts.iter().zip(mounts).enumerate() {
        let step = if matches!(mount.kind, MountKind::CopyOnWrite(_)) { Step::Views } else { Step::Mounts };
        placer.place(&spec.mounts[..index], mount, source, index).at(step, mount.target.display())?;
    }
    if let (Some(path), Some(tree)) = (&spec.program, program) {
        place_read_only(root, path, &tree, TargetKind::File).at(Step::Mounts, path.display())?;
    }
    Ok(placer.views)
}

struct Placer<'a> {
    root: &'a OwnedFd,
    /// Holds the contents of files that must be mounted because what they lie in is writable. Never attached itself.
    files: OwnedFd,
    file_count: usize,
    pinned: BTreeSet<PathBuf>,
    state: OwnedFd,
    views: Vec<views::ViewFact>,
}

impl Placer<'_> {
    fn place(&mut self, before: &[Mount], mount: &Mount, source: Source, index: usize) -> io::Result<()> {
        let target = mount.target.as_path();
        match (&mount.kind, source) {
            (MountKind::ReadOnly { .. }, Source::Tree { tree, directory }) => {
                self.pin(before, target)?;
                let kind = if directory { TargetKind::Directory } else { TargetKind::File };
                place_read_only(self.root, target, &tree, kind)
            }
            (MountKind::ReadWrite { .. }, Source::Tree { tree, directory }) => {
                let kind = if directory { TargetKind::Directory } else { TargetKind::File };
                place::restrict(&tree, ReadOnly::No)?;
                place::attach(tree, place::make_target(self.root, target, kind)?)
            }
            (MountKind::CopyOnWrite(view), Source::Lower(lower)) => {
                let (tree, fact) = views::build(self.root, &self.state, index, view, &lower)?;
                self.views.push(fact);
                place::attach(tree, place::make_target(self.root, target, TargetKind::Directory)?)
            }
            (MountKind::Temporary { size_bytes, inodes, mode }, _) => {
                let tree = root::temporary(*size_bytes, *inodes, *mode)?;
                place::attach(tree, place::make_target(self.root, target, TargetKind::Directory)?)
            }
            (MountKind::File { contents, mode }, _) => self.file(before, target, contents, *mode),
            (MountKind::Directory { mode }, _) => {
                let (parent, name) = place::open_parent(self.root, target)?;
                if !place::exists(&parent, name)? {
                    rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(mode & 0o7777))?;
                }
                Ok(())
            }
            (MountKind::Symlink { to }, _) => {
                let (parent, name) = place::open_parent(self.root, target)?;
                Ok(rustix::fs::symlinkat(to, parent, name)?)
            }
            (_, _) => Err(io::Error::other("the source does not fit the mount")),
        }
    }

    /// The root ends up read-only, so that a file there needs no mount of its own; elsewhere it does.
    fn file(&mut self, before: &[Mount], target: &Path, contents: &[u8], mode: u32) -> io::Result<()> {
        if layout::covering(before, target).is_none() {
            let (parent, name) = place::open_parent(self.root, target)?;
            return place::write_new(parent, name, contents, mode);
        }
        self.pin(before, target)?;
        let name = PathBuf::from(self.file_count.to_string());
        self.file_count += 1;
        place::write_new(&self.files, &name, contents, mode)?;
        let tree = sources::clone_mount(place::open_beneath(&self.files, &name)?)?;
        place_read_only(self.root, target, &tree, TargetKind::File)
    }

    fn pin(&mut self, before: &[Mount], target: &Path) -> io::Result<()> {
        for directory in layout::pins(before, target, &self.pinned) {
            place::pin(self.root, &directory)?;
            self.pinned.insert(directory);
        }
        Ok(())
    }
}

fn place_read_only(root: &OwnedFd, target: &Path, tree: &OwnedFd, kind: TargetKind) -> io::Result<()> {
    place::restrict(tree, ReadOnly::Yes)?;
    place::attach(tree, place::make_target(root, target, kind)?)
}
