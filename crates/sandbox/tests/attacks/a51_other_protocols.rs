//! Uses protocols that no proxy reads: datagrams, raw packets, other families of sockets.

use super::host_network::{OPEN, udp_arrives};
use super::{Attack, Cell, forbidden_calls};
use crate::world::World;
use sandbox::IsolationMechanism;

pub(crate) const ATTACK: Attack = Attack { number: 51, name: "other protocols", held, works_without_layer };

fn held(world: &World) -> Cell {
    assert!(!udp_arrives(world, &[]));
    for attempt in ["SocketPacket", "SocketRawIcmp", "SocketVsock", "SocketXdp", "SocketNetlinkDiag"] {
        assert!(forbidden_calls::errno(world, &[], attempt).is_some(), "{attempt}");
    }
    Cell::Yes
}

fn works_without_layer(world: &World) -> Cell {
    let diagnoses =
        forbidden_calls::errno(world, &[IsolationMechanism::Seccomp], "SocketNetlinkDiag").is_none();
    Cell::bit(Some(diagnoses && udp_arrives(world, OPEN)))
}
