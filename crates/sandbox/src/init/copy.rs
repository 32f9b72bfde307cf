//! The last resort for a view: a plain copy of the directory, bounded in bytes and files. Shares blocks where the file
//! system can. Links are copied as links; devices, sockets and pipes are left out.

use super::mount_point;
use rustix::fs::{AtFlags, Dir, Gid, Mode, OFlags, Timestamps, Uid};
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

const MAX_BYTES: u64 = 8 << 30;
const MAX_ENTRIES: u64 = 1_000_000;
const MAX_DEPTH: usize = 200;

/// Copies the file or directory `from` to `name` in `layers`, which must not exist; owned by `owner` if one is given.
pub(super) fn copy_source(
    from: &OwnedFd,
    layers: &OwnedFd,
    name: &str,
    owner: Option<u32>,
) -> io::Result<()> {
    let mut copier = Copier { owner, bytes: 0, entries: 0 };
    let status = rustix::fs::fstat(from)?;
    if status.st_mode & libc::S_IFMT == libc::S_IFDIR {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let from = rustix::fs::openat(from, ".", flags, Mode::empty())?;
        return copier.directory(&from, layers, Path::new(name), 0);
    }
    // A bare reference is opened for reading through its own link in /proc.
    let source = File::open(format!("/proc/self/fd/{}", from.as_raw_fd()))?;
    copier.contents(source, layers, Path::new(name))?;
    copier.finish(layers, Path::new(name), &status)
}

struct Copier {
    owner: Option<u32>,
    bytes: u64,
    entries: u64,
}

impl Copier {
    fn directory(&mut self, from: &OwnedFd, parent: &OwnedFd, name: &Path, depth: usize) -> io::Result<()> {
        if depth > MAX_DEPTH {
            return Err(io::Error::from_raw_os_error(libc::ELOOP));
        }
        rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o700))?;
        let to = mount_point::open_path(parent, name)?;
        for entry in Dir::read_from(from)? {
            let entry = entry?;
            if entry.file_name() != c"." && entry.file_name() != c".." {
                self.entry(from, &to, entry.file_name(), depth)?;
            }
        }
        let status = rustix::fs::fstat(from)?;
        self.finish(parent, name, &status)
    }

    fn entry(&mut self, from: &OwnedFd, to: &OwnedFd, name: &CStr, depth: usize) -> io::Result<()> {
        self.entries += 1;
        if self.entries > MAX_ENTRIES {
            return Err(io::Error::other(format!("more than {MAX_ENTRIES} files to copy")));
        }
        let path = Path::new(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name.to_bytes()));
        let status = rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
        match status.st_mode & libc::S_IFMT {
            libc::S_IFDIR => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let inner = rustix::fs::openat(from, name, flags, Mode::empty())?;
                self.directory(&inner, to, path, depth + 1)
            }
            libc::S_IFLNK => {
                let target = rustix::fs::readlinkat(from, name, Vec::new())?;
                rustix::fs::symlinkat(&target, to, name)?;
                self.give_away(to, path)
            }
            libc::S_IFREG => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let source = File::from(rustix::fs::openat(from, name, flags, Mode::empty())?);
                self.contents(source, to, path)?;
                self.finish(to, path, &status)
            }
            _ => Ok(()),
        }
    }

    fn contents(&mut self, mut source: File, to: &OwnedFd, name: &Path) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut copy = File::from(rustix::fs::openat(to, name, flags, Mode::from_raw_mode(0o600))?);
        if rustix::fs::ioctl_ficlone(&copy, &source).is_ok() {
            return Ok(());
        }
        let left = MAX_BYTES - self.bytes;
        self.bytes += io::copy(&mut io::Read::take(&mut source, left), &mut copy)?;
        if self.bytes >= MAX_BYTES {
            return Err(io::Error::other(format!("more than {MAX_BYTES} bytes to copy")));
        }
        Ok(())
    }

    /// Owner first: changing it clears what mode bits mean.
    fn finish(&self, parent: &OwnedFd, name: &Path, status: &rustix::fs::Stat) -> io::Result<()> {
        self.give_away(parent, name)?;
        let mode = Mode::from_raw_mode(status.st_mode & 0o777);
        rustix::fs::chmodat(parent, name, mode, AtFlags::empty())?;
        let time = rustix::fs::Timespec {
            tv_sec: status.st_mtime,
            tv_nsec: i64::try_from(status.st_mtime_nsec).unwrap_or(0),
        };
        let times = Timestamps { last_access: time, last_modification: time };
        Ok(rustix::fs::utimensat(parent, name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    fn give_away(&self, parent: impl AsFd, name: &Path) -> io::Result<()> {
        let Some(owner) = self.owner else { return Ok(()) };
        let (uid, gid) = (Uid::from_raw(owner), Gid::from_raw(owner));
        Ok(rustix::fs::chownat(parent, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?)
    }
}
