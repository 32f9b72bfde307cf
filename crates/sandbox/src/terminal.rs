//! A terminal of the sandbox's own for a command: its two ends, opened from outside. The caller's terminal never gets in,
//! so that nothing inside can type into it.

use crate::beneath::open_beneath;
use crate::identity::Mapping;
use rustix::fs::{Gid, OFlags, Uid};
use rustix::pty::OpenptFlags;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Both ends of a terminal.
#[derive(Debug)]
pub struct Terminal {
    /// Where the person's side reads and writes; does not block.
    pub outside: OwnedFd,
    /// For the command's three streams.
    pub inside: OwnedFd,
}

/// Opens a new terminal of the sandbox whose root this is.
pub(crate) fn open(root: BorrowedFd<'_>, mapping: Mapping) -> io::Result<Terminal> {
    let flags = OFlags::RDWR | OFlags::NOCTTY;
    // The mounts on the way are PID 1's own, made before anything could run inside.
    let outside = open_beneath(root, "dev/pts/ptmx", flags)?;
    rustix::pty::unlockpt(&outside)?;
    let inside = rustix::pty::ioctl_tiocgptpeer(&outside, OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    if let Mapping::Fresh { id } = mapping {
        rustix::fs::fchown(&inside, Some(Uid::from_raw(id)), Some(Gid::from_raw(id)))?;
    }
    Ok(Terminal { outside, inside })
}
