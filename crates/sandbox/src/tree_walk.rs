//! The one walk over a directory tree: bounded in entries and depth, by descriptor, following no symbolic link. The tree
//! may belong to an attacker who changes it meanwhile.

use crate::beneath::open_beneath;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// How far a walk goes.
#[derive(Clone, Copy, Debug)]
pub struct WalkLimits {
    pub entries: usize,
    pub depth: usize,
    pub unreadable: Unreadable,
}

/// What a walk does about a directory that it cannot list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    Fail,
    Skip,
}

/// One entry of the tree.
#[derive(Debug)]
pub struct TreeEntry<'a> {
    /// The directory that holds it.
    pub parent: BorrowedFd<'a>,
    pub name: &'a OsStr,
    /// Relative to the root of the walk.
    pub path: &'a Path,
    pub kind: FileType,
}

impl TreeEntry<'_> {
    /// Opens it for reading; a link is refused and a pipe does not block.
    pub fn open(&self) -> io::Result<OwnedFd> {
        open_beneath(self.parent, self.name, OFlags::RDONLY)
    }

    /// How many directories it is below the root of the walk; 0 for the root's own entries.
    pub fn depth(&self) -> usize {
        self.path.components().count() - 1
    }

    /// Its metadata now, without following a link.
    pub fn status(&self) -> io::Result<Stat> {
        Ok(rustix::fs::statat(self.parent, self.name, AtFlags::SYMLINK_NOFOLLOW)?)
    }
}

/// Whether the walk enters a directory. Ignored for other entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descend {
    Yes,
    No,
}

/// Why a walk ended early. `E` is the visitor's own error.
#[derive(Debug)]
pub enum WalkError<E> {
    Visit(E),
    Read { path: PathBuf, source: io::Error },
    TooManyEntries { most: usize },
    TooDeep { path: PathBuf },
}

impl<E: fmt::Display> fmt::Display for WalkError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Visit(error) => error.fmt(f),
            Self::Read { path, source } => write!(f, "{}: {source}", path.display()),
            Self::TooManyEntries { most } => write!(f, "it has more than {most} files"),
            Self::TooDeep { path } => write!(f, "{} is nested too deep", path.display()),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for WalkError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Visit(error) => error.source(),
            Self::Read { source, .. } => Some(source),
            Self::TooManyEntries { .. } | Self::TooDeep { .. } => None,
        }
    }
}

impl WalkError<io::Error> {
    /// The same as a system error, for callers that treat both alike.
    pub fn into_io(self) -> io::Error {
        match self {
            Self::Visit(error) => error,
            Self::Read { ref source, .. } => io::Error::new(source.kind(), self.to_string()),
            Self::TooManyEntries { .. } | Self::TooDeep { .. } => io::Error::other(self),
        }
    }
}

/// Calls `visit` for every entry below `root`, in the order of their names, a directory before what is in it.
pub fn walk_tree<E>(
    root: impl AsFd,
    limits: WalkLimits,
    visit: &mut dyn FnMut(&TreeEntry<'_>) -> Result<Descend, E>,
) -> Result<(), WalkError<E>> {
    let mut walk = TreeWalk { limits, entries: 0, visit };
    walk.directory(root.as_fd(), Path::new(""), 0)
}

/// The same for a directory by its path.
pub fn walk_directory<E>(
    root: &Path,
    limits: WalkLimits,
    visit: &mut dyn FnMut(&TreeEntry<'_>) -> Result<Descend, E>,
) -> Result<(), WalkError<E>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::open(root, flags, Mode::empty()) {
        Ok(root) => walk_tree(root, limits, visit),
        Err(_) if limits.unreadable == Unreadable::Skip => Ok(()),
        Err(error) => Err(WalkError::Read { path: root.to_path_buf(), source: error.into() }),
    }
}

struct TreeWalk<'v, E> {
    limits: WalkLimits,
    entries: usize,
    visit: &'v mut dyn FnMut(&TreeEntry<'_>) -> Result<Descend, E>,
}

