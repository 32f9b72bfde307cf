//! Swaps a directory for a symlink between the check and the mount. [runc CVE-2021-30465]

use super::{Attack, Cell};
use crate::world::{World, read_only};
use sandbox::{Sandbox, StartError, StartStep};
use std::path::Path;

pub(crate) const ATTACK: Attack =
    Attack { number: 15, name: "swapped mount source", held, works_without_layer };

fn swap(world: &World) -> std::path::PathBuf {
    let secret = world.make_directory("secret");
    std::fs::write(secret.join("key"), "secret").unwrap();
    let checked = world.make_directory("checked");
    std::fs::remove_dir(&checked).unwrap();
    std::os::unix::fs::symlink(&secret, &checked).unwrap();
    checked
}

fn held(world: &World) -> Cell {
    let mut spec = world.spec();
    spec.mounts.push(read_only(&swap(world), Path::new("/mounted")));
    match Sandbox::start(spec) {
        Err(StartError::Step { step: StartStep::OpenSources, .. }) => Cell::Yes,
        other => panic!("{other:?}"),
    }
}

/// A lookup that follows links is redirected.
fn works_without_layer(world: &World) -> Cell {
    Cell::bit(Some(std::fs::read_to_string(swap(world).join("key")).is_ok_and(|key| key == "secret")))
}
