//! What the agent changed in the repository: compares its view with the host's tree. If the view keeps its changes in an
//! overlay layer, only names in that layer are compared, so that the time depends on the changes alone. No link is
//! followed and nothing is run. An untouched file has the same change time as the host's, which no process inside can
//! set; all others are compared by content.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, OFlags, Stat};
use rustix::io::Errno;
use sandbox::open_beneath;

use super::error::QuarantineError;
use crate::git::recognised::is_dot_git;

/// The most changes. A person cannot review more.
const MAX_CHANGES: usize = 100_000;
const MAX_DEPTH: usize = 64;

/// A path that is not as it was, relative to the repository.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChangedFile {
    pub path: String,
    pub kind: ChangeKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeKind {
    Added,
    Modified,
    Deleted,
}

/// One directory: in the view, on the host, and in the layer of changes. `None` where it is not.
struct DirectorySides<'a> {
    view: Option<BorrowedFd<'a>>,
    host: Option<BorrowedFd<'a>>,
    layer: Option<BorrowedFd<'a>>,
}

pub struct RepositoryDiff<'a> {
    /// Relative paths that the view hides or that we added: not changes of the agent.
    pub fullsend_files: &'a [PathBuf],
    pub found: Vec<ChangedFile>,
}

impl RepositoryDiff<'_> {
    /// Compares the two directories and everything below. `layer` is the overlay layer with the view's changes.
    pub fn compare(
        &mut self,
        view: BorrowedFd<'_>,
        host: BorrowedFd<'_>,
        layer: Option<BorrowedFd<'_>>,
    ) -> Result<(), QuarantineError> {
        self.directory(&DirectorySides { view: Some(view), host: Some(host), layer }, "", 0)?;
        self.found.sort();
        Ok(())
    }

    fn directory(
        &mut self,
        sides: &DirectorySides<'_>,
        path: &str,
        depth: usize,
    ) -> Result<(), QuarantineError> {
        if depth > MAX_DEPTH {
            return Err(QuarantineError::Refused { path: path.to_owned(), why: "is nested too deep" });
        }
        let names = match sides.layer {
            Some(layer) => names(Some(layer), path)?,
            None => names(sides.view, path)?.into_iter().chain(names(sides.host, path)?).collect(),
        };
        for name in names {
            // Git's own data, in any spelling of `.git` that some file system accepts, is never part of the tree.
            if is_dot_git(OsStr::new(&name)) {
                continue;
            }
            let below = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
            self.entry(sides, &name, &below, depth)?;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        sides: &DirectorySides<'_>,
        name: &str,
        path: &str,
        depth: usize,
    ) -> Result<(), QuarantineError> {
        let DirectorySides { view, host, .. } = *sides;
        let ours = stat(view, name, path)?;
        let theirs = stat(host, name, path)?;
        let is_directory =
            |about: Option<&Stat>| about.is_some_and(|about| kind(about) == FileType::Directory);
        let view_directory = is_directory(ours.as_ref());
        let host_directory = is_directory(theirs.as_ref());
        if view_directory || host_directory {
            let inside = open_directory(view.filter(|_| view_directory), name, path)?;
            let outside = open_directory(host.filter(|_| host_directory), name, path)?;
            let both = view_directory && host_directory;
            let layer = sides.layer.filter(|_| both).and_then(|layer| open_layer(layer, name));
            let below = DirectorySides {
                view: inside.as_ref().map(OwnedFd::as_fd),
                host: outside.as_ref().map(OwnedFd::as_fd),
                layer: layer.as_ref().map(OwnedFd::as_fd),
            };
            self.directory(&below, path, depth + 1)?;
        }
        let kept = |about: Option<Stat>| {
            about.filter(|about| matches!(kind(about), FileType::RegularFile | FileType::Symlink))
        };
        let change = match (kept(ours), kept(theirs)) {
            (None, None) => None,
            _ if self.fullsend_files.iter().any(|own| own == Path::new(path)) => None,
            (Some(_), None) => Some(ChangeKind::Added),
            (None, Some(_)) => Some(ChangeKind::Deleted),
            (Some(ours), Some(theirs)) => {
                let same = same((view, &ours), (host, &theirs), name);
                let same = same.map_err(|source| QuarantineError::unreadable(path.to_owned(), source))?;
                (!same).then_some(ChangeKind::Modified)
            }
        };
        if let Some(kind) = change {
            if self.found.len() >= MAX_CHANGES {
                return Err(QuarantineError::Refused {
                    path: path.to_owned(),
                    why: "is one change too many",
                });
            }
            self.found.push(ChangedFile { path: path.to_owned(), kind });
        }
        Ok(())
    }
}

fn kind(about: &Stat) -> FileType {
    FileType::from_raw_mode(about.st_mode)
}

/// Names that are not UTF-8 are left out: a patch cannot name them safely.
fn names(directory: Option<BorrowedFd<'_>>, path: &str) -> Result<BTreeSet<String>, QuarantineError> {
    let Some(directory) = directory else { return Ok(BTreeSet::new()) };
    let failed = |source: Errno| QuarantineError::unreadable(path.to_owned(), source.into());
    let mut all = BTreeSet::new();
    for entry in Dir::read_from(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        if name != "." && name != ".." && !name.chars().any(char::is_control) {
            all.insert(name.to_owned());
        }
    }
    Ok(all)
}

fn stat(directory: Option<BorrowedFd<'_>>, name: &str, path: &str) -> Result<Option<Stat>, QuarantineError> {
    let Some(directory) = directory else { return Ok(None) };
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(about) => Ok(Some(about)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(QuarantineError::unreadable(path.to_owned(), error.into())),
    }
}

