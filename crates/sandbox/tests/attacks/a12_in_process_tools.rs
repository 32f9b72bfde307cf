//! Reads with the agent's own code instead of a command, where only commands are wrapped. [claude-code#15789]

use super::{Attack, Cell, PROGRAM};
use crate::world::{World, run};
use sandbox::Command;

pub(crate) const ATTACK: Attack = Attack { number: 12, name: "in-process tools", held, works_without_layer };

fn held(world: &World) -> Cell {
    let secret = world.directory.join("secret");
    std::fs::write(&secret, "secret").unwrap();
    let mut spec = world.spec();
    spec.program = Some(PROGRAM.into());
    let sandbox = world.start(spec);
    // Our own program, reading in its own process.
    let output = run(&sandbox, Command::new([PROGRAM, "--read", secret.to_str().unwrap()]));
    assert!(!output.exit.success() && output.stdout.is_empty(), "{output:?}");
    sandbox.close().unwrap();
    Cell::Yes
}

fn works_without_layer(world: &World) -> Cell {
    let secret = world.directory.join("outside");
    std::fs::write(&secret, "secret").unwrap();
    let output = std::process::Command::new("/proc/self/exe").arg("--read").arg(&secret).output().unwrap();
    Cell::bit(Some(output.stdout == b"secret"))
}
