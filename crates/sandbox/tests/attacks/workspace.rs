//! A directory of the host as the sandbox's `/work`: safely as a view, or as the attacks would like it.

use super::PROGRAM;
use crate::world::World;
use sandbox::{CopyOnWrite, Edit, Mount, MountKind, Sandbox};
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Workspace {
    /// A copy-on-write view without any edits.
    View,
    /// A copy-on-write view with the denied files removed, by all of their names.
    Denied,
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
            Self::View => view(directory, &[]),
            Self::Denied => view(directory, DENIED),
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

/// A secret that the attacks try to read.
const DENIED: &[&str] = &[
    ".env",
    ".netrc",
    "docs/notes.txt",
    "services/api/config/.env.production",
    "services/api/config/id_rsa",
];

fn view(directory: &Path, removed: &[&str]) -> MountKind {
    let edits = removed.iter().map(|path| Edit::Remove { path: path.into() }).collect();
    MountKind::CopyOnWrite(CopyOnWrite { source: directory.into(), edits, memory_bytes: 1 << 20 })
}
