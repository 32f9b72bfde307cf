//! The default stores: one per repository, like the directories of runs. A repository without an owner uses `sessions.db`,
//! which was the store of all repositories in earlier versions; the sessions of the others are moved out of it.

use std::path::{Path, PathBuf};

use session::{SqliteStore, StoreError};

use super::super::configuration::{ConfigurationOptions, repository_name, variable, xdg_directory};
use super::super::exit::{Exit, Failure};
use super::repository::repository_id;
use crate::run::directory::owner_directory;

const FILE: &str = "sessions.db";

/// The directory of the stores of repositories that have an owner.
const STORES: &str = "stores";

/// The most stores that are searched for a session.
const MAX_STORES: usize = 10_000;

/// The default store of one repository.
pub struct DefaultStore {
    pub path: PathBuf,
    repository: PathBuf,
}

impl DefaultStore {
    /// The store of the repository that the options name.
    pub fn of(configuration: &ConfigurationOptions) -> Result<Self, Failure> {
        let start = match &configuration.repo {
            Some(repo) => repo.canonicalize().unwrap_or_else(|_| repo.clone()),
            None => std::env::current_dir().map_err(|error| {
                Failure::new(Exit::Missing, format!("the current directory cannot be used: {error}"))
            })?,
        };
        let is_root = |path: &&Path| path.join(".fullsend").is_dir() || path.join(".git").exists();
        let repository = start.ancestors().find(is_root).unwrap_or(&start).to_owned();
        let state = state_directory()?;
        let path = match repository_name(&repository) {
            Some(name) => state.join(STORES).join(owner_directory(&name)).join(FILE),
            None => state.join(FILE),
        };
        Ok(Self { path, repository })
    }

    /// Moves the sessions of this repository out of the store that all repositories shared.
    pub fn adopt_from_shared(&self, store: &mut SqliteStore) -> Result<(), String> {
        let shared = state_directory().map_err(|failure| failure.message)?.join(FILE);
        if self.path == shared || !shared.is_file() {
            return Ok(());
        }
        let moved = store.adopt(&shared, &repository_id(&self.repository));
        moved.map(drop).map_err(|error: StoreError| format!("cannot use {}: {error}", shared.display()))
    }
}

/// All default stores that exist.
pub fn all() -> Vec<PathBuf> {
    let Ok(state) = state_directory() else { return Vec::new() };
    let mut found = vec![state.join(FILE)];
    let mut open = vec![state.join(STORES)];
    // An owner has at most as many parts as a group and its subgroups.
    for _ in 0..8 {
        let below: Vec<PathBuf> = open.iter().flat_map(|path| directories(path)).take(MAX_STORES).collect();
        found.extend(below.iter().map(|path| path.join(FILE)));
        open = below;
    }
    found.retain(|path| path.is_file());
    found.truncate(MAX_STORES);
    found
}

fn directories(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

/// `$XDG_STATE_HOME/fullsend`.
pub fn state_directory() -> Result<PathBuf, Failure> {
    let state = xdg_directory("XDG_STATE_HOME");
    let state = state.or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(".local/state")));
    state.map(|state| state.join("fullsend")).ok_or_else(|| {
        Failure::new(Exit::Missing, "neither XDG_STATE_HOME nor HOME is set")
            .help("choose a store with --store")
    })
}
