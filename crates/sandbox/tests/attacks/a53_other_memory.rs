//! Writes into another process's memory through /proc, to act as the program that it is.

use super::{Attack, Cell, leave_out};
use crate::world::{World, shell};
use sandbox::{IsolationMechanism, Sandbox};

pub(crate) const ATTACK: Attack = Attack { number: 53, name: "other memory", held, works_without_layer };

/// The parent opens its child's memory, which Yama allows where it is in use.
const OPEN: &str =
    "sleep 20 & for file in mem clear_refs; do ( : 3<>/proc/$!/$file ) && echo opened $file; done; kill $!";

fn opened(sandbox: &Sandbox) -> String {
    shell(sandbox, OPEN).stdout
}

fn held(world: &World) -> Cell {
    let sandbox = world.start(world.spec());
    let output = opened(&sandbox);
    sandbox.close().unwrap();
    assert!(!output.contains("opened"), "{output}");
    Cell::Yes
}

fn works_without_layer(world: &World) -> Cell {
    let mut spec = world.spec();
    leave_out(&mut spec, &[IsolationMechanism::Landlock]);
    let sandbox = world.start(spec);
    let output = opened(&sandbox);
    sandbox.close().unwrap();
    Cell::bit(Some(output.contains("opened mem")))
}
