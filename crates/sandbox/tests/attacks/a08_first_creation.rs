//! Replaces a protected configuration by creating or moving the directory that it is in. [codex, first creation]

use super::{Attack, Cell};
use crate::world::{World, shell};
use sandbox::{Mount, MountKind};

pub(crate) const ATTACK: Attack = Attack { number: 8, name: "first creation", held, works_without_layer };

const TRY: &str = "rm -rf /work/.codex; mv /work/.codex /work/old; mkdir -p /work/.codex; \
                   echo evil >/work/.codex/config.toml; cat /work/.codex/config.toml";

fn replaced(world: &World, protected: bool) -> bool {
    let mut spec = world.spec();
    let work = MountKind::Temporary { size_bytes: 1 << 20, inodes: 100, mode: 0o755 };
    spec.mounts.push(Mount { target: "/work".into(), kind: work });
    let target = "/work/.codex/config.toml".into();
    if protected {
        let kind = MountKind::File { contents: b"given".to_vec(), mode: 0o444 };
        spec.mounts.push(Mount { target, kind });
    }
    let sandbox = world.start(spec);
    let output = shell(&sandbox, TRY);
    sandbox.close().unwrap();
    output.stdout.contains("evil")
}

fn held(world: &World) -> Cell {
    assert!(!replaced(world, true));
    Cell::Yes
}

fn works_without_layer(world: &World) -> Cell {
    Cell::bit(Some(replaced(world, false)))
}
