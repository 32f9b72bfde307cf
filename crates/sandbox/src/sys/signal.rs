//! SIGCHLD as a descriptor, so that PID 1 waits for messages and for dead children in one call.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

fn child_signal() -> libc::sigset_t {
    // SAFETY: an all-zero set is valid storage for `sigemptyset`, which cannot fail on it.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is a live, exclusive reference, and SIGCHLD is a signal number.
    unsafe {
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGCHLD);
    }
    set
}

/// Keeps SIGCHLD pending for the descriptor. A mask outlives exec: commands must be given theirs back.
pub(crate) fn block_child_signal() -> io::Result<()> {
    mask_child_signal(libc::SIG_BLOCK)
}

/// For a command, between fork and exec.
pub(crate) fn unblock_child_signal() -> io::Result<()> {
    mask_child_signal(libc::SIG_UNBLOCK)
}

fn mask_child_signal(how: libc::c_int) -> io::Result<()> {
    // SAFETY: the set outlives the call and no old mask is asked for.
    let done = unsafe { libc::sigprocmask(how, &child_signal(), std::ptr::null_mut()) };
    super::check(done.into()).map(drop)
}

/// A descriptor that becomes readable when a child has ended.
pub(crate) fn child_signal_descriptor() -> io::Result<OwnedFd> {
    // SAFETY: the set outlives the call.
    let fd = unsafe { libc::signalfd(-1, &child_signal(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    super::check(fd.into())?;
    // SAFETY: the kernel just gave us this descriptor; no one else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
