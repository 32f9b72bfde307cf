//! The identity under which one thread makes files. C libraries change it for the whole process; this is about one thread.

use std::io;

/// The calling thread makes and opens files as `id` from now on, for good; it loses root's power over files thereby.
pub(crate) fn take_file_identity(id: u32) -> io::Result<()> {
    // SAFETY: both calls take one integer and change this thread's credentials only. They return the identity that was
    // before; only asking again tells whether it was changed.
    let (gid, uid) = unsafe {
        libc::syscall(libc::SYS_setfsgid, id);
        libc::syscall(libc::SYS_setfsuid, id);
        (libc::syscall(libc::SYS_setfsgid, u32::MAX), libc::syscall(libc::SYS_setfsuid, u32::MAX))
    };
    if (gid, uid) == (i64::from(id), i64::from(id)) {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(libc::EPERM))
    }
}
