//! Sends data out in the names that it asks for, straight to a resolver. [sandbox-runtime#88]

use super::host_network::{OPEN, udp_arrives};
use super::{Attack, Cell};
use crate::world::World;

pub(crate) const ATTACK: Attack = Attack { number: 41, name: "names as messages", held, works_without_layer };

fn held(world: &World) -> Cell {
    assert!(!udp_arrives(world, &[]));
    Cell::Yes
}

fn works_without_layer(world: &World) -> Cell {
    Cell::bit(Some(udp_arrives(world, OPEN)))
}
