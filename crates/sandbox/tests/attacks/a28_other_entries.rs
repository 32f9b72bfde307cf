//! Enters the kernel where the filter's numbers mean other calls, or lets a ring make the calls.

use super::{Attack, Cell, forbidden_calls};
use crate::world::World;
use sandbox::{CommandExit, IsolationMechanism};

pub(crate) const ATTACK: Attack =
    Attack { number: 28, name: "other entries to the kernel", held, works_without_layer };

fn held(world: &World) -> Cell {
    assert_eq!(forbidden_calls::errno(world, &[], "IoUringSetup"), Some(libc::EPERM));
    assert_eq!(forbidden_calls::errno(world, &[], "X32Ptrace"), Some(libc::ENOSYS));
    // A call through the 32-bit entry ends the process on the spot.
    assert_eq!(forbidden_calls::exit(world, &[], "Foreign32BitCall"), CommandExit::Signal(libc::SIGSYS));
    Cell::Yes
}

fn works_without_layer(world: &World) -> Cell {
    let ring = forbidden_calls::errno(world, &[IsolationMechanism::Seccomp], "IoUringSetup");
    let foreign = forbidden_calls::exit(world, &[IsolationMechanism::Seccomp], "Foreign32BitCall");
    // EFAULT: the ring's own code looked at the arguments.
    match (ring, foreign) {
        (Some(libc::EFAULT), CommandExit::Code(0)) => Cell::Yes,
        (Some(libc::EPERM | libc::ENOSYS), _) => Cell::Reason("io_uring is switched off on this machine"),
        (_, CommandExit::Signal(_)) => Cell::Reason("this kernel has no 32-bit entry"),
        other => panic!("{other:?}"),
    }
}
