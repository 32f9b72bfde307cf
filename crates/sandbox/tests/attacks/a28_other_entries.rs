//! Enters the kernel where the filter's numbers mean other calls, or lets a ring make the calls.

use super::{Attack, Cell, attempts};
use crate::world::World;
use sandbox::{Exit, Layer};

pub(crate) const ATTACK: Attack = Attack { number: 28, name: "other entries to the kernel", held, bites };

fn held(world: &World) -> Cell {
    assert_eq!(attempts::errno(world, &[], "IoUringSetup"), Some(libc::EPERM));
    assert_eq!(attempts::errno(world, &[], "X32Ptrace"), Some(libc::ENOSYS));
    // A call through the 32-bit entry ends the process on the spot.
    assert_eq!(attempts::exit(world, &[], "Foreign32BitCall"), Exit::Signal(libc::SIGSYS));
    Cell::Yes
}

fn bites(world: &World) -> Cell {
    let ring = attempts::errno(world, &[Layer::Seccomp], "IoUringSetup");
    let foreign = attempts::exit(world, &[Layer::Seccomp], "Foreign32BitCall");
    // EFAULT: the ring's own code looked at the arguments.
    match (ring, foreign) {
        (Some(libc::EFAULT), Exit::Code(0)) => Cell::Yes,
        (Some(libc::EPERM | libc::ENOSYS), _) => Cell::Reason("io_uring is switched off on this machine"),
        (_, Exit::Signal(_)) => Cell::Reason("this kernel has no 32-bit entry"),
        other => panic!("{other:?}"),
    }
}
