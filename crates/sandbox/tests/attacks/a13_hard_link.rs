//! Reads a denied file through a hard link that was there before. [scode#2]

use super::{Attack, Cell, Workspace};
use crate::world::{World, shell};

pub(crate) const ATTACK: Attack = Attack { number: 13, name: "hard link", held, works_without_layer };

fn secret_read(world: &World, workspace: Workspace) -> Option<bool> {
    let directory = workspace.directory(world);
    std::fs::create_dir(directory.join("docs")).unwrap();
    std::fs::write(directory.join(".netrc"), "password secret").unwrap();
    std::fs::hard_link(directory.join(".netrc"), directory.join("docs/notes.txt")).unwrap();
    let (_, sandbox) = workspace.start(world)?;
    let output = shell(&sandbox, "cat /work/docs/notes.txt; ln /work/.netrc /work/x; cat /work/x");
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
