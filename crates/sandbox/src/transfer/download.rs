//! Out of the sandbox: a file or a tree becomes a new one on the host, with plain modes and nothing but files and
//! directories in it.

use super::{MAX_DEPTH, SkipReason, Transfer, TransferCaps, TransferError};
use crate::beneath::open_beneath;
use crate::tree_walk::{Descend, TreeEntry, Unreadable, WalkError, WalkLimits, walk_tree};
use rustix::fs::{FileType, Mode, OFlags};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Copies `from`, a path inside, to `to` on the host, which must not exist.
pub fn download(
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
        FileType::RegularFile => {
            let opened = open_beneath(root, from, OFlags::RDONLY).map_err(source)?;
            download.file(opened, from, &parent, name)?;
        }
        FileType::Directory => {
            let opened = open_beneath(root, from, OFlags::RDONLY | OFlags::DIRECTORY).map_err(source)?;
            download.directory(&opened, from, &parent, name)?;
        }
        _ => return Err(source(io::Error::other("it is neither a file nor a directory"))),
    }
    Ok(download.transfer)
}

fn kind_of(fd: &OwnedFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode))
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
    ) -> Result<(), TransferError> {
        self.transfer.count_file(self.caps)?;
        let target = |source| TransferError::Target { path: PathBuf::from(name), source };
        let to = make_directory(parent, name).map_err(target)?;
        let entries = usize::try_from(self.caps.files).unwrap_or(usize::MAX);
        let limits = WalkLimits { entries, depth: MAX_DEPTH, unreadable: Unreadable::Fail };
        let cap = self.caps.files;
        walk_tree(from, limits, &mut |entry: &TreeEntry<'_>| self.entry(entry, path, &to)).map_err(|error| {
            match error {
                WalkError::Visit(error) => error,
                WalkError::Read { path: inner, source } => {
                    TransferError::Source { path: path.join(inner), source }
                }
                WalkError::TooManyEntries { .. } => TransferError::TooManyFiles { cap },
                WalkError::TooDeep { path: inner } => TransferError::TooDeep { path: path.join(inner) },
            }
        })
    }

    fn entry(&mut self, entry: &TreeEntry<'_>, above: &Path, to: &OwnedFd) -> Result<Descend, TransferError> {
        let path = above.join(entry.path);
        let target = |source| TransferError::Target { path: entry.path.to_path_buf(), source };
        let inner = entry.path.parent().unwrap_or(Path::new(""));
        let parent = || open_beneath(to, inner, OFlags::PATH | OFlags::DIRECTORY).map_err(target);
        match entry.kind {
            FileType::RegularFile => {
                // The file may have become a pipe or a link meanwhile; opening does not block and follows no link.
                let opened = entry.open();
                let opened = opened.map_err(|source| TransferError::Source { path: path.clone(), source })?;
                self.file(opened, &path, &parent()?, entry.name)?;
            }
            FileType::Directory => {
                self.transfer.count_file(self.caps)?;
                make_directory(&parent()?, entry.name).map_err(target)?;
            }
            FileType::Symlink => self.skip(&path, SkipReason::SymbolicLink)?,
            _ => self.skip(&path, SkipReason::SpecialFile)?,
        }
        Ok(Descend::Yes)
    }

    fn skip(&mut self, path: &Path, reason: SkipReason) -> Result<(), TransferError> {
        self.transfer.skipped.push((path.to_path_buf(), reason));
        self.transfer.count_file(self.caps)
    }

    fn file(
        &mut self,
        opened: OwnedFd,
        path: &Path,
        parent: &OwnedFd,
        name: &OsStr,
    ) -> Result<(), TransferError> {
        let source = |source| TransferError::Source { path: path.to_path_buf(), source };
        if kind_of(&opened).map_err(source)? != FileType::RegularFile {
            return self.skip(path, SkipReason::SpecialFile);
        }
        self.transfer.count_file(self.caps)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = rustix::fs::openat(parent, name, flags, Mode::from_raw_mode(0o600));
        let target =
            |e: rustix::io::Errno| TransferError::Target { path: PathBuf::from(name), source: e.into() };
        let mut made = File::from(made.map_err(target)?);
        self.transfer.copy(self.caps, (path, &mut File::from(opened)), (Path::new(name), &mut made))
    }
}

fn make_directory(parent: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o700))?;
    open_beneath(parent, name, OFlags::PATH | OFlags::DIRECTORY)
}
