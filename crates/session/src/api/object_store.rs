//! Where the contents of objects can be instead of in the store, and the directory that all workers share. An object is named
//! after its session and its digest, so the same content can be written again and nothing is ever overwritten.

use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::log::digest::Sha256Digest;
use crate::log::id::SessionId;

/// The largest object.
pub const MAX_OBJECT_BYTES: usize = 16 << 20;

/// The object store of some sessions, and the listener for its failures.
#[derive(Clone)]
pub struct SharedObjects {
    pub store: Arc<dyn ObjectStore>,
    pub warn: Arc<dyn Fn(&str) + Send + Sync>,
}

/// Why an object store failed. Its text names the place and what to do, and never a credential.
pub type ObjectStoreError = Box<dyn std::error::Error + Send + Sync>;

/// Contents of objects beside the store. Every call ends within the time that was set for it.
pub trait ObjectStore: Send + Sync {
    /// Returns after the content is durable.
    fn put(&self, session: SessionId, digest: Sha256Digest, content: &[u8]) -> Result<(), ObjectStoreError>;

    /// `None` if the object does not exist or is larger than allowed.
    fn get(&self, session: SessionId, digest: Sha256Digest) -> Result<Option<Vec<u8>>, ObjectStoreError>;

    /// Removes one object. A missing one counts as removed.
    fn remove(&self, session: SessionId, digest: Sha256Digest) -> Result<(), ObjectStoreError>;

    /// Removes the objects of a session that was removed. These are the objects that the store knew.
    fn remove_session(&self, session: SessionId, known: &[Sha256Digest]) -> Result<(), ObjectStoreError>;
}

/// Objects as files in a directory that all workers share.
#[derive(Debug)]
pub struct DirectoryObjects(pub PathBuf);

impl DirectoryObjects {
    fn of(&self, session: SessionId) -> PathBuf {
        self.0.join(session.to_string())
    }
}

impl ObjectStore for DirectoryObjects {
    fn put(&self, session: SessionId, digest: Sha256Digest, content: &[u8]) -> Result<(), ObjectStoreError> {
        let directory = self.of(session);
        write_file(&directory, digest, content).map_err(|error| failed(&directory, &error))
    }

    fn get(&self, session: SessionId, digest: Sha256Digest) -> Result<Option<Vec<u8>>, ObjectStoreError> {
        let path = self.of(session).join(digest.to_string());
        let about = match std::fs::symlink_metadata(&path) {
            Ok(about) => about,
            // A directory that is not mounted is an outage, not missing data.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && self.0.is_dir() => return Ok(None),
            Err(error) => return Err(failed(&path, &error)),
        };
        if !about.is_file() || about.len() > MAX_OBJECT_BYTES as u64 {
            return Ok(None);
        }
        std::fs::read(&path).map(Some).map_err(|error| failed(&path, &error))
    }

    fn remove(&self, session: SessionId, digest: Sha256Digest) -> Result<(), ObjectStoreError> {
        let path = self.of(session).join(digest.to_string());
        unless_missing(std::fs::remove_file(&path)).map_err(|error| failed(&path, &error))
    }

    fn remove_session(&self, session: SessionId, _known: &[Sha256Digest]) -> Result<(), ObjectStoreError> {
        let directory = self.of(session);
        unless_missing(std::fs::remove_dir_all(&directory)).map_err(|error| failed(&directory, &error))
    }
}

fn failed(path: &Path, error: &std::io::Error) -> ObjectStoreError {
    format!("{}: {error}", path.display()).into()
}

fn unless_missing(result: std::io::Result<()>) -> std::io::Result<()> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Writes a file under the name of its digest. A file with that name is complete.
fn write_file(directory: &Path, digest: Sha256Digest, content: &[u8]) -> std::io::Result<()> {
    let path = directory.join(digest.to_string());
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let unfinished = directory.join(format!(".{digest}.{}", std::process::id()));
    let mut file =
        std::fs::File::options().create(true).truncate(true).write(true).mode(0o600).open(&unfinished)?;
    file.write_all(content)?;
    file.sync_all()?;
    std::fs::rename(unfinished, path)?;
    std::fs::File::open(directory)?.sync_all()
}
