//! Uses a descriptor of the host's that was left open in the child. [CVE-2024-21626]

use super::{Attack, Cell};
use crate::world::{World, shell};
use rustix::fs::{Mode, OFlags};
use std::os::fd::OwnedFd;

pub(crate) const ATTACK: Attack = Attack { number: 18, name: "leaked descriptor", held, works_without_layer };

const TRY: &str = "for fd in /proc/self/fd/*; do cat $fd/secret 2>/dev/null; done; cat secret 2>/dev/null";

/// Opened without the flag that closes it in children.
fn leak(world: &World) -> OwnedFd {
    std::fs::write(world.directory.join("secret"), "secret").unwrap();
    rustix::fs::open(&world.directory, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap()
}

fn held(world: &World) -> Cell {
    let leaked = leak(world);
    let sandbox = world.start(world.spec());
    let output = shell(&sandbox, TRY);
    assert_eq!(output.stdout, "");
    let listed = shell(&sandbox, "ls /proc/self/fd");
    assert_eq!(listed.stdout, "0\n1\n2\n3\n", "the fourth is the listing's own");
    sandbox.close().unwrap();
    drop(leaked);
    Cell::Yes
}

fn works_without_layer(world: &World) -> Cell {
    let leaked = leak(world);
    let output = std::process::Command::new("sh").arg("-c").arg(TRY).current_dir("/").output().unwrap();
    drop(leaked);
    Cell::bit(Some(output.stdout.starts_with(b"secret")))
}
