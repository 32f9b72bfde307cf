//! Starts programs in ways that go around a wrapper of commands. [codex PR 12800]

use super::{Attack, Cell, leave_out};
use crate::world::{World, shell};
use sandbox::IsolationMechanism;

pub(crate) const ATTACK: Attack =
    Attack { number: 36, name: "around the wrapper", held, works_without_layer };

const CHAIN: &str = "setsid env -i /bin/sh -c '(/bin/sh -c \"nohup /bin/sh -c \\\"grep Seccomp: /proc/self/status\\\"\" &) ; wait; sleep 0.2'";

fn filters(world: &World, without: &[IsolationMechanism]) -> String {
    let mut spec = world.spec();
    leave_out(&mut spec, without);
    let sandbox = world.start(spec);
    let output = shell(&sandbox, CHAIN);
    sandbox.close().unwrap();
    output.stdout
}

fn held(world: &World) -> Cell {
    assert_eq!(filters(world, &[]), "Seccomp:\t2\n");
    Cell::Yes
}

fn works_without_layer(world: &World) -> Cell {
    Cell::bit(Some(filters(world, &[IsolationMechanism::Seccomp]) == "Seccomp:\t0\n"))
}
