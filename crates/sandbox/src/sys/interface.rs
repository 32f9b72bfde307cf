//! Network interface flags, which have no call outside ioctl.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Brings the interface `name` up, in the network namespace of `socket`.
pub(crate) fn bring_up(socket: impl AsFd, name: &str) -> io::Result<()> {
    // SAFETY: an all-zero `ifreq` is a valid one.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(name.bytes()) {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: SIOCSIFFLAGS reads one `ifreq`, which outlives the call.
    let done = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::SIOCSIFFLAGS as _, &request) };
    super::check(done.into()).map(drop)
}