impl<E> TreeWalk<'_, E> {
    fn directory(&mut self, parent: BorrowedFd<'_>, path: &Path, depth: usize) -> Result<(), WalkError<E>> {
        if depth > self.limits.depth {
            return Err(WalkError::TooDeep { path: path.to_path_buf() });
        }
        let left = self.limits.entries.saturating_sub(self.entries);
        let names = match names(parent, left + 1) {
            Ok(names) => names,
            Err(_) if self.limits.unreadable == Unreadable::Skip => return Ok(()),
            Err(source) => return Err(WalkError::Read { path: path.to_path_buf(), source }),
        };
        for (name, kind) in names {
            self.entries += 1;
            if self.entries > self.limits.entries {
                return Err(WalkError::TooManyEntries { most: self.limits.entries });
            }
            self.entry(parent, &path.join(&name), &name, kind, depth)?;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        parent: BorrowedFd<'_>,
        path: &Path,
        name: &OsStr,
        kind: FileType,
        depth: usize,
    ) -> Result<(), WalkError<E>> {
        let mut entry = TreeEntry { parent, name, path, kind };
        if kind == FileType::Unknown {
            // Gone since it was listed.
            let Ok(status) = entry.status() else { return Ok(()) };
            entry.kind = FileType::from_raw_mode(status.st_mode);
        }
        let descend = (self.visit)(&entry).map_err(WalkError::Visit)?;
        if entry.kind != FileType::Directory || descend == Descend::No {
            return Ok(());
        }
        match open_beneath(parent, name, OFlags::RDONLY | OFlags::DIRECTORY) {
            Ok(directory) => self.directory(directory.as_fd(), path, depth + 1),
            Err(_) if self.limits.unreadable == Unreadable::Skip => Ok(()),
            Err(source) => Err(WalkError::Read { path: path.to_path_buf(), source }),
        }
    }
}

/// The names in a directory with their kinds, in order; at most `most`.
fn names(directory: BorrowedFd<'_>, most: usize) -> io::Result<Vec<(OsString, FileType)>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push((OsString::from_vec(name.to_vec()), entry.file_type()));
        }
        if names.len() >= most {
            break;
        }
    }
    names.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn walked(root: &Path, limits: WalkLimits) -> Result<Vec<String>, WalkError<io::Error>> {
        let mut found = Vec::new();
        walk_directory(root, limits, &mut |entry: &TreeEntry<'_>| {
            found.push(entry.path.display().to_string());
            Ok(if entry.name == "closed" { Descend::No } else { Descend::Yes })
        })?;
        Ok(found)
    }

    #[test]
    fn a_tree_is_walked_in_order_without_its_links_and_within_its_limits() {
        let root = PathBuf::from(format!("/tmp/sandbox-walk-{}", std::process::id()));
        for directory in ["a/b/c", "closed/inside", "z"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        fs::write(root.join("a/file"), "").unwrap();
        std::os::unix::fs::symlink("/", root.join("link")).unwrap();
        let limits = WalkLimits { entries: 100, depth: 3, unreadable: Unreadable::Fail };
        let all = ["a", "a/b", "a/b/c", "a/file", "closed", "link", "z"];
        assert_eq!(walked(&root, limits).unwrap(), all);
        assert!(walked(&root, WalkLimits { entries: 7, ..limits }).is_ok());
        let many = walked(&root, WalkLimits { entries: 6, ..limits });
        assert!(matches!(many, Err(WalkError::TooManyEntries { most: 6 })), "{many:?}");
        let deep = walked(&root, WalkLimits { depth: 2, ..limits });
        assert!(matches!(deep, Err(WalkError::TooDeep { .. })), "{deep:?}");
        let absent = root.join("absent");
        assert!(matches!(walked(&absent, limits), Err(WalkError::Read { .. })));
        assert!(walked(&absent, WalkLimits { unreadable: Unreadable::Skip, ..limits }).unwrap().is_empty());
        fs::remove_dir_all(&root).unwrap();
    }
}
