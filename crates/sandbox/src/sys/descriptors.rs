//! Raw descriptor numbers that a new process inherits.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Takes ownership of descriptor 0, where the control socket of a fresh `__init` arrives.
pub(crate) fn take_standard_input() -> OwnedFd {
    // SAFETY: called once, first thing in `__init`, before anything else could own descriptor 0. The descriptor is
    // replaced by the caller before std could read from it.
    unsafe { OwnedFd::from_raw_fd(0) }
}

/// Closes every descriptor from `first` up.
pub(crate) fn close_from(first: u32) -> io::Result<()> {
    // SAFETY: called before any descriptor above `first` has an owner in this process.
    let done = unsafe { libc::close_range(first, libc::c_uint::MAX, 0) };
    super::check(done.into()).map(drop)
}
