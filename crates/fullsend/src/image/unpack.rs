//! Unpacks the files of one layer into a directory. Everything is created relative to descriptors that were opened
//! without following links, so that no entry can reach anything outside, whatever earlier entries did. The caller owns
//! every file. Setuid bits, devices and attributes are dropped. Every user may read every file, because whoever may use
//! an image may read all of it.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Timespec, Timestamps, XattrFlags};
use rustix::io::Errno;
use sandbox::{Descend, TreeEntry, Unreadable, WalkError, WalkLimits, walk_directory};
use tar::{Archive, EntryType};

use super::entries::{self, TarEntry};

/// No path of an image is longer than 4,096 bytes, so none is deeper.
const MAX_DEPTH: usize = 2_048;

const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";
/// The prefix of attributes that overlayfs reads for mounts of ordinary users.
const OPAQUE_ATTRIBUTE: &str = "user.overlay.opaque";

/// How to handle an entry that removes a lower layer's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whiteouts {
    /// Write a mark for overlayfs, which stacks this directory on others.
    Mark,
    /// Remove the file: the directory already contains the lower layers.
    Apply,
}

#[derive(Debug)]
pub enum UnpackError {
    /// The file system cannot hold a mark for overlayfs.
    CannotMark,
    /// Something is wrong with the archive.
    Archive(io::Error),
    /// Something is wrong with the directory.
    Directory(io::Error),
}

impl std::fmt::Display for UnpackError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::CannotMark => f.write_str("its file system cannot hold layers"),
            Self::Archive(error) | Self::Directory(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for UnpackError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::CannotMark => None,
            Self::Archive(error) | Self::Directory(error) => Some(error),
        }
    }
}

pub fn unpack(
    plain: impl Read,
    into: &Path,
    whiteouts: Whiteouts,
    entries_left: &mut u64,
) -> Result<(), UnpackError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(into, flags, Mode::empty()).map_err(|e| UnpackError::Directory(e.into()))?;
    let mut unpacker = Unpacker { root, path: into, whiteouts, made: HashSet::new(), failure: None };
    let mut archive = Archive::new(plain);
    let walked = archive.entries().and_then(|all| {
        entries::walk(all, |entry, contents| {
            *entries_left = entries_left
                .checked_sub(1)
                .ok_or_else(|| io::Error::other("it has more files than an image may have"))?;
            unpacker.entry(&entry, contents)
        })
    });
    match (walked, unpacker.failure) {
        (_, Some(failure)) => Err(failure),
        (Err(error), None) => Err(UnpackError::Archive(error)),
        (Ok(()), None) => Ok(()),
    }
}

struct Unpacker<'a> {
    root: OwnedFd,
    path: &'a Path,
    whiteouts: Whiteouts,
    /// The paths that this layer created, if lower layers are in the same directory.
    made: HashSet<PathBuf>,
    /// A failure of this machine, not of the archive.
    failure: Option<UnpackError>,
}

