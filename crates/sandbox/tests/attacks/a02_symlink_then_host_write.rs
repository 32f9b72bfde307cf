//! Plants a symlink that leads out of the workspace, for a tool of the host to write through. [CVE-2026-39861]

use super::{Attack, Cell, Workspace};
use crate::world::{World, shell};

pub(crate) const ATTACK: Attack =
    Attack { number: 2, name: "symlink for a host tool", held, works_without_layer };

fn written_through(world: &World, workspace: Workspace) -> Option<bool> {
    let outside = world.make_directory("outside");
    let (directory, sandbox) = workspace.start(world)?;
    let plant = format!("ln -s {}/written /work/report.txt", outside.display());
    assert!(shell(&sandbox, &plant).exit.success());
    sandbox.close().unwrap();
    std::fs::write(directory.join("report.txt"), "by the host").unwrap();
    Some(outside.join("written").exists())
}

fn held(world: &World) -> Cell {
    assert_eq!(written_through(world, Workspace::View), Some(false));
    Cell::Yes
}

fn works_without_layer(world: &World) -> Cell {
    Cell::bit(written_through(world, Workspace::ReadWrite))
}
