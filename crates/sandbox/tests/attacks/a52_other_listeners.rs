//! Connects to what listens for another sandbox: its proxy, its model gateway.

use super::host_network::OPEN;
use super::{Attack, Cell, leave_out};
use crate::world::{World, shell};
use sandbox::{IsolationMechanism, Socket, SocketKind, SocketSpec};

pub(crate) const ATTACK: Attack =
    Attack { number: 52, name: "listeners of others", held, works_without_layer };

/// Whether one sandbox reaches the listener that was made for another.
fn arrives(world: &World, without: &[IsolationMechanism], port: u16) -> bool {
    let mut victim = world.spec();
    let address = ([127, 0, 0, 1], port).into();
    victim.network.sockets = vec![SocketSpec { kind: SocketKind::TcpListener, address }];
    leave_out(&mut victim, without);
    let mut victim = world.start(victim);
    let Some(Socket::Tcp(listener)) = victim.take_sockets().into_iter().next() else {
        panic!("the victim has its listener");
    };
    listener.set_nonblocking(true).unwrap();
    let mut attacker = world.spec();
    leave_out(&mut attacker, without);
    let attacker = world.start(attacker);
    drop(shell(&attacker, &format!("exec bash -c 'echo x >/dev/tcp/127.0.0.1/{port}'")));
    attacker.close().unwrap();
    let arrived = listener.accept().is_ok();
    victim.close().unwrap();
    arrived
}

fn held(world: &World) -> Cell {
    assert!(!arrives(world, &[], 3128));
    Cell::Yes
}

fn works_without_layer(world: &World) -> Cell {
    // A port that the host has free.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    Cell::bit(Some(arrives(world, OPEN, port)))
}
