//! Reads the message queues and shared memory of the host. [codex c3ff56b]

use super::{Attack, Cell, leave_out};
use crate::world::{World, shell};
use sandbox::IsolationMechanism;
use std::process::Command;

pub(crate) const ATTACK: Attack = Attack { number: 35, name: "shared IPC", held, works_without_layer };

/// Whether a queue that the host made is seen inside.
fn seen(world: &World, without: &[IsolationMechanism]) -> Option<bool> {
    let made = Command::new("ipcmk").arg("-Q").output().ok()?;
    let text = String::from_utf8_lossy(&made.stdout).into_owned();
    let id = text.split_whitespace().last()?.to_owned();
    let mut spec = world.spec();
    leave_out(&mut spec, without);
    let sandbox = world.start(spec);
    let output = shell(&sandbox, "cat /proc/sysvipc/msg");
    sandbox.close().unwrap();
    Command::new("ipcrm").args(["-q", &id]).status().ok()?;
    Some(output.stdout.lines().any(|line| line.split_whitespace().nth(1) == Some(&id)))
}

fn held(world: &World) -> Cell {
    assert_ne!(seen(world, &[]), Some(true));
    Cell::Yes
}

fn works_without_layer(world: &World) -> Cell {
    match seen(world, &[IsolationMechanism::IpcNamespace]) {
        None => Cell::Reason("no program `ipcmk` on this machine"),
        bit => Cell::bit(bit),
    }
}
