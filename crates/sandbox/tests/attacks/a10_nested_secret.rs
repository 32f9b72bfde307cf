//! Reads an `.env` deep in the tree, where a pattern for the top does not reach. [safedep/pmg#445]

use super::{Attack, Cell, Workspace};
use crate::world::{World, shell};

pub(crate) const ATTACK: Attack = Attack { number: 10, name: "nested secret", held, works_without_layer };

fn secret_read(world: &World, workspace: Workspace) -> Option<bool> {
    let directory = workspace.directory(world);
    let deep = directory.join("services/api/config");
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::write(deep.join(".env.production"), "KEY=secret").unwrap();
    std::fs::write(deep.join("id_rsa"), "secret").unwrap();
    let (_, sandbox) = workspace.start(world)?;
    let output = shell(&sandbox, "grep -r secret /work");
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
