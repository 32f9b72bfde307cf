//! Runs a setuid program to become somebody else. [OpenShell#346]

use super::{Attack, Cell};
use crate::world::{Who, World, read_only, shell};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

pub(crate) const ATTACK: Attack = Attack { number: 25, name: "setuid program", held, works_without_layer };

fn make(world: &World) -> PathBuf {
    let directory = world.make_directory("setuid");
    let program = directory.join("id");
    std::fs::copy("/usr/bin/id", &program).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o6755)).unwrap();
    for path in [&world.directory, &directory] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    directory
}

fn held(world: &World) -> Cell {
    let mut spec = world.spec();
    spec.mounts.push(read_only(&make(world), Path::new("/setuid")));
    let sandbox = world.start(spec);
    let output = shell(&sandbox, "/setuid/id -u; /setuid/id -ru; su -c id 2>/dev/null; true");
    sandbox.close().unwrap();
    assert_eq!(output.stdout, "1000\n1000\n");
    Cell::Yes
}

fn works_without_layer(world: &World) -> Cell {
    if world.who == Who::User {
        return Cell::Reason("an ordinary user has no setuid program of root's to give");
    }
    let program = make(world).join("id");
    let output =
        std::process::Command::new(program).arg("-u").uid(4242).gid(4242).current_dir("/").output().unwrap();
    match output.stdout.as_slice() {
        b"0\n" => Cell::Yes,
        _ => Cell::Reason("/tmp is mounted without setuid here"),
    }
}
