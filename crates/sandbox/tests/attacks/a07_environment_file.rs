//! Writes an `.env` that sends a tool of the host to another home. [CVE-2025-61260]

use super::{Attack, Cell, Workspace};
use crate::world::{World, shell};

pub(crate) const ATTACK: Attack = Attack { number: 7, name: "environment file", held, works_without_layer };

fn planted(world: &World, workspace: Workspace) -> Option<bool> {
    let (directory, sandbox) = workspace.start(world)?;
    assert!(shell(&sandbox, "echo CODEX_HOME=/work/.evil >/work/.env && mkdir /work/.evil").exit.success());
    sandbox.close().unwrap();
    Some(directory.join(".env").exists() || directory.join(".evil").exists())
}

fn held(world: &World) -> Cell {
    assert_eq!(planted(world, Workspace::View), Some(false));
    Cell::Yes
}

fn works_without_layer(world: &World) -> Cell {
    Cell::bit(planted(world, Workspace::ReadWrite))
}
