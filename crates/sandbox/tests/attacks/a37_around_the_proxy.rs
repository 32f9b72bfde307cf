//! Ignores the proxy and connects directly. [claude-code#33249, nono#713]

use super::host_network::{OPEN, tcp_arrives};
use super::{Attack, Cell};
use crate::world::World;
use sandbox::IsolationMechanism;

pub(crate) const ATTACK: Attack = Attack { number: 37, name: "around the proxy", held, works_without_layer };

/// Twice: a client that is told to use no proxy, and one that knows of none.
fn arrives(world: &World, without: &[IsolationMechanism]) -> bool {
    let curl = "unset HTTP_PROXY HTTPS_PROXY ALL_PROXY; curl -s -m 3 --noproxy '*' http://127.0.0.1:%s/";
    tcp_arrives(world, without, curl)
        || tcp_arrives(world, without, "exec bash -c 'echo direct >/dev/tcp/127.0.0.1/%s'")
}

fn held(world: &World) -> Cell {
    assert!(!arrives(world, &[]));
    Cell::Yes
}

fn works_without_layer(world: &World) -> Cell {
    Cell::bit(Some(arrives(world, OPEN)))
}
