//! Lets an upload of the host follow a symlink out of the sandbox. [OpenShell PR 352]

use super::{Attack, Cell};
use crate::world::{World, shell};
use sandbox::{Sandbox, TransferCaps};
use std::path::{Path, PathBuf};

pub(crate) const ATTACK: Attack =
    Attack { number: 14, name: "upload through a symlink", held, works_without_layer };

fn prepare(world: &World) -> (Sandbox, PathBuf, PathBuf) {
    let outside = world.make_directory("outside");
    std::fs::set_permissions(&outside, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let file = world.directory.join("file");
    std::fs::write(&file, "uploaded").unwrap();
    let sandbox = world.start(world.spec());
    let plant = format!("ln -s {} /tmp/inbox && ln -s {}/x /tmp/x", outside.display(), outside.display());
    assert!(shell(&sandbox, &plant).exit.success());
    (sandbox, file, outside)
}

fn held(world: &World) -> Cell {
    let (sandbox, file, outside) = prepare(world);
    for target in ["/tmp/inbox/file", "/tmp/x"] {
        assert!(sandbox.upload(&file, Path::new(target), TransferCaps::default()).is_err(), "{target}");
    }
    sandbox.close().unwrap();
    assert_eq!(std::fs::read_dir(outside).unwrap().count(), 0);
    Cell::Yes
}

/// The obvious way: through the sandbox's root in /proc.
fn works_without_layer(world: &World) -> Cell {
    let (sandbox, file, outside) = prepare(world);
    let process = sandbox.exec(sandbox::Command::new(["sleep", "60"])).unwrap();
    let children = format!("/proc/{pid}/task/{pid}/children", pid = sandbox.host_pid());
    let child = std::fs::read_to_string(children).unwrap();
    let naive = format!("/proc/{}/root/tmp/inbox/file", child.split_whitespace().next().unwrap());
    std::fs::copy(&file, naive).unwrap();
    drop(process);
    sandbox.close().unwrap();
    Cell::bit(Some(outside.join("file").exists()))
}
