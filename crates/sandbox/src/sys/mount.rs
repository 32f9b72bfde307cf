//! `mount_setattr`: flags and identity maps of a mount, changed through its descriptor.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// What to change on a mount; `recursive` reaches every mount below it too.
#[derive(Clone, Copy, Default)]
pub(crate) struct MountAttributes<'a> {
    pub(crate) set: u64,
    pub(crate) clear: u64,
    pub(crate) propagation: u64,
    pub(crate) user_namespace: Option<BorrowedFd<'a>>,
    pub(crate) recursive: bool,
}

#[repr(C)]
struct RawAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// Applies `attributes` to the mount that `mount` refers to.
pub(crate) fn set_mount_attributes(mount: impl AsFd, attributes: MountAttributes<'_>) -> io::Result<()> {
    let raw = RawAttributes {
        set: attributes.set,
        clear: attributes.clear,
        propagation: attributes.propagation,
        user_namespace: attributes.user_namespace.map_or(0, |fd| fd.as_raw_fd().cast_unsigned().into()),
    };
    let recursive = if attributes.recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the kernel reads an empty C string and `size_of` bytes of `raw`; both outlive the call.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_fd().as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | recursive,
            &raw,
            size_of::<RawAttributes>(),
        )
    };
    super::check(done).map(drop)
}
