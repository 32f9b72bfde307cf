//! The agent's changes in the repository as output, without files that git ignores. They are copied out within bounds,
//! redacted, and also written as a patch. Git runs only in our own directories, with our own configuration.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType, Mode, OFlags};
use sandbox::open_beneath;
use scan::Origin;

use super::error::QuarantineError;
use super::repository_diff::{ChangeKind, ChangedFile, RepositoryDiff};
use crate::git::recognised::{RepositoryFinder, is_dot_git};
use crate::git::{command, directory::directory};
use crate::guard::Guard;

const MAX_FILES: usize = 5_000;
const MAX_BYTES: u64 = 200 << 20;
const MAX_IGNORE_FILE: u64 = 1 << 20;

/// The directory that the agent changed, and what it was before.
#[derive(Clone, Copy, Debug)]
pub struct AgentRepository<'a> {
    /// The sandbox's root.
    pub root: BorrowedFd<'a>,
    /// The repository's directory inside.
    pub inside: &'a str,
    /// The overlay layer with its changes, if it is accessible.
    pub layer: Option<BorrowedFd<'a>>,
    /// The repository on the host.
    pub repository: &'a Path,
    /// Files that fullsend hid or added.
    pub fullsend_files: &'a [PathBuf],
    /// Whether the agent could change anything.
    pub writable: bool,
}

/// What the agent changed.
#[derive(Clone, Debug)]
pub struct Changes {
    pub files: Vec<ChangedFile>,
    /// The new versions, below `b/`; the old ones, below `a/`.
    pub directory: PathBuf,
    pub patch: PathBuf,
}

/// `None` if nothing that git does not ignore was changed. `into` must not exist yet.
pub fn collect(
    agent_repository: &AgentRepository<'_>,
    into: &Path,
    guard: &Guard,
) -> Result<Option<Changes>, QuarantineError> {
    if !agent_repository.writable {
        return Ok(None);
    }
    let unreadable = |source| QuarantineError::unreadable(agent_repository.inside.to_owned(), source);
    let directory = OFlags::RDONLY | OFlags::DIRECTORY;
    let view =
        open_beneath(agent_repository.root, agent_repository.inside.trim_start_matches('/'), directory)
            .map_err(unreadable)?;
    let host = rustix::fs::open(agent_repository.repository, directory | OFlags::CLOEXEC, Mode::empty());
    let host = host.map_err(|error| unreadable(error.into()))?;
    let mut walk = RepositoryDiff { fullsend_files: agent_repository.fullsend_files, found: Vec::new() };
    walk.compare(view.as_fd(), host.as_fd(), agent_repository.layer)?;
    if walk.found.is_empty() {
        return Ok(None);
    }
    let written = |path: &Path| {
        let path = path.to_owned();
        move |source| QuarantineError::Write { path, source }
    };
    std::fs::create_dir_all(into).map_err(written(into))?;
    let files = not_ignored(walk.found, view.as_fd(), agent_repository.repository, into)?;
    if files.is_empty() {
        std::fs::remove_dir_all(into).map_err(written(into))?;
        return Ok(None);
    }
    if files.len() > MAX_FILES {
        return Err(refused(&files[MAX_FILES].path, "is one changed file too many"));
    }
    if let Some(path) = repository_inside(&files, view.as_fd()).map_err(unreadable)? {
        return Err(refused(&path, super::LIKE_A_REPOSITORY));
    }
    let mut copy = ChangeCopier { bytes: 0, guard };
    for place in ["a", "b"] {
        std::fs::create_dir(into.join(place)).map_err(written(into))?;
    }
    for file in &files {
        if file.kind != ChangeKind::Added {
            copy.file(host.as_fd(), &file.path, &into.join("a"), Clean::No)?;
        }
        if file.kind != ChangeKind::Deleted {
            copy.file(view.as_fd(), &file.path, &into.join("b"), Clean::Yes)?;
        }
    }
    let patch = into.join("changes.patch");
    command::difference(into, &patch)?;
    Ok(Some(Changes { files, directory: into.to_owned(), patch }))
}

/// A directory below the top that contains a change and that git recognises as a repository: git in there would run
/// commands from a configuration that the agent wrote.
fn repository_inside(files: &[ChangedFile], view: BorrowedFd<'_>) -> std::io::Result<Option<String>> {
    let changed = files.iter().filter(|file| file.kind != ChangeKind::Deleted);
    let directories: BTreeSet<&Path> =
        changed.flat_map(|file| Path::new(&file.path).ancestors().skip(1)).collect();
    let mut finder = RepositoryFinder::default();
    for directory in directories {
        let Ok(opened) = open_beneath(view, directory, OFlags::RDONLY | OFlags::DIRECTORY) else { continue };
        for entry in Dir::read_from(&opened)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            // The repository's own `.git` is here too.
            if !is_dot_git(name) && finder.add(&directory.join(name)) {
                return Ok(Some(directory.display().to_string()));
            }
        }
    }
    Ok(None)
}

fn refused(path: &str, why: &'static str) -> QuarantineError {
    QuarantineError::Refused { path: path.to_owned(), why }
}

