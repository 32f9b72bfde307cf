//! A place inside the new root that exists only while mounts are made: kernels before 6.15 take copies and layers only
//! from mounts that are attached somewhere. It is gone before anything runs.

use super::mount_point::{self, TargetKind};
use super::root;
use rustix::fs::AtFlags;
use rustix::mount::UnmountFlags;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

const NAME: &str = ".staging";
const FILE_BYTES: u64 = 256 << 20;
const INODES: u64 = 100_000;

pub(super) struct StagingArea {
    tree: OwnedFd,
    layers: Option<OwnedFd>,
    files: usize,
}

impl StagingArea {
    /// Undone by `close`.
    pub(super) fn open(new_root: &OwnedFd, layers: Option<OwnedFd>) -> io::Result<Self> {
        let tree = root::temporary(FILE_BYTES, INODES, 0o700)?;
        mount_point::attach(
            &tree,
            mount_point::make_target(new_root, Path::new(NAME), TargetKind::Directory)?,
        )?;
        let staging = Self { tree, layers, files: 0 };
        if let Some(layers) = &staging.layers {
            staging.attach(layers, "layers")?;
        }
        Ok(staging)
    }

    /// The directory of the host that upper layers go to.
    pub(super) fn layers(&self) -> io::Result<&OwnedFd> {
        self.layers.as_ref().ok_or_else(|| io::Error::other("there is no layers directory"))
    }

    /// A new directory that is gone with the staging.
    pub(super) fn directory(&self, name: &str) -> io::Result<OwnedFd> {
        mount_point::make_directories(&self.tree, Path::new(name))
    }

    pub(super) fn attach(&self, tree: &OwnedFd, name: &str) -> io::Result<()> {
        mount_point::attach(
            tree,
            mount_point::make_target(&self.tree, Path::new(name), TargetKind::Directory)?,
        )
    }

    /// A detached mount of a new file with these contents.
    pub(super) fn file(&mut self, contents: &[u8], mode: u32) -> io::Result<OwnedFd> {
        let name = PathBuf::from(format!("file-{}", self.files));
        self.files += 1;
        mount_point::write_new(&self.tree, &name, contents, mode)?;
        mount_point::clone_mount(mount_point::open_path(&self.tree, &name)?)
    }

    pub(super) fn close(self, new_root: &OwnedFd) -> io::Result<()> {
        let path = format!("/proc/self/fd/{}", self.tree.as_raw_fd());
        rustix::mount::unmount(path, UnmountFlags::DETACH)?;
        Ok(rustix::fs::unlinkat(new_root, NAME, AtFlags::REMOVEDIR)?)
    }
}
