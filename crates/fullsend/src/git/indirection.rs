//! Which directories of the host a repository may lead to. An attacker may have written the repository: its `.git`
//! file, its `commondir` and its alternates can name any directory. A directory belongs to the repository only if it
//! names the repository in return. Objects of another repository may be used only if it has the same owner and everyone
//! may read it.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use sandbox::{Descend, TreeEntry, Unreadable, WalkError, WalkLimits, walk_directory};

use super::config;
use super::small_file::{RepositoryError, read_bounded};

/// The common directory of the git directory that the `.git` file of `root` names, if that belongs to `root`: a linked
/// worktree's `gitdir` file names the `.git` file, a submodule's configuration names the working tree.
pub(super) fn points_back(root: &Path, directory: &Path) -> io::Result<PathBuf> {
    let common = match read_bounded(&directory.join("commondir")) {
        Ok(text) => fs::canonicalize(directory.join(String::from_utf8_lossy(&text).trim_end()))?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => directory.to_path_buf(),
        Err(e) => return Err(e),
    };
    if !directory.starts_with(&common) {
        return Err(io::Error::other("its git directory lies outside of the common one"));
    }
    let named = match directory == common {
        true => working_tree(directory)?.map(|path| directory.join(path)),
        false => linked_worktree(directory, &common)?,
    };
    let is_own = named.and_then(|path| fs::canonicalize(path).ok()).is_some_and(|path| path == root);
    if !is_own {
        let why = "its git directory does not name this working tree; run `git worktree repair` in the main one, or \
                   set `core.worktree`";
        return Err(io::Error::other(why));
    }
    if !is_git_directory(&common) {
        return Err(io::Error::other("it does not lead to a git directory"));
    }
    same_owner(root, &common)?;
    Ok(common)
}

/// `core.worktree`, as submodules have it.
fn working_tree(directory: &Path) -> io::Result<Option<PathBuf>> {
    match read_bounded(&directory.join("config")) {
        Ok(text) => Ok(config::value_of(&text, "core", "worktree").map(PathBuf::from)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// The working tree of `common/worktrees/<name>`.
fn linked_worktree(directory: &Path, common: &Path) -> io::Result<Option<PathBuf>> {
    if directory.parent() != Some(&common.join("worktrees")) {
        return Ok(None);
    }
    let text = read_bounded(&directory.join("gitdir"))?;
    let named = directory.join(String::from_utf8_lossy(&text).trim_end());
    Ok(named.parent().filter(|_| named.file_name() == Some(OsStr::new(".git"))).map(Path::to_path_buf))
}

fn is_git_directory(directory: &Path) -> bool {
    directory.join("HEAD").is_file() && directory.join("objects").is_dir() && directory.join("refs").is_dir()
}

fn same_owner(root: &Path, other: &Path) -> io::Result<()> {
    if fs::metadata(root)?.uid() == fs::metadata(other)?.uid() {
        return Ok(());
    }
    Err(io::Error::other("its git directory belongs to another user"))
}

const MAX_ENTRIES: usize = 1_000_000;
/// `objects/aa/...` and `objects/pack/...`, and what some tools keep one level below.
const MAX_DEPTH: usize = 4;

/// The paths to hide in an object store that `objects` borrows from; `None` if it may not be borrowed from: it is not
/// the store of a repository, belongs to another user, or is private.
pub(super) fn borrowable(objects: &Path, store: &Path) -> Result<Option<Vec<PathBuf>>, RepositoryError> {
    let (Ok(own), Ok(other)) = (fs::metadata(objects), fs::metadata(store)) else { return Ok(None) };
    let is_store =
        store.file_name() == Some(OsStr::new("objects")) && store.parent().is_some_and(is_git_directory);
    if !is_store || own.uid() != other.uid() || !is_open(store) {
        return Ok(None);
    }
    let mut hidden: Vec<PathBuf> = Vec::new();
    let limits = WalkLimits { entries: MAX_ENTRIES, depth: MAX_DEPTH, unreadable: Unreadable::Fail };
    let walked = walk_directory(store, limits, &mut |entry: &TreeEntry<'_>| {
        let is_directory = entry.kind == FileType::Directory;
        let belongs = match is_directory {
            true => is_store_directory(entry.path),
            false => entry.kind == FileType::RegularFile && is_store_file(entry.path),
        };
        if !belongs {
            hidden.push(entry.path.to_path_buf());
        }
        Ok(if belongs { Descend::Yes } else { Descend::No })
    });
    walked.map_err(|error: WalkError<io::Error>| RepositoryError {
        path: store.to_path_buf(),
        source: error.into_io(),
    })?;
    Ok(Some(hidden))
}

/// Whether everyone may read a store. The modes of the repository's own directories do not count: an attacker who
/// writes its alternates can change them too.
fn is_open(store: &Path) -> bool {
    store
        .ancestors()
        .all(|directory| fs::metadata(directory).is_ok_and(|about| about.mode() & 0o005 == 0o005))
}

fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_store_directory(path: &Path) -> bool {
    let Some(path) = path.to_str() else { return false };
    path == "pack" || path == "info" || (path.len() == 2 && is_hex(path)) || path == "info/commit-graphs"
}

fn is_store_file(path: &Path) -> bool {
    let Some((directory, name)) = path.to_str().and_then(|path| path.rsplit_once('/')) else { return false };
    match directory {
        "pack" => {
            let stem = name.strip_prefix("pack-").and_then(|name| name.split_once('.'));
            let endings = ["pack", "idx", "rev", "bitmap", "mtimes", "keep", "promisor"];
            name.starts_with("multi-pack-index")
                || stem.is_some_and(|(stem, end)| is_hex(stem) && endings.contains(&end))
        }
        "info" => ["alternates", "packs", "commit-graph"].contains(&name),
        "info/commit-graphs" => true,
        _ => (name.len() == 38 || name.len() == 62) && is_hex(name),
    }
}
