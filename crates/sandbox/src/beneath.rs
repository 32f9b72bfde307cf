//! Opening files below a directory whose contents an attacker may write. The kernel resolves the path in one call, so
//! that nothing swapped in meanwhile leads elsewhere. This is the one place that decides which links are followed.

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

/// Opens `path` below `root`; a leading `/` means `root`. A symbolic link on the way or at the end is refused, so do not
/// pass `NOFOLLOW`: with `PATH` it would open a link at the end instead of refusing it.
pub fn open_beneath(root: impl AsFd, path: impl AsRef<Path>, flags: OFlags) -> io::Result<OwnedFd> {
    let path = path.as_ref();
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path contains `..`"));
    }
    let path = path.strip_prefix("/").unwrap_or(path);
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    open(root, path, flags, ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS)
}

/// Opens `path` below `root`. A symbolic link is followed as long as it stays below `root`.
pub fn open_within(root: impl AsFd, path: impl AsRef<Path>, flags: OFlags) -> io::Result<OwnedFd> {
    open(root, path.as_ref(), flags, ResolveFlags::BENEATH)
}

/// Opens `path` as a process whose root directory is `root` sees it: absolute links start there.
pub fn open_in_root(root: impl AsFd, path: impl AsRef<Path>, flags: OFlags) -> io::Result<OwnedFd> {
    open(root, path.as_ref(), flags, ResolveFlags::IN_ROOT)
}

fn open(root: impl AsFd, path: &Path, flags: OFlags, resolve: ResolveFlags) -> io::Result<OwnedFd> {
    // Opening a pipe must not wait for its other end. The kernel refuses the flag for a bare reference.
    let nonblock = if flags.contains(OFlags::PATH) { OFlags::empty() } else { OFlags::NONBLOCK };
    let flags = flags | OFlags::CLOEXEC | nonblock;
    let resolve = resolve | ResolveFlags::NO_MAGICLINKS;
    // The kernel answers EAGAIN when something was renamed meanwhile; a race that goes on is an attack.
    for _ in 0..16 {
        match rustix::fs::openat2(&root, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN) => {}
            opened => return Ok(opened?),
        }
    }
    Err(Errno::AGAIN.into())
}
