//! Reads a repository of the host with git, without its configuration: our own git directory borrows the repository's
//! objects, branches and index, and has none of its settings, hooks, filters or includes.

use std::path::{Path, PathBuf};

use super::command::{self, GitCall, GitError, GitOutput, Transport};
use super::config;
use super::directory::{common, directory};

/// A repository of the host, opened for reading.
#[derive(Debug)]
pub struct RepositoryReader {
    repository: PathBuf,
    own: tempfile::TempDir,
}

/// What a repository's worktrees share, beside their configuration.
const SHARED: &[&str] = &["objects", "refs", "packed-refs", "reftable", "shallow"];

impl RepositoryReader {
    /// Opens the repository that the directory is in; `None` if it is in none.
    pub fn open(repository: &Path) -> Result<Option<Self>, GitError> {
        let found = repository.ancestors().find_map(|above| directory(above).map(|git| (above, git)));
        let Some((repository, git)) = found.filter(|(_, git)| git.is_dir()) else { return Ok(None) };
        let shared = common(&git);
        let own = tempfile::tempdir()
            .map_err(|source| GitError::Write { path: "a temporary directory".into(), source })?;
        let written = |source| GitError::Write { path: own.path().to_owned(), source };
        for (from, name) in SHARED.iter().map(|name| (&shared, *name)).chain([(&git, "index")]) {
            let Ok(from) = from.join(name).canonicalize() else { continue };
            std::os::unix::fs::symlink(from, own.path().join(name)).map_err(written)?;
        }
        // A copy: git reads a link as a reference of the old kind.
        let head = std::fs::read(git.join("HEAD")).unwrap_or_default();
        std::fs::write(own.path().join("HEAD"), head).map_err(written)?;
        let settings = std::fs::read(shared.join("config")).unwrap_or_default();
        std::fs::write(own.path().join("config"), config::rewrite_for_reading(&settings)).map_err(written)?;
        Ok(Some(Self { repository: repository.to_owned(), own }))
    }

    pub fn run(&self, arguments: &[&str], input: &[u8]) -> Result<GitOutput, GitError> {
        command::run(&GitCall {
            git_directory: self.own.path(),
            directory: &self.repository,
            arguments,
            input,
            transport: Transport::None,
        })
    }
}
