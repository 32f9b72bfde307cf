//! Reads a denied file through a symlink with another name. [CVE-2026-25724]

use super::{Attack, Cell, Workspace};
use crate::world::{World, shell};

pub(crate) const ATTACK: Attack =
    Attack { number: 3, name: "symlink to a denied file", held, works_without_layer };

fn secret_read(world: &World, workspace: Workspace) -> Option<bool> {
    let directory = workspace.directory(world);
    std::fs::write(directory.join(".env"), "KEY=secret").unwrap();
    std::os::unix::fs::symlink(".env", directory.join("notes")).unwrap();
    let (_, sandbox) = workspace.start(world)?;
    let output = shell(&sandbox, "cat /work/notes /work/.env; ln -s .env /work/x; cat /work/x");
    sandbox.close().unwrap();
    Some(output.stdout.contains("secret"))
}

fn held(world: &World) -> Cell {
    assert_eq!(secret_read(world, Workspace::Denied), Some(false));
    Cell::Yes
}

fn works_without_layer(world: &World) -> Cell {
    Cell::bit(secret_read(world, Workspace::View))
}