impl Unpacker<'_> {
    fn entry(&mut self, entry: &TarEntry, contents: &mut dyn Read) -> io::Result<()> {
        let shown = entry.path.display();
        let Some(name) = entry.path.file_name().map(Path::new) else { return Ok(()) };
        let in_whiteout = entry.path.parent().into_iter().flat_map(Path::components);
        if in_whiteout.map(|part| part.as_os_str().as_bytes()).any(|part| part.starts_with(WHITEOUT)) {
            return Err(io::Error::other(format!("its entry `{shown}` lies in a removed file")));
        }
        let parent = self.parent(&entry.path)?;
        if name.as_os_str().as_bytes().starts_with(WHITEOUT) {
            return self.whiteout(&parent, &entry.path, name);
        }
        if self.whiteouts == Whiteouts::Apply {
            self.made.extend(entry.path.ancestors().map(Path::to_path_buf));
        }
        match entry.kind {
            EntryType::Regular | EntryType::Continuous => self.file(&parent, name, entry, contents),
            EntryType::Directory => self.directory(&parent, name, &entry.path),
            EntryType::Symlink => {
                let to = entry.link.as_deref().unwrap_or_default();
                self.clear(&parent, name, &entry.path)?;
                let made = rustix::fs::symlinkat(std::ffi::OsStr::from_bytes(to), &parent, name);
                self.mark_directory_error(made)
            }
            EntryType::Link => self.hard_link(&parent, name, entry),
            EntryType::GNUSparse => {
                Err(io::Error::other(format!("its entry `{shown}` is sparse, which is not supported")))
            }
            // Skip devices, pipes and other special files: the sandbox has its own.
            _ => Ok(()),
        }
    }

    /// The directory of an entry, created if an earlier entry did not.
    fn parent(&mut self, path: &Path) -> io::Result<OwnedFd> {
        let mut here = rustix::io::fcntl_dupfd_cloexec(&self.root, 3)?;
        let mut so_far = PathBuf::new();
        for part in path.parent().into_iter().flat_map(Path::components) {
            let name = Path::new(part.as_os_str());
            so_far.push(name);
            here = match open_directory(&here, name) {
                Ok(directory) => directory,
                Err(Errno::NOENT) => self.new_directory(&here, name)?,
                Err(Errno::NOTDIR | Errno::LOOP) if self.covers(&here, name) => {
                    self.clear(&here, name, &so_far)?;
                    self.new_directory(&here, name)?
                }
                Err(Errno::NOTDIR | Errno::LOOP) => {
                    let why = format!(
                        "its entry `{}` goes through `{}`, which is not a directory",
                        path.display(),
                        so_far.display()
                    );
                    return Err(io::Error::other(why));
                }
                Err(e) => return self.mark_directory_error(Err(e)),
            };
        }
        Ok(here)
    }

    /// Whether `name` came from a lower layer and this layer's entry replaces it.
    fn covers(&self, parent: &OwnedFd, name: &Path) -> bool {
        self.whiteouts == Whiteouts::Apply || is_mark(parent, name)
    }

    fn new_directory(&mut self, parent: &OwnedFd, name: &Path) -> io::Result<OwnedFd> {
        let made = rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o755))
            .and_then(|()| open_directory(parent, name));
        self.mark_directory_error(made)
    }

    fn directory(&mut self, parent: &OwnedFd, name: &Path, path: &Path) -> io::Result<()> {
        let was_marked = is_mark(parent, name);
        if open_directory(parent, name).is_ok() {
            return Ok(());
        }
        self.clear(parent, name, path)?;
        let directory = self.new_directory(parent, name)?;
        if was_marked { self.mark_opaque(&directory) } else { Ok(()) }
    }

    fn file(
        &mut self,
        parent: &OwnedFd,
        name: &Path,
        entry: &TarEntry,
        contents: &mut dyn Read,
    ) -> io::Result<()> {
        self.clear(parent, name, &entry.path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let executable = entry.header.mode().unwrap_or(0o644) & 0o111 != 0;
        let mode = Mode::from_raw_mode(if executable { 0o755 } else { 0o644 });
        let made = rustix::fs::openat(parent, name, flags, mode);
        let mut file = File::from(self.mark_directory_error(made)?);
        let expected = entry.header.size()?;
        let copied = copy(contents, &mut file);
        let copied = self.check(copied)?;
        if copied != expected {
            return Err(io::Error::other(format!("its entry `{}` is cut off", entry.path.display())));
        }
        let seconds = i64::try_from(entry.header.mtime().unwrap_or(0)).unwrap_or(0);
        let time = Timespec { tv_sec: seconds, tv_nsec: 0 };
        let times = Timestamps { last_access: time, last_modification: time };
        // Set the mode, because the caller's umask changed it; set the time, because caches in the image depend on it.
        let finished = rustix::fs::fchmod(&file, mode).and_then(|()| rustix::fs::futimens(&file, &times));
        self.mark_directory_error(finished)
    }

    fn hard_link(&mut self, parent: &OwnedFd, name: &Path, entry: &TarEntry) -> io::Result<()> {
        let target = entries::relative(entry.link.as_deref().unwrap_or_default())?;
        let why = || {
            format!(
                "its entry `{}` is a link to `{}`, which is not in the layer",
                entry.path.display(),
                target.display()
            )
        };
        let directory = target.parent().unwrap_or(Path::new(""));
        let from = if directory.as_os_str().is_empty() {
            rustix::io::fcntl_dupfd_cloexec(&self.root, 3)
        } else {
            open_directory(&self.root, directory)
        };
        let from = from.map_err(|_| io::Error::other(why()))?;
        let original = target.file_name().map(Path::new).ok_or_else(|| io::Error::other(why()))?;
        if (original, &target) == (name, &entry.path) {
            return Err(io::Error::other(why()));
        }
        match rustix::fs::statat(&from, original, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(status) if FileType::from_raw_mode(status.st_mode) != FileType::Directory => {}
            _ => return Err(io::Error::other(why())),
        }
        self.clear(parent, name, &entry.path)?;
        let made = rustix::fs::linkat(&from, original, parent, name, AtFlags::empty());
        self.mark_directory_error(made)
    }

    fn whiteout(&mut self, parent: &OwnedFd, path: &Path, name: &Path) -> io::Result<()> {
        let bytes = name.as_os_str().as_bytes();
        if bytes == OPAQUE {
            return match self.whiteouts {
                Whiteouts::Mark if path.parent() == Some(Path::new("")) => {
                    Err(io::Error::other("it removes everything below it, which is not supported"))
                }
                Whiteouts::Mark => self.mark_opaque(parent),
                Whiteouts::Apply => {
                    let purged = self.purge(path.parent().unwrap_or(Path::new("")));
                    self.mark_directory_error(purged)
                }
            };
        }
        let gone = Path::new(std::ffi::OsStr::from_bytes(&bytes[WHITEOUT.len()..]));
        // Other names with this prefix are metadata of another tool.
        if gone.as_os_str().as_bytes().starts_with(WHITEOUT) {
            return Ok(());
        }
        if gone.file_name() != Some(gone.as_os_str()) {
            return Err(io::Error::other(format!(
                "its entry `{}` removes nothing that can have a name",
                path.display()
            )));
        }
        match self.whiteouts {
            Whiteouts::Apply if self.made.contains(&path.with_file_name(gone)) => {
                let purged = self.purge(&path.with_file_name(gone)).or_else(|error| match error.kind() {
                    io::ErrorKind::NotADirectory => Ok(()),
                    _ => Err(error),
                });
                self.mark_directory_error(purged)
            }
            Whiteouts::Apply => self.clear(parent, gone, &path.with_file_name(gone)),
            Whiteouts::Mark => self.mark_gone(parent, gone),
        }
    }

    /// Removes what lower layers put into a directory, and nothing of this one.
    fn purge(&self, directory: &Path) -> io::Result<()> {
        let root = self.path.join(directory);
        let limits = WalkLimits { entries: usize::MAX - 1, depth: MAX_DEPTH, unreadable: Unreadable::Fail };
        let purged = walk_directory(&root, limits, &mut |entry: &TreeEntry<'_>| {
            if self.made.contains(&directory.join(entry.path)) {
                return Ok(Descend::Yes);
            }
            match entry.kind {
                FileType::Directory => std::fs::remove_dir_all(root.join(entry.path))?,
                _ => std::fs::remove_file(root.join(entry.path))?,
            }
            Ok(Descend::No)
        });
        purged.map_err(WalkError::into_io)
    }

    /// A removal applies to lower layers: this layer's own files stay.
    fn mark_gone(&mut self, parent: &OwnedFd, gone: &Path) -> io::Result<()> {
        if let Ok(directory) = open_directory(parent, gone) {
            return self.mark_opaque(&directory);
        }
        let mode = Mode::from_raw_mode(0o600);
        match rustix::fs::mknodat(parent, gone, FileType::CharacterDevice, mode, 0) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::INVAL) => self.cannot_mark(),
            Err(e) => self.mark_directory_error(Err(e)),
        }
    }

    fn mark_opaque(&mut self, directory: &OwnedFd) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(directory, ".", flags, Mode::empty());
        let opened = self.mark_directory_error(opened)?;
        match rustix::fs::fsetxattr(&opened, OPAQUE_ATTRIBUTE, b"y", XattrFlags::empty()) {
            Err(Errno::PERM | Errno::OPNOTSUPP) => self.cannot_mark(),
            set => self.mark_directory_error(set),
        }
    }

    fn cannot_mark(&mut self) -> io::Result<()> {
        self.failure = Some(UnpackError::CannotMark);
        Err(io::Error::other("no marks"))
    }

    /// Removes the file at this name: the last entry with a name wins.
    fn clear(&mut self, parent: &OwnedFd, name: &Path, path: &Path) -> io::Result<()> {
        match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            // Its parents were opened without crossing a link, and no one else writes here.
            Err(Errno::ISDIR) => {
                let removed = std::fs::remove_dir_all(self.path.join(path));
                self.mark_directory_error(removed)
            }
            Err(e) => self.mark_directory_error(Err(e)),
        }
    }

    /// Marks a failure as one of the directory, not of the archive.
    fn mark_directory_error<T, E: Into<io::Error>>(&mut self, result: Result<T, E>) -> io::Result<T> {
        result.map_err(|error| {
            let error = error.into();
            let copy = error
                .raw_os_error()
                .map_or_else(|| io::Error::other(error.to_string()), io::Error::from_raw_os_error);
            self.failure = Some(UnpackError::Directory(copy));
            error
        })
    }

    fn check(&mut self, copied: Result<u64, CopyError>) -> io::Result<u64> {
        match copied {
            Ok(count) => Ok(count),
            Err(CopyError::Read(error)) => Err(error),
            Err(CopyError::Write(error)) => self.mark_directory_error(Err(error)),
        }
    }
}

/// Which side of a copy failed.
enum CopyError {
    Read(io::Error),
    Write(io::Error),
}

fn copy(from: &mut dyn Read, to: &mut File) -> Result<u64, CopyError> {
    use std::io::Write;
    let mut buffer = vec![0; 1 << 16];
    let mut total = 0;
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => return Ok(total),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(CopyError::Read(error)),
        };
        to.write_all(&buffer[..count]).map_err(CopyError::Write)?;
        total += count as u64;
    }
}

fn open_directory(parent: &OwnedFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    let opened = sandbox::open_beneath(parent, path, OFlags::PATH | OFlags::DIRECTORY);
    opened.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::INVAL))
}

/// Whether overlayfs would read this as a removed file.
fn is_mark(parent: &OwnedFd, name: &Path) -> bool {
    rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|status| {
        FileType::from_raw_mode(status.st_mode) == FileType::CharacterDevice && status.st_rdev == 0
    })
}
