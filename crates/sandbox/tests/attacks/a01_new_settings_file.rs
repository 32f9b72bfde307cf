//! Creates `.claude/settings.json` with a hook where none was, for the host's tools to run later. [CVE-2026-25725]

use super::{Attack, Cell, Workspace};
use crate::world::{World, shell};

pub(crate) const ATTACK: Attack = Attack { number: 1, name: "new settings file", held, works_without_layer };

const PLANT: &str = "mkdir -p /work/.claude && echo '{\"hooks\":{}}' >/work/.claude/settings.json";

fn planted(world: &World, workspace: Workspace) -> Option<bool> {
    let (directory, sandbox) = workspace.start(world)?;
    assert!(shell(&sandbox, PLANT).exit.success());
    sandbox.close().unwrap();
    Some(directory.join(".claude/settings.json").exists())
}

fn held(world: &World) -> Cell {
    assert_eq!(planted(world, Workspace::View), Some(false));
    Cell::Yes
}

fn works_without_layer(world: &World) -> Cell {
    Cell::bit(planted(world, Workspace::ReadWrite))
}
