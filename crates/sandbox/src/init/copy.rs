//! The fallback for a view: a plain copy of the directory, bounded in bytes and files. Shares blocks where the file
//! system can. Links are copied as links; devices, sockets and pipes are left out.

use super::mount_point;
use crate::tree_walk::{Descend, TreeEntry, Unreadable, WalkError, WalkLimits, walk_tree};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Stat, Timestamps, Uid};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

const MAX_BYTES: u64 = 8 << 30;
const MAX_ENTRIES: usize = 1_000_000;
const MAX_DEPTH: usize = 200;

/// Copies the file or directory `from` to `name` in `layers`, which must not exist; owned by `owner` if one is given.
pub(super) fn copy_source(
    from: &OwnedFd,
    layers: &OwnedFd,
    name: &str,
    owner: Option<u32>,
) -> io::Result<()> {
    let mut copier = Copier { owner, bytes: 0 };
    let status = rustix::fs::fstat(from)?;
    if status.st_mode & libc::S_IFMT == libc::S_IFDIR {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let from = rustix::fs::openat(from, ".", flags, Mode::empty())?;
        return copier.directory(&from, layers, Path::new(name));
    }
    // A bare reference is opened for reading through its own link in /proc.
    let source = File::open(format!("/proc/self/fd/{}", from.as_raw_fd()))?;
    copier.contents(source, layers, Path::new(name))?;
    copier.finish(layers, Path::new(name), &status)
}

struct Copier {
    owner: Option<u32>,
    bytes: u64,
}

impl Copier {
    fn directory(&mut self, from: &OwnedFd, parent: &OwnedFd, name: &Path) -> io::Result<()> {
        rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o700))?;
        let to = mount_point::open_path(parent, name)?;
        let mut directories = Vec::new();
        let own = rustix::fs::fstat(parent)?;
        let limits = WalkLimits { entries: MAX_ENTRIES, depth: MAX_DEPTH, unreadable: Unreadable::Fail };
        let copied = walk_tree(from, limits, &mut |entry: &TreeEntry<'_>| {
            let status = entry.status()?;
            self.entry(entry, &status, &to)?;
            if entry.kind == FileType::Directory {
                directories.push((entry.path.to_path_buf(), status));
            }
            // The state directory may lie in the directory that is copied: a copy does not hold itself.
            let is_own = status.st_dev == own.st_dev && status.st_ino == own.st_ino;
            Ok(if is_own { Descend::No } else { Descend::Yes })
        });
        copied.map_err(WalkError::into_io)?;
        // Last of all and from the inside out: a directory's mode may close it, and every new entry changes its time.
        for (path, status) in directories.iter().rev() {
            self.finish(&to, path, status)?;
        }
        self.finish(parent, name, &rustix::fs::fstat(from)?)
    }

    fn entry(&mut self, entry: &TreeEntry<'_>, status: &Stat, root: &OwnedFd) -> io::Result<()> {
        let to = mount_point::open_path(root, entry.path.parent().unwrap_or(Path::new("")))?;
        let name = Path::new(entry.name);
        match entry.kind {
            FileType::Directory => Ok(rustix::fs::mkdirat(&to, name, Mode::from_raw_mode(0o700))?),
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(entry.parent, name, Vec::new())?;
                rustix::fs::symlinkat(&target, &to, name)?;
                self.give_away(&to, name)
            }
            FileType::RegularFile => {
                self.contents(File::from(entry.open()?), &to, name)?;
                self.finish(&to, name, status)
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

    /// Owner first: changing it clears the setuid and setgid bits.
    fn finish(&self, parent: &OwnedFd, name: &Path, status: &Stat) -> io::Result<()> {
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
        let uid = Some(Uid::from_raw(owner));
        let gid = Some(Gid::from_raw(owner));
        Ok(rustix::fs::chownat(parent, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?)
    }
}
