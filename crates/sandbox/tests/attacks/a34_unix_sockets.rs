//! Speaks to services of the host over Unix sockets, abstract ones and files. [kilocode#11650]

use super::{Attack, Cell, PROGRAM, abstract_socket, leave_out};
use crate::world::{World, shell};
use sandbox::IsolationMechanism;
use std::os::unix::net::UnixListener;

pub(crate) const ATTACK: Attack =
    Attack { number: 34, name: "Unix sockets of the host", held, works_without_layer };

fn held(world: &World) -> Cell {
    let mut spec = world.spec();
    spec.program = Some(PROGRAM.into());
    let sandbox = world.start(spec);
    assert!(!abstract_socket::reached(&sandbox));
    let path = world.directory.join("docker.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let output = shell(&sandbox, &format!("test -e {} || test -e /run/docker.sock", path.display()));
    assert!(!output.exit.success());
    drop(listener);
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
