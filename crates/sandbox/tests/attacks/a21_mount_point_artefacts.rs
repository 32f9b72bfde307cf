//! Leaves the mount points of protected files behind in the user's tree. [codex#31599]

use super::{Attack, Cell, Workspace};
use crate::world::World;
use sandbox::{Mount, MountKind};

pub(crate) const ATTACK: Attack =
    Attack { number: 21, name: "mount point artefacts", held, works_without_layer };

fn left(world: &World, workspace: Workspace) -> Option<bool> {
    let directory = workspace.directory(world);
    let mut mounts = workspace.mounts(&directory);
    let kind = MountKind::File { contents: b"{}".to_vec(), mode: 0o444 };
    mounts.push(Mount { target: "/work/.claude/settings.json".into(), kind });
    let (_, sandbox) = workspace.start_with(world, mounts)?;
    // As by SIGKILL: the sandbox cannot clean up.
    sandbox.kill();
    drop(sandbox);
    Some(directory.join(".claude").exists())
}

fn held(world: &World) -> Cell {
    assert_eq!(left(world, Workspace::Denied), Some(false));
    Cell::Yes
}

fn works_without_layer(world: &World) -> Cell {
    Cell::bit(left(world, Workspace::ReadWrite))
}
