//! Uses large kernel surfaces: fault handling, performance counters, programs in the kernel, keyrings.

use super::{Attack, Cell, forbidden_calls};
use crate::world::World;
use sandbox::IsolationMechanism;

pub(crate) const ATTACK: Attack = Attack { number: 29, name: "kernel surfaces", held, works_without_layer };

fn held(world: &World) -> Cell {
    for attempt in
        ["Userfaultfd", "PerfEventOpen", "Bpf", "KeyctlUserKeyring", "AddKey", "OpenByHandle", "KexecLoad"]
    {
        assert_eq!(forbidden_calls::errno(world, &[], attempt), Some(libc::EPERM), "{attempt}");
    }
    for attempt in ["SocketVsock", "SocketAlg", "SocketXdp", "SocketPacket", "SocketNetlinkDiag"] {
        assert_eq!(forbidden_calls::errno(world, &[], attempt), Some(libc::EAFNOSUPPORT), "{attempt}");
    }
    assert_eq!(forbidden_calls::errno(world, &[], "SocketRawIcmp"), Some(libc::EPERM));
    Cell::Yes
}

fn works_without_layer(world: &World) -> Cell {
    let opened = ["Userfaultfd", "KeyctlUserKeyring", "SocketNetlinkDiag"];
    Cell::bit(Some(
        opened
            .iter()
            .all(|attempt| forbidden_calls::errno(world, &[IsolationMechanism::Seccomp], attempt).is_none()),
    ))
}
