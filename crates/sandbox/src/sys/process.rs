//! Making and ending processes: namespaces, a sibling of the caller, commands in their own session.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::UnshareFlags;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// Which side of `clone_as_sibling` this is.
pub(crate) enum CloneOutcome {
    Original,
    Sibling,
}

/// Moves the calling, single-threaded process into new namespaces.
pub(crate) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: only unsharing the descriptor table of a process with threads is unsound; `__init` has one thread and
    // never asks for it.
    unsafe { rustix::thread::unshare_unsafe(flags)? };
    Ok(())
}

/// Forks, and makes the new process a child of our parent instead of ours, so that the parent can wait for it and the
/// original can go away.
pub(crate) fn clone_as_sibling() -> io::Result<CloneOutcome> {
    // SAFETY: without CLONE_VM this is a fork; `__init` has one thread, so the copy is whole.
    let pid = unsafe { libc::syscall(libc::SYS_clone, libc::CLONE_PARENT | libc::SIGCHLD, 0, 0, 0, 0) };
    match super::check(pid)? {
        0 => Ok(CloneOutcome::Sibling),
        _ => Ok(CloneOutcome::Original),
    }
}

/// Forks `__init` or PID 1. `None` in the new process.
pub(crate) fn fork() -> io::Result<Option<i32>> {
    // SAFETY: both have one thread, so the copy is whole.
    let pid = unsafe { libc::fork() };
    super::check(pid.into())?;
    Ok((pid != 0).then_some(pid))
}

/// Spawns `command` as the leader of a new session; with `terminal`, its standard input becomes the session's terminal.
pub(crate) fn spawn_in_session(command: &mut Command, terminal: bool) -> io::Result<Child> {
    // SAFETY: between fork and exec the closure makes a few plain system calls and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            // Otherwise a program would not get the signal when its children end.
            super::unblock_child_signal()?;
            rustix::process::setsid()?;
            if terminal && libc::ioctl(0, libc::TIOCSCTTY as _, 0) < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(())
        });
    }
    command.spawn()
}

/// Makes `command` enter cgroups by their files, and take a limit on the memory that it writes to, before it starts.
pub(crate) fn bound_before_exec(command: &mut Command, admissions: Vec<File>, data_bytes: Option<u64>) {
    // SAFETY: between fork and exec the closure makes a few plain system calls and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            for file in &admissions {
                rustix::io::write(file, b"0")?;
            }
            if let Some(bytes) = data_bytes {
                let before = getrlimit(Resource::Data);
                let lower = |limit: Option<u64>| Some(limit.map_or(bytes, |limit| limit.min(bytes)));
                let limit = Rlimit { current: lower(before.current), maximum: lower(before.maximum) };
                setrlimit(Resource::Data, limit)?;
            }
            Ok(())
        });
    }
}

/// Ends the process at once: no destructors, no flushing of what a parent may also flush.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` has no preconditions.
    unsafe { libc::_exit(code) }
}
