//! The runs on disk: found by id, by a prefix of it or as the latest; listed, removed, and bounded in number and bytes,
//! oldest first. A run that still runs is not removed.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::Record;
use crate::event::log::{self, LogError};

/// The file in a run's directory that holds its size in bytes.
pub(super) const SIZE: &str = "size";

/// The signed statement about a run, in its directory.
pub const STATEMENT: &str = "run.intoto.json";

/// One run on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRun {
    pub id: String,
    /// `owner/name`, or `local`.
    pub owner: String,
    pub path: PathBuf,
}

#[derive(Debug, PartialEq, Eq)]
pub enum FindError {
    /// No run has this id or prefix.
    Unknown { name: String, runs: PathBuf },
    /// Several ids start with this prefix.
    Ambiguous { name: String, ids: Vec<String> },
}

impl std::fmt::Display for FindError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown { name, runs } => {
                write!(f, "no run in {} is called `{name}`", runs.display())
            }
            Self::Ambiguous { name, ids } => {
                write!(f, "`{name}` matches {} runs: {}", ids.len(), ids.join(", "))
            }
        }
    }
}

impl std::error::Error for FindError {}

impl StoredRun {
    /// The record, folded from the event log, so that it is also available while the run goes on.
    pub fn record(&self) -> Result<Record, LogError> {
        log::read(&self.log()).map(|events| super::fold(&events))
    }

    /// The record as the run wrote it at its end, which is faster to read; folded from the log if it does not exist.
    pub fn written_record(&self) -> Result<Record, LogError> {
        let written = std::fs::read(self.path.join("run.json")).ok();
        let record = written.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        record.map_or_else(|| self.record(), Ok)
    }

    pub fn log(&self) -> PathBuf {
        self.path.join("events.jsonl")
    }

    /// Whether a runner still holds the lock on the log.
    pub fn is_alive(&self) -> std::io::Result<bool> {
        let file = File::open(self.log())?;
        match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(false),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// The size in bytes, counted once: a run that has ended does not grow.
    fn bytes(&self) -> u64 {
        let place = self.path.join(SIZE);
        let known = std::fs::read_to_string(&place).ok().and_then(|text| text.trim().parse().ok());
        known.unwrap_or_else(|| {
            let bytes = size(&self.path);
            if self.path.join("run.json").is_file() && matches!(self.is_alive(), Ok(false)) {
                // Without this file the next command counts again.
                drop(std::fs::write(place, format!("{bytes}\n")));
            }
            bytes
        })
    }

    /// Removes the run. The log goes last, so that an interrupted removal still leaves a run that can be removed.
    pub fn remove(&self) -> std::io::Result<()> {
        for entry in std::fs::read_dir(&self.path)?.flatten() {
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                std::fs::remove_dir_all(path)?;
            } else if path != self.log() {
                std::fs::remove_file(path)?;
            }
        }
        std::fs::remove_dir_all(&self.path)
    }
}

/// Every run below `runs`, oldest first: ids sort by time.
pub fn all(runs: &Path) -> Vec<StoredRun> {
    let mut found = Vec::new();
    collect(runs, runs, 0, &mut found);
    found.sort_by(|one, other| one.id.cmp(&other.id));
    found
}

/// Directories with a log, at most four levels down: owner, repository, run, and one more.
fn collect(runs: &Path, place: &Path, depth: usize, found: &mut Vec<StoredRun>) {
    if is_run(place) {
        let name = |path: Option<&Path>| path.map(|path| path.to_string_lossy().into_owned());
        let id = name(place.file_name().map(Path::new)).unwrap_or_default();
        let owner = name(place.parent().and_then(|parent| parent.strip_prefix(runs).ok()));
        found.push(StoredRun { id, owner: owner.unwrap_or_default(), path: place.to_owned() });
        return;
    }
    if depth > 3 {
        return;
    }
    for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(runs, &entry.path(), depth + 1, found);
        }
    }
}

/// Finds a run by its id, by a unique prefix of it, or as `latest`.
pub fn find(runs: &Path, name: &str) -> Result<StoredRun, FindError> {
    let unknown = || FindError::Unknown { name: name.to_owned(), runs: runs.to_owned() };
    let mut all = all(runs);
    if name == "latest" {
        return all.pop().ok_or_else(unknown);
    }
    if name.is_empty() {
        return Err(unknown());
    }
    if let Some(exact) = all.iter().position(|run| run.id == name) {
        return Ok(all.swap_remove(exact));
    }
    all.retain(|run| run.id.starts_with(name));
    if all.len() > 1 {
        let ids = all.into_iter().map(|run| run.id).collect();
        return Err(FindError::Ambiguous { name: name.to_owned(), ids });
    }
    all.pop().ok_or_else(unknown)
}