/// The layer's own directory of a name. `None` for a new directory, which hides the host's: then everything in it is
/// compared. Overlayfs marks it, and no process inside can write the mark.
fn open_layer(layer: BorrowedFd<'_>, name: &str) -> Option<OwnedFd> {
    let directory = open_beneath(layer, name, OFlags::RDONLY | OFlags::DIRECTORY).ok()?;
    match rustix::fs::fgetxattr(&directory, "user.overlay.opaque", &mut [0_u8; 8]) {
        Err(Errno::NODATA) => Some(directory),
        _ => None,
    }
}

fn open_directory(
    from: Option<BorrowedFd<'_>>,
    name: &str,
    path: &str,
) -> Result<Option<OwnedFd>, QuarantineError> {
    let Some(from) = from else { return Ok(None) };
    let opened = open_beneath(from, name, OFlags::RDONLY | OFlags::DIRECTORY);
    opened.map(Some).map_err(|source| QuarantineError::unreadable(path.to_owned(), source))
}

fn same(
    (view, ours): (Option<BorrowedFd<'_>>, &Stat),
    (host, theirs): (Option<BorrowedFd<'_>>, &Stat),
    name: &str,
) -> std::io::Result<bool> {
    let executable = |about: &Stat| about.st_mode & 0o100;
    if kind(ours) != kind(theirs) || executable(ours) != executable(theirs) || ours.st_size != theirs.st_size
    {
        return Ok(false);
    }
    let changed = |about: &Stat| (about.st_ctime, about.st_ctime_nsec);
    if changed(ours) == changed(theirs) {
        return Ok(true);
    }
    let (Some(view), Some(host)) = (view, host) else { return Ok(false) };
    if kind(ours) == FileType::Symlink {
        let link = |from| rustix::fs::readlinkat(from, name, Vec::new());
        return Ok(link(view)? == link(host)?);
    }
    same_content(open_beneath(view, name, OFlags::RDONLY)?, open_beneath(host, name, OFlags::RDONLY)?)
}

fn same_content(one: OwnedFd, other: OwnedFd) -> std::io::Result<bool> {
    let mut one = std::fs::File::from(one);
    let mut other = std::fs::File::from(other);
    let mut first = vec![0; 64 << 10];
    let mut second = Vec::new();
    loop {
        let length = one.read(&mut first)?;
        second.resize(length, 0);
        match other.read_exact(&mut second) {
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(false),
            read => read?,
        }
        if first[..length] != second[..] {
            return Ok(false);
        }
        if length == 0 {
            return Ok(other.read(&mut [0])? == 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::Mode;

    #[test]
    fn every_kind_of_change_is_found_and_nothing_else() {
        let view = tempfile::tempdir().unwrap();
        let host = tempfile::tempdir().unwrap();
        let write = |root: &tempfile::TempDir, path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        for root in [&view, &host] {
            write(root, "same", "x");
            write(root, "deep/er/same", "x");
            write(root, ".git/config", root.path().to_str().unwrap());
        }
        write(&host, "edited", "one");
        // A change in the same tick of the kernel's clock would not be seen.
        std::thread::sleep(std::time::Duration::from_millis(30));
        write(&view, "edited", "two");
        write(&host, "gone/file", "x");
        write(&host, "masked/.env", "x");
        write(&view, "new/file", "x");
        write(&view, "sub/.GIT/config", "x");
        write(&host, "was-directory/file", "x");
        write(&view, "was-directory", "x");
        std::os::unix::fs::symlink("/etc/passwd", view.path().join("link")).unwrap();
        let open = |place: &tempfile::TempDir| {
            rustix::fs::open(place.path(), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap()
        };
        let mut walk = RepositoryDiff { fullsend_files: &["masked/.env".into()], found: Vec::new() };
        walk.compare(open(&view).as_fd(), open(&host).as_fd(), None).unwrap();
        let found: Vec<(&str, ChangeKind)> =
            walk.found.iter().map(|one| (one.path.as_str(), one.kind)).collect();
        assert_eq!(
            found,
            [
                ("edited", ChangeKind::Modified),
                ("gone/file", ChangeKind::Deleted),
                ("link", ChangeKind::Added),
                ("new/file", ChangeKind::Added),
                ("was-directory", ChangeKind::Added),
                ("was-directory/file", ChangeKind::Deleted),
            ]
        );
    }

    #[test]
    fn diff_reads_only_paths_of_the_overlay_layer() {
        let [view, host, layer] = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let write = |root: &tempfile::TempDir, path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        for path in ["changed", "below/changed", "below/left", "unlisted/left"] {
            write(&host, path, "old");
            write(&view, path, "other");
        }
        write(&host, "gone", "old");
        write(&view, "anew/file", "new");
        for path in ["changed", "below/changed", "gone", "anew/file"] {
            write(&layer, path, "");
        }
        let open = |place: &tempfile::TempDir| {
            rustix::fs::open(place.path(), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap()
        };
        let found = || {
            let mut walk = RepositoryDiff { fullsend_files: &[], found: Vec::new() };
            walk.compare(open(&view).as_fd(), open(&host).as_fd(), Some(open(&layer).as_fd())).unwrap();
            walk.found.into_iter().map(|one| one.path).collect::<Vec<_>>()
        };
        assert_eq!(found(), ["anew/file", "below/changed", "changed", "gone"]);
        let below = std::fs::File::open(layer.path().join("below")).unwrap();
        if rustix::fs::fsetxattr(below, "user.overlay.opaque", b"y", rustix::fs::XattrFlags::CREATE).is_ok() {
            assert_eq!(found(), ["anew/file", "below/changed", "below/left", "changed", "gone"]);
        }
    }
}
