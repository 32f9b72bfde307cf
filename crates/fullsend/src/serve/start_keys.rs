//! Which run an `Idempotency-Key` started. On disk, so that a caller who asks again after a restart of the server starts nothing
//! twice.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::event::log::sha256;

/// How long a key is known.
const KEY_AGE: Duration = Duration::from_secs(24 * 3600);

pub(super) struct StartKeys {
    directory: PathBuf,
}

/// The first request with a key.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
struct KeyedStart {
    v: u32,
    run: String,
    /// The digest of the body.
    body: String,
}

/// Why a key cannot be used.
#[derive(Debug)]
pub(super) enum KeyError {
    /// The key was used before with another body.
    Reused,
    Disk(io::Error),
}

impl StartKeys {
    pub(super) fn new(directory: &Path) -> Self {
        Self { directory: directory.join("start-keys") }
    }

    /// The id of the run that this key starts: a new one, or that of the first request.
    pub(super) fn run_id(&self, by: &str, key: &str, body: &[u8]) -> Result<String, KeyError> {
        std::fs::create_dir_all(&self.directory).map_err(KeyError::Disk)?;
        self.forget_old();
        let wanted = KeyedStart { v: 1, run: uuid::Uuid::now_v7().to_string(), body: sha256(body) };
        let path = self.directory.join(sha256(format!("{by}\0{key}").as_bytes()));
        let text = serde_json::to_vec(&wanted).map_err(|error| KeyError::Disk(error.into()))?;
        // A hard link can be created only once, and the file behind it is complete from the start.
        let unfinished = self.directory.join(format!("{}.part", wanted.run));
        let linked = std::fs::write(&unfinished, text).and_then(|()| std::fs::hard_link(&unfinished, &path));
        drop(std::fs::remove_file(&unfinished));
        match linked {
            Ok(()) => Ok(wanted.run),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => first(&path, &wanted),
            Err(error) => Err(KeyError::Disk(error)),
        }
    }

    fn forget_old(&self) {
        for entry in std::fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            let written = entry.metadata().and_then(|about| about.modified());
            let is_old = written.is_ok_and(|written| written.elapsed().is_ok_and(|age| age > KEY_AGE));
            if is_old {
                drop(std::fs::remove_file(entry.path()));
            }
        }
    }
}

fn first(path: &Path, wanted: &KeyedStart) -> Result<String, KeyError> {
    let text = std::fs::read(path).map_err(KeyError::Disk)?;
    let first: KeyedStart = serde_json::from_slice(&text).map_err(|error| KeyError::Disk(error.into()))?;
    if first.body == wanted.body { Ok(first.run) } else { Err(KeyError::Reused) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_one_run_for_one_caller_and_one_body() {
        let place = tempfile::tempdir().unwrap();
        let keys = StartKeys::new(place.path());
        let id = keys.run_id("alice", "k", b"{}").unwrap();
        assert_eq!(StartKeys::new(place.path()).run_id("alice", "k", b"{}").unwrap(), id);
        assert_ne!(keys.run_id("bob", "k", b"{}").unwrap(), id);
        assert_ne!(keys.run_id("alice", "l", b"{}").unwrap(), id);
        assert!(matches!(keys.run_id("alice", "k", b"[]"), Err(KeyError::Reused)));
        assert_eq!(std::fs::read_dir(place.path().join("start-keys")).unwrap().count(), 3);
    }
}
