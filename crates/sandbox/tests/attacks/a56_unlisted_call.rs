//! Makes a system call that is not denied but that no runtime or common tool needs: more attack surface.

use super::{Attack, Cell};
use crate::world::{World, shell};
use sandbox::SystemCalls;

pub(crate) const ATTACK: Attack =
    Attack { number: 56, name: "a call that no tool makes", held, works_without_layer };

/// Without address space randomisation, by `personality`.
fn worked(world: &World, system_calls: SystemCalls) -> bool {
    let mut spec = world.spec();
    spec.system_calls = system_calls;
    let sandbox = world.start(spec);
    let output = shell(&sandbox, "setarch -R true && echo worked");
    sandbox.close().unwrap();
    output.stdout.contains("worked")
}

fn held(world: &World) -> Cell {
    assert!(!worked(world, SystemCalls::OnlyAllowed), "the allow list passes `personality`");
    Cell::Yes
}

fn works_without_layer(world: &World) -> Cell {
    Cell::bit(Some(worked(world, SystemCalls::AllButDenied)))
}
