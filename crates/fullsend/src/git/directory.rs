//! Where a repository of the host keeps its git data.

use std::path::{Path, PathBuf};

/// The git directory of a repository; `None` if it is not one. A linked worktree names it in a file.
pub fn directory(repository: &Path) -> Option<PathBuf> {
    let path = repository.join(".git");
    if path.is_dir() {
        return Some(path);
    }
    let text = std::fs::read_to_string(path).ok()?;
    Some(repository.join(text.strip_prefix("gitdir:")?.trim()))
}

/// What worktrees share: objects, branches, configuration.
pub fn common(git: &Path) -> PathBuf {
    match std::fs::read_to_string(git.join("commondir")) {
        Ok(text) => git.join(text.trim()),
        Err(_) => git.to_owned(),
    }
}
