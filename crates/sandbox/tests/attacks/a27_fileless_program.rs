//! Runs a program that was never written to a file, to avoid rules about files. [OpenShell PR 740]

use super::{Attack, Cell, PROGRAM};
use crate::world::{World, run};
use sandbox::Command;

pub(crate) const ATTACK: Attack = Attack { number: 27, name: "fileless program", held, works_without_layer };

/// Such a program may run; it is confined like any other.
fn held(world: &World) -> Cell {
    let secret = world.directory.join("secret");
    std::fs::write(&secret, "secret").unwrap();
    let mut spec = world.spec();
    spec.program = Some(PROGRAM.into());
    let sandbox = world.start(spec);
    let output = run(&sandbox, Command::new([PROGRAM, "--from-memory", "/usr/bin/cat", "/proc/self/status"]));
    assert!(output.stdout.contains("Seccomp:\t2") && output.stdout.contains("NoNewPrivs:\t1"), "{output:?}");
    let read =
        run(&sandbox, Command::new([PROGRAM, "--from-memory", "/usr/bin/cat", secret.to_str().unwrap()]));
    assert!(!read.exit.success() && read.stdout.is_empty(), "{read:?}");
    sandbox.close().unwrap();
    Cell::Yes
}

fn works_without_layer(world: &World) -> Cell {
    let secret = world.directory.join("secret");
    std::fs::write(&secret, "secret").unwrap();
    let mut command = std::process::Command::new("/proc/self/exe");
    let output = command.args(["--from-memory", "/usr/bin/cat"]).arg(secret).output().unwrap();
    Cell::bit(Some(output.stdout == b"secret"))
}
