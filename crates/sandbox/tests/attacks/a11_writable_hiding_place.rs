//! Writes into the place of a hidden directory, where a mask was a writable one. [sandbox-runtime#149]

use super::{Attack, Cell};
use crate::world::{World, shell};
use sandbox::{Mount, MountKind};

pub(crate) const ATTACK: Attack =
    Attack { number: 11, name: "writable hiding place", held, works_without_layer };

fn wrote(world: &World, masked_with_memory: bool) -> bool {
    let mut spec = world.spec();
    if masked_with_memory {
        let kind = MountKind::Temporary { size_bytes: 1 << 20, inodes: 10, mode: 0o777 };
        spec.mounts.push(Mount { target: "/root/.ssh".into(), kind });
    }
    let sandbox = world.start(spec);
    let output = shell(&sandbox, "mkdir -p /root/.ssh && echo key >/root/.ssh/authorized_keys");
    sandbox.close().unwrap();
    output.exit.success()
}

fn held(world: &World) -> Cell {
    assert!(!wrote(world, false));
    Cell::Yes
}

fn works_without_layer(world: &World) -> Cell {
    Cell::bit(Some(wrote(world, true)))
}
