//! A directory of the host as the sandbox's `/work`: safely as a view, or as the attacks would like it.

use super::PROGRAM;
use crate::world::World;
use sandbox::repository::Repository;
use sandbox::{CopyOnWrite, Mount, MountKind, Sandbox};
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Workspace {
    /// A copy-on-write view without any edits.
    View,
    /// The view that a repository gets.
    Repository,
    /// The host's own directory.
    ReadWrite,
}

impl Workspace {
    pub(crate) fn directory(self, world: &World) -> PathBuf {
        world.make_directory("work")
    }

    pub(crate) fn mounts(self, directory: &Path) -> Vec<Mount> {
        let target = PathBuf::from("/work");
        let kind = match self {
            Self::View => {
                let view = CopyOnWrite { source: directory.into(), edits: Vec::new(), memory_bytes: 1 << 20 };
                MountKind::CopyOnWrite(view)
            }
            Self::Repository => {
                return Repository::read(directory).unwrap().view(&target, &[], 1 << 20).mounts;
            }
            Self::ReadWrite => MountKind::ReadWrite { source: directory.into() },
        };
        vec![Mount { target, kind }]
    }

    /// `None` where root cannot have a writable mount.
    pub(crate) fn start(self, world: &World) -> Option<(PathBuf, Sandbox)> {
        let directory = self.directory(world);
        let mounts = self.mounts(&directory);
        self.start_with(world, mounts)
    }

    /// The same with other mounts.
    pub(crate) fn start_with(self, world: &World, mounts: Vec<Mount>) -> Option<(PathBuf, Sandbox)> {
        let directory = self.directory(world);
        let mut spec = world.spec();
        spec.program = Some(PROGRAM.into());
        spec.mounts.extend(mounts);
        Some((directory, world.start_or_skip(spec)?))
    }
}
