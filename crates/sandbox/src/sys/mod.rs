//! The system calls that rustix does not offer in a safe form, each behind a safe function.
//! This is the only place in the whole program where `unsafe` is allowed; nothing here decides anything.

#![expect(unsafe_code, reason = "the one module for it; each block says why it is sound")]

pub(crate) mod call_probes;
mod descriptors;
mod entry;
mod identity;
mod interface;
mod landlock;
mod mount;
mod process;
mod seccomp;
mod signal;

pub(crate) use descriptors::{close_from, take_standard_input};
pub(crate) use identity::take_file_identity;
pub(crate) use interface::bring_up;
pub(crate) use landlock::landlock_level;
pub(crate) use mount::{MountAttributes, set_mount_attributes};
pub(crate) use process::{
    CloneOutcome, bound_before_exec, clone_as_sibling, exit_now, fork, spawn_in_session, unshare,
};
pub(crate) use seccomp::{Instruction, install_filter};
pub(crate) use signal::{block_child_signal, child_signal_descriptor, unblock_child_signal};

use std::io;

/// Turns the return value of a raw system call into a `Result`.
fn check(value: libc::c_long) -> io::Result<libc::c_long> {
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}
