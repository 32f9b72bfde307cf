//! Runs where Landlock was requested but silently missing. [OpenShell#803]

use super::{Attack, Cell, PROGRAM, abstract_socket, leave_out};
use crate::world::World;
use sandbox::{Defences, IsolationMechanism, Sandbox, SandboxPart, StartError, Status};

pub(crate) const ATTACK: Attack =
    Attack { number: 20, name: "silently no Landlock", held, works_without_layer };

/// A missing layer stops the start. Where Landlock is reported as enforced, it alone blocks this socket.
fn held(world: &World) -> Cell {
    let mut silent = world.spec();
    silent.defences = Defences::without([IsolationMechanism::Landlock]);
    match Sandbox::start(silent) {
        Err(StartError::TooWeak { part: SandboxPart::Mechanism(IsolationMechanism::Landlock), .. }) => {}
        other => panic!("{other:?}"),
    }
    let mut spec = world.spec();
    spec.program = Some(PROGRAM.into());
    leave_out(&mut spec, &[IsolationMechanism::NetworkNamespace]);
    let sandbox = world.start(spec);
    assert_eq!(
        sandbox.describe().status(SandboxPart::Mechanism(IsolationMechanism::Landlock)),
        Some(Status::Enforced)
    );
    assert!(!abstract_socket::reached(&sandbox));
    sandbox.close().unwrap();
    Cell::Yes
}

fn works_without_layer(world: &World) -> Cell {
    let mut spec = world.spec();
    spec.program = Some(PROGRAM.into());
    leave_out(&mut spec, &[IsolationMechanism::NetworkNamespace, IsolationMechanism::Landlock]);
    let sandbox = world.start(spec);
    let reached = abstract_socket::reached(&sandbox);
    sandbox.close().unwrap();
    Cell::bit(Some(reached))
}
