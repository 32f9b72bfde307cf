//! Swaps the output for a symlink while it is collected, and plants links and pipes in it.

use super::{Attack, Cell};
use crate::world::{World, shell};
use sandbox::{Sandbox, TransferCaps};
use std::path::{Path, PathBuf};

pub(crate) const ATTACK: Attack = Attack { number: 16, name: "swapped output", held, works_without_layer };

fn prepare(world: &World) -> (Sandbox, PathBuf) {
    let secret = world.directory.join("secret");
    std::fs::write(&secret, "secret").unwrap();
    let sandbox = world.start(world.spec());
    let plant = format!(
        "mkdir /tmp/output && ln -s {} /tmp/output/result.json && ln -s / /tmp/output/all && mkfifo /tmp/output/pipe",
        secret.display()
    );
    assert!(shell(&sandbox, &plant).exit.success());
    (sandbox, secret)
}

fn held(world: &World) -> Cell {
    let (sandbox, _) = prepare(world);
    let to = world.directory.join("collected");
    let collected = sandbox.download(Path::new("/tmp/output"), &to, TransferCaps::default()).unwrap();
    sandbox.close().unwrap();
    assert_eq!(collected.skipped.len(), 3);
    assert_eq!(std::fs::read_dir(to).unwrap().count(), 0);
    Cell::Yes
}

fn works_without_layer(world: &World) -> Cell {
    let (sandbox, _) = prepare(world);
    let process = sandbox.exec(sandbox::Command::new(["sleep", "60"])).unwrap();
    let children = format!("/proc/{pid}/task/{pid}/children", pid = sandbox.host_pid());
    let child = std::fs::read_to_string(children).unwrap();
    let naive = format!("/proc/{}/root/tmp/output/result.json", child.split_whitespace().next().unwrap());
    let read = std::fs::read_to_string(naive);
    drop(process);
    sandbox.close().unwrap();
    Cell::bit(Some(read.is_ok_and(|text| text == "secret")))
}