/// Files that git ignores, such as build products and dependencies, are not output. The agent may have changed the
/// ignore rules, but they can only keep a change from leaving.
fn not_ignored(
    found: Vec<ChangedFile>,
    view: BorrowedFd<'_>,
    repository: &Path,
    into: &Path,
) -> Result<Vec<ChangedFile>, QuarantineError> {
    let Some(index) = directory(repository).map(|directory| directory.join("index")) else {
        return Ok(found);
    };
    let above = found.iter().flat_map(|file| Path::new(&file.path).ancestors().skip(1));
    let files: BTreeSet<PathBuf> =
        above.map(|directory| directory.join(".gitignore")).chain([".git/info/exclude".into()]).collect();
    let text = |path: PathBuf| Some((small_file(view, path.to_str()?)?, path));
    let rules: Vec<(Vec<u8>, PathBuf)> = files.into_iter().filter_map(text).collect();
    // Without ignore rules nothing is ignored, so git need not run.
    let says_something = |text: &[u8]| {
        text.split(|byte| *byte == b'\n').any(|line| !line.trim_ascii().is_empty() && !line.starts_with(b"#"))
    };
    if !rules.iter().any(|(text, _)| says_something(text)) {
        return Ok(found);
    }
    let place = into.join("ignored");
    let written = |source| QuarantineError::Write { path: place.clone(), source };
    command::init(&place)?;
    for (text, path) in rules {
        let target = place.join(path);
        std::fs::create_dir_all(target.parent().unwrap_or(&place)).map_err(written)?;
        std::fs::write(target, text).map_err(written)?;
    }
    let mut ignored = command::ignored(&place, found.iter().map(|file| file.path.as_str()))?;
    // Git does not ignore tracked files. Its index grows with the repository, so it is read only if needed.
    if !ignored.is_empty() && index.is_file() {
        std::fs::copy(index, place.join(".git/index")).map_err(written)?;
        ignored = command::ignored(&place, ignored.iter().map(String::as_str))?;
    }
    std::fs::remove_dir_all(&place).map_err(written)?;
    Ok(found.into_iter().filter(|file| !ignored.contains(&file.path)).collect())
}

fn small_file(from: BorrowedFd<'_>, path: &str) -> Option<Vec<u8>> {
    let file = open_beneath(from, path, OFlags::RDONLY).ok()?;
    let about = rustix::fs::fstat(&file).ok()?;
    let regular = FileType::from_raw_mode(about.st_mode) == FileType::RegularFile;
    let mut bytes = Vec::new();
    let read = std::fs::File::from(file).take(MAX_IGNORE_FILE).read_to_end(&mut bytes);
    (regular && read.is_ok()).then_some(bytes)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clean {
    Yes,
    No,
}

struct ChangeCopier<'a> {
    bytes: u64,
    guard: &'a Guard,
}

impl ChangeCopier<'_> {
    fn file(
        &mut self,
        from: BorrowedFd<'_>,
        path: &str,
        into: &Path,
        clean: Clean,
    ) -> Result<(), QuarantineError> {
        let target = into.join(path);
        let unreadable = |source: std::io::Error| QuarantineError::unreadable(path.to_owned(), source);
        let unwritable = |source| QuarantineError::Write { path: target.clone(), source };
        std::fs::create_dir_all(target.parent().unwrap_or(into)).map_err(unwritable)?;
        if let Ok(link) = read_link(from, path) {
            return symlink(link, &target).map_err(unwritable);
        }
        let file = open_beneath(from, path, OFlags::RDONLY).map_err(unreadable)?;
        let about = rustix::fs::fstat(&file).map_err(|error| unreadable(error.into()))?;
        if FileType::from_raw_mode(about.st_mode) != FileType::RegularFile {
            return Err(refused(path, "is neither a file nor a link"));
        }
        let mut bytes = Vec::new();
        std::fs::File::from(file)
            .take(MAX_BYTES - self.bytes + 1)
            .read_to_end(&mut bytes)
            .map_err(unreadable)?;
        self.bytes += bytes.len() as u64;
        if self.bytes > MAX_BYTES {
            return Err(refused(path, "makes the changes too large"));
        }
        if clean == Clean::Yes {
            self.guard.inspect(&bytes, Origin::Output, path).map_err(QuarantineError::Blocked)?;
        }
        let bytes = match (clean, String::from_utf8(bytes)) {
            (Clean::Yes, Ok(text)) => self.guard.mask(&text).into_bytes(),
            (Clean::No, Ok(text)) => text.into_bytes(),
            (_, Err(error)) => error.into_bytes(),
        };
        let mode = if about.st_mode & 0o100 == 0 { 0o600 } else { 0o700 };
        let made = std::fs::File::options().write(true).create_new(true).mode(mode).open(&target);
        made.and_then(|mut file| file.write_all(&bytes)).map_err(unwritable)
    }
}

/// The directory is opened first, so that no symbolic link in the path is followed.
fn read_link(from: BorrowedFd<'_>, path: &str) -> std::io::Result<std::ffi::OsString> {
    use std::os::unix::ffi::OsStringExt;
    let (directory, name) = path.rsplit_once('/').unwrap_or((".", path));
    let parent: OwnedFd = open_beneath(from, directory, OFlags::RDONLY | OFlags::DIRECTORY)?;
    let link = rustix::fs::readlinkat(&parent, name, Vec::new())?;
    Ok(std::ffi::OsString::from_vec(link.into_bytes()))
}
