//! Types into the terminal that it runs in. [CVE-2017-5226]

use super::{Attack, Cell, PROGRAM, leave_out};
use crate::world::{World, shell};
use sandbox::IsolationMechanism;

pub(crate) const ATTACK: Attack =
    Attack { number: 22, name: "terminal injection", held, works_without_layer };

/// `script` gives the attempt a terminal of its own, made inside.
fn typed(world: &World, without: &[IsolationMechanism], attempt: &str) -> Option<bool> {
    let mut spec = world.spec();
    spec.program = Some(PROGRAM.into());
    leave_out(&mut spec, without);
    let sandbox = world.start(spec);
    if !shell(&sandbox, "command -v script").exit.success() {
        return None;
    }
    let output =
        shell(&sandbox, &format!("script -qec '{PROGRAM} --attempt {attempt}' /dev/null </dev/null"));
    sandbox.close().unwrap();
    Some(output.exit.success())
}

fn held(world: &World) -> Cell {
    for attempt in ["TerminalInject", "TerminalLinux"] {
        assert_ne!(typed(world, &[], attempt), Some(true), "{attempt}");
    }
    Cell::Yes
}

fn works_without_layer(world: &World) -> Cell {
    match typed(world, &[IsolationMechanism::Seccomp], "TerminalInject") {
        Some(false) => Cell::Reason("this kernel has no TIOCSTI any more"),
        None => Cell::Reason("no program `script` on this machine"),
        bit => Cell::bit(bit),
    }
}