/// The run with exactly this id. Unlike `find` it does not read other runs.
pub fn with_id(runs: &Path, id: &str) -> Option<StoredRun> {
    let found = find_below(runs, id, 0)?;
    let owner = found.parent().and_then(|parent| parent.strip_prefix(runs).ok());
    let owner = owner.map(|owner| owner.to_string_lossy().into_owned()).unwrap_or_default();
    Some(StoredRun { id: id.to_owned(), owner, path: found })
}

fn find_below(place: &Path, id: &str, depth: usize) -> Option<PathBuf> {
    let path = place.join(id);
    if is_run(&path) {
        return Some(path);
    }
    if depth > 2 {
        return None;
    }
    let folders = std::fs::read_dir(place).ok()?.flatten().filter(|entry| {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        is_folder && uuid::Uuid::try_parse(&entry.file_name().to_string_lossy()).is_err()
    });
    folders.into_iter().find_map(|folder| find_below(&folder.path(), id, depth + 1))
}

/// A signed run without its log was tampered with, but still counts as a run.
fn is_run(place: &Path) -> bool {
    place.join("events.jsonl").is_file() || place.join(STATEMENT).is_file()
}

/// How many runs and bytes stay on disk.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    pub runs: usize,
    pub bytes: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self { runs: 200, bytes: 10 << 30 }
    }
}

/// Removes the oldest runs until the rest is within bounds, and returns them. The newest run always stays.
pub fn retain(runs: &Path, retention: Retention) -> Vec<StoredRun> {
    let mut count = 0;
    let mut bytes = 0;
    let mut removed = Vec::new();
    for run in all(runs).into_iter().rev() {
        count += 1;
        bytes += run.bytes();
        let beyond = count > 1 && (count > retention.runs || bytes > retention.bytes);
        if beyond && matches!(run.is_alive(), Ok(false)) && run.remove().is_ok() {
            removed.push(run);
        }
    }
    removed
}

/// Bytes of all regular files. Links are not followed.
fn size(place: &Path) -> u64 {
    let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(about) if about.is_dir() => size(&entry.path()),
            Ok(about) if about.is_file() => about.len(),
            _ => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::log::Emitter;

    fn make(runs: &Path, path: &str, bytes: usize) {
        let directory = runs.join(path);
        std::fs::create_dir_all(directory.join("iteration-1")).unwrap();
        std::fs::write(directory.join("events.jsonl"), "").unwrap();
        std::fs::write(directory.join("iteration-1/file"), vec![0; bytes]).unwrap();
    }

    fn ids(runs: &Path) -> Vec<String> {
        all(runs).into_iter().map(|run| run.id).collect()
    }

    #[test]
    fn runs_are_found_by_identity_beginning_or_as_the_latest() {
        let place = tempfile::tempdir().unwrap();
        assert!(matches!(find(place.path(), "latest"), Err(FindError::Unknown { .. })));
        for path in ["local/0198a", "acme/widgets/0198b", "local/0199a"] {
            make(place.path(), path, 1);
        }
        let found = |name: &str| find(place.path(), name).map(|run| (run.owner, run.id));
        let named = |owner: &str, id: &str| Ok((owner.to_owned(), id.to_owned()));
        assert_eq!(found("latest"), named("local", "0199a"));
        assert_eq!(found("0198b"), named("acme/widgets", "0198b"));
        assert_eq!(found("0199"), named("local", "0199a"));
        assert!(matches!(found("0198"), Err(FindError::Ambiguous { ids, .. }) if ids.len() == 2));
        assert!(matches!(found("x"), Err(FindError::Unknown { .. })));
        assert!(matches!(found(""), Err(FindError::Unknown { .. })));
        assert!(matches!(found("../local/0198a"), Err(FindError::Unknown { .. })));
        let exact = |id: &str| with_id(place.path(), id).map(|run| (run.owner, run.id));
        assert_eq!(exact("0198b"), named("acme/widgets", "0198b").ok());
        assert_eq!(exact("0199a"), named("local", "0199a").ok());
        assert_eq!(exact("0199"), None);
    }

    #[test]
    fn the_oldest_go_first_and_the_newest_and_the_living_stay() {
        let place = tempfile::tempdir().unwrap();
        for id in ["a", "b", "c", "d"] {
            make(place.path(), &format!("local/{id}"), 100);
        }
        let most = |runs, bytes| Retention { runs, bytes };
        assert!(retain(place.path(), most(4, 400)).is_empty());
        retain(place.path(), most(3, 400));
        assert_eq!(ids(place.path()), ["b", "c", "d"]);
        retain(place.path(), most(9, 250));
        assert_eq!(ids(place.path()), ["c", "d"]);
        std::fs::remove_file(place.path().join("local/c/events.jsonl")).unwrap();
        let alive = Emitter::create(&place.path().join("local/c/events.jsonl"), |_| {}).unwrap();
        retain(place.path(), most(0, 0));
        assert_eq!(ids(place.path()), ["c", "d"]);
        drop(alive);
        retain(place.path(), most(0, 0));
        assert_eq!(ids(place.path()), ["d"]);
    }
}
