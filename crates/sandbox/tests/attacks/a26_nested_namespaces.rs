//! Makes namespaces and mounts of its own, by the old calls and the new.

use super::{Attack, Cell, forbidden_calls};
use crate::world::World;
use sandbox::IsolationMechanism;

pub(crate) const ATTACK: Attack = Attack { number: 26, name: "nested namespaces", held, works_without_layer };

const ATTEMPTS: [&str; 10] = [
    "NewUserNamespace",
    "CloneNewUser",
    "Clone3NewUser",
    "SetNamespace",
    "Mount",
    "FsOpen",
    "OpenTree",
    "OpenTreeAttr",
    "MountSetattr",
    "PivotRoot",
];

fn held(world: &World) -> Cell {
    for attempt in ATTEMPTS {
        let errno = forbidden_calls::errno(world, &[], attempt);
        let expected = if attempt == "Clone3NewUser" { libc::ENOSYS } else { libc::EPERM };
        assert_eq!(errno, Some(expected), "{attempt}");
    }
    // The kernel refuses too, where the filter is missing.
    assert_eq!(
        forbidden_calls::errno(world, &[IsolationMechanism::Seccomp], "NewUserNamespace"),
        Some(libc::ENOSPC)
    );
    Cell::Yes
}

fn works_without_layer(world: &World) -> Cell {
    let without = [IsolationMechanism::Seccomp, IsolationMechanism::NestedNamespaces];
    let made = ["NewUserNamespace", "CloneNewUser", "Clone3NewUser"];
    Cell::bit(Some(made.iter().all(|attempt| forbidden_calls::errno(world, &without, attempt).is_none())))
}
