//! Plants a symlink under a predictable name in /tmp, for a tool of the host to write through. [CVE-2026-46406]

use super::{Attack, Cell};
use crate::world::{World, shell};
use sandbox::{Mount, MountKind};

pub(crate) const ATTACK: Attack =
    Attack { number: 4, name: "predictable temporary file", held, works_without_layer };

fn plant(world: &World, shared: bool) -> Option<bool> {
    let temporary = world.make_directory("tmp");
    let victim = world.directory.join("victim");
    let mut spec = world.spec();
    let target = if shared { "/shared-tmp" } else { "/tmp/inner" };
    let kind = if shared {
        MountKind::ReadWrite { source: temporary.clone() }
    } else {
        MountKind::Temporary { size_bytes: 1 << 20, inodes: 100, mode: 0o1777 }
    };
    spec.mounts.push(Mount { target: target.into(), kind });
    let sandbox = world.start_or_skip(spec)?;
    let script =
        format!("ln -s {} {target}/tool.log && ln -s {} /tmp/tool.log", victim.display(), victim.display());
    assert!(shell(&sandbox, &script).exit.success());
    // The host's tool opens its usual log.
    std::fs::write(temporary.join("tool.log"), "by the host").unwrap();
    let redirected = victim.exists();
    sandbox.close().unwrap();
    Some(redirected)
}

fn held(world: &World) -> Cell {
    assert_eq!(plant(world, false), Some(false));
    assert!(!std::path::Path::new("/tmp/tool.log").is_symlink());
    Cell::Yes
}

fn works_without_layer(world: &World) -> Cell {
    Cell::bit(plant(world, true))
}
