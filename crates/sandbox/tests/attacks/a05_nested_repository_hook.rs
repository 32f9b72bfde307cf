//! Writes a hook into a repository nested in the workspace, for the host's git to run. [openai/codex#37081]

use super::{Attack, Cell, Workspace};
use crate::world::{World, shell};

pub(crate) const ATTACK: Attack =
    Attack { number: 5, name: "nested repository's hook", held, works_without_layer };

fn planted(world: &World, workspace: Workspace) -> Option<bool> {
    let directory = workspace.directory(world);
    std::fs::create_dir_all(directory.join("vendor/sub/.git/hooks")).unwrap();
    let (_, sandbox) = workspace.start(world)?;
    let hook = "vendor/sub/.git/hooks/pre-commit";
    assert!(
        shell(&sandbox, &format!("echo '#!/bin/sh' >/work/{hook} && chmod 755 /work/{hook}")).exit.success()
    );
    sandbox.close().unwrap();
    Some(directory.join(hook).exists())
}

fn held(world: &World) -> Cell {
    assert_eq!(planted(world, Workspace::View), Some(false));
    Cell::Yes
}

fn works_without_layer(world: &World) -> Cell {
    Cell::bit(planted(world, Workspace::ReadWrite))
}
