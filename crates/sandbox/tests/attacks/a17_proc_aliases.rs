//! Reaches the host's files through the aliases that /proc has for roots, directories and descriptors.

use super::{Attack, Cell};
use crate::world::{World, shell};

pub(crate) const ATTACK: Attack = Attack { number: 17, name: "aliases in /proc", held, works_without_layer };

fn script(secret: &str) -> String {
    format!(
        "for way in /proc/self/root /proc/1/root /proc/self/cwd/../.. /proc/1/cwd /proc/self/fd/0/../../../..; do \
         cat $way{secret}; done 2>/dev/null; for fd in /proc/1/fd/* /proc/self/fd/*; do cat $fd{secret} 2>/dev/null; done"
    )
}

fn held(world: &World) -> Cell {
    let secret = world.directory.join("secret");
    std::fs::write(&secret, "secret").unwrap();
    let sandbox = world.start(world.spec());
    let output = shell(&sandbox, &script(secret.to_str().unwrap()));
    sandbox.close().unwrap();
    assert_eq!(output.stdout, "");
    Cell::Yes
}

fn works_without_layer(world: &World) -> Cell {
    let secret = world.directory.join("secret");
    std::fs::write(&secret, "secret").unwrap();
    let output =
        std::process::Command::new("sh").arg("-c").arg(script(secret.to_str().unwrap())).output().unwrap();
    Cell::bit(Some(String::from_utf8_lossy(&output.stdout).contains("secret")))
}
