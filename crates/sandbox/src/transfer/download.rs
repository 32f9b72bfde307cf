//! Out of the sandbox: a file or a tree becomes a new one on the host, with plain modes and nothing but files and
//! directories in it.

use super::{MAX_DEPTH, SkipReason, Transfer, TransferCaps, TransferError};
use crate::beneath::open_beneath;
use rustix::fs::{Dir, Mode, OFlags};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Copies `from`, a path inside, to `to` on the host, which must not exist.
pub(crate) fn download(
    root: BorrowedFd<'_>,
    from: &Path,
    to: &Path,
    caps: TransferCaps,
) -> Result<Transfer, TransferError> {
    let target = |source| TransferError::Target { path: to.to_path_buf(), source };
    let (Some(parent), Some(name)) = (to.parent(), to.file_name()) else {
        return Err(target(io::Error::from(io::ErrorKind::InvalidInput)));
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = rustix::fs::open(parent, flags, Mode::empty()).map_err(|e| target(e.into()))?;
    let source = |source| TransferError::Source { path: from.to_path_buf(), source };
    // A bare reference first: opening a device or a pipe would already do something.
    let found = open_beneath(root, from, OFlags::PATH).map_err(source)?;
    let kind = kind_of(&found).map_err(source)?;
    let mut download = Download { caps, transfer: Transfer::default() };
    match kind {
        Kind::File => download.file(root, from, &parent, name)?,
        Kind::Directory => {
            let opened = open_beneath(root, from, OFlags::RDONLY | OFlags::DIRECTORY).map_err(source)?;
            download.directory(&opened, from, &parent, name, 0)?;
        }
        Kind::Link | Kind::Special => {
            return Err(source(io::Error::other("it is neither a file nor a directory")));
        }
    }
    Ok(download.transfer)
}

enum Kind {
    File,
    Directory,
    Link,
    Special,
}

fn kind_of(fd: &OwnedFd) -> io::Result<Kind> {
    Ok(kind(rustix::fs::fstat(fd)?.st_mode))
}

fn kind(mode: u32) -> Kind {
    match mode & libc::S_IFMT {
        libc::S_IFREG => Kind::File,
        libc::S_IFDIR => Kind::Directory,
        libc::S_IFLNK => Kind::Link,
        _ => Kind::Special,
    }
}

struct Download {
    caps: TransferCaps,
    transfer: Transfer,
}

impl Download {
    fn directory(
        &mut self,
        from: &OwnedFd,
        path: &Path,
        parent: &OwnedFd,
        name: &OsStr,
        depth: usize,
    ) -> Result<(), TransferError> {
        if depth > MAX_DEPTH {
            return Err(TransferError::TooDeep { path: path.to_path_buf() });
        }
        self.transfer.count_file(self.caps)?;
        let target =
            |e: rustix::io::Errno| TransferError::Target { path: path.to_path_buf(), source: e.into() };
        rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o700)).map_err(target)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let to = rustix::fs::openat(parent, name, flags, Mode::empty()).map_err(target)?;
        let source =
            |e: rustix::io::Errno| TransferError::Source { path: path.to_path_buf(), source: e.into() };
        for entry in Dir::read_from(from).map_err(source)? {
            let entry = entry.map_err(source)?;
            let entry_name = OsStr::from_bytes(entry.file_name().to_bytes());
            if entry_name != "." && entry_name != ".." {
                self.entry(from, &path.join(entry_name), &to, entry_name, depth)?;
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        from: &OwnedFd,
        path: &Path,
        to: &OwnedFd,
        name: &OsStr,
        depth: usize,
    ) -> Result<(), TransferError> {
        let source = |source| TransferError::Source { path: path.to_path_buf(), source };
        let status = rustix::fs::statat(from, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
        match kind(status.map_err(|e| source(e.into()))?.st_mode) {
            Kind::File => self.file_at(from, Path::new(name), path, to, name),
            Kind::Directory => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY;
                let opened = open_beneath(from, name, flags).map_err(source)?;
                self.directory(&opened, path, to, name, depth + 1)
            }
            Kind::Link => self.skip(path, SkipReason::SymbolicLink),
            Kind::Special => self.skip(path, SkipReason::SpecialFile),
        }
    }

    fn skip(&mut self, path: &Path, reason: SkipReason) -> Result<(), TransferError> {
        self.transfer.skipped.push((path.to_path_buf(), reason));
        self.transfer.count_file(self.caps)
    }

    fn file(
        &mut self,
        root: BorrowedFd<'_>,
        path: &Path,
        parent: &OwnedFd,
        name: &OsStr,
    ) -> Result<(), TransferError> {
        self.file_at(root, path, path, parent, name)
    }

    fn file_at(
        &mut self,
        from: impl AsFd,
        inner: &Path,
        path: &Path,
        parent: &OwnedFd,
        name: &OsStr,
    ) -> Result<(), TransferError> {
        self.transfer.count_file(self.caps)?;
        let source = |source| TransferError::Source { path: path.to_path_buf(), source };
        // What was a file a moment ago may be a pipe now; `open_beneath` does not wait for its other end.
        let opened = open_beneath(from, inner, OFlags::RDONLY).map_err(source)?;
        let Kind::File = kind_of(&opened).map_err(source)? else {
            return self.skip(path, SkipReason::SpecialFile);
        };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = rustix::fs::openat(parent, name, flags, Mode::from_raw_mode(0o600));
        let target =
            |e: rustix::io::Errno| TransferError::Target { path: PathBuf::from(name), source: e.into() };
        let mut made = File::from(made.map_err(target)?);
        self.transfer.copy(self.caps, (path, &mut File::from(opened)), (Path::new(name), &mut made))
    }
}
