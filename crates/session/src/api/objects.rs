//! The objects of sessions: conversations of runtimes and bundles of runs. They are in the store, or in a directory that all
//! workers share. The store always has their names and digests, so that an object that is missing or changed is noticed.

use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::api::sessions::Sessions;
use crate::decide::refusal::SessionRefusal;
use crate::log::digest::Sha256Digest;
use crate::log::id::SessionId;
use crate::store::{SessionError, StoreError, StoredObject};

/// The largest object.
pub const MAX_OBJECT_BYTES: usize = 16 << 20;

impl Sessions {
    /// Keeps the contents of new objects in this directory. The store then has only their digests.
    #[must_use]
    pub fn with_objects(mut self, directory: PathBuf) -> Self {
        self.objects = Some(directory);
        self
    }

    /// Stores an object, or replaces the one with the same name.
    pub fn put_object(&mut self, id: SessionId, name: &str, content: &[u8]) -> Result<(), SessionError> {
        let size = content.len();
        if size > MAX_OBJECT_BYTES {
            let limit = MAX_OBJECT_BYTES;
            return Err(SessionRefusal::TooLarge { what: "object", size, limit }.into());
        }
        let digest = Sha256Digest::of(content);
        let inline = match &self.objects {
            // The file is complete before the store names it.
            Some(directory) => {
                write_file(&directory.join(id.to_string()), digest, content).map_err(unavailable)?;
                None
            }
            None => Some(content.to_vec()),
        };
        let object = StoredObject { name: name.to_owned(), digest, content: inline };
        if self.store.put_object(id, &object)? { Ok(()) } else { Err(SessionError::NoSession(id)) }
    }

    /// An object, if it exists. One whose content is missing or changed is damage.
    pub fn object(&mut self, id: SessionId, name: &str) -> Result<Option<Vec<u8>>, SessionError> {
        let Some(StoredObject { digest, content, .. }) = self.store.object(id, name)? else {
            return Ok(None);
        };
        if content.is_some() {
            return Ok(content);
        }
        let damage =
            |why: &str| StoreError::Corrupt { session: Some(id), what: format!("object `{name}` {why}") };
        let directory = self.objects.as_ref();
        let directory =
            directory.ok_or_else(|| damage("is in a directory of objects, and --objects names none"))?;
        let path = directory.join(id.to_string()).join(digest.to_string());
        let about = std::fs::symlink_metadata(&path).ok();
        let is_plausible =
            about.is_some_and(|about| about.is_file() && about.len() <= MAX_OBJECT_BYTES as u64);
        if !is_plausible {
            return Err(damage("is missing from the directory of objects").into());
        }
        let content = std::fs::read(&path).map_err(unavailable)?;
        if Sha256Digest::of(&content) != digest {
            return Err(damage("does not match its digest").into());
        }
        Ok(Some(content))
    }

    /// The names of a session's objects.
    pub fn object_names(&mut self, id: SessionId) -> Result<Vec<String>, SessionError> {
        Ok(self.store.objects(id)?.into_iter().map(|(name, _)| name).collect())
    }

    /// Removes an object, and its file unless another object of the session has the same content.
    pub fn remove_object(&mut self, id: SessionId, name: &str) -> Result<(), SessionError> {
        let mut objects = self.store.objects(id)?;
        let Some(at) = objects.iter().position(|(known, _)| known == name) else { return Ok(()) };
        let (_, digest) = objects.swap_remove(at);
        self.store.remove_object(id, name)?;
        if let Some(directory) = &self.objects
            && !objects.iter().any(|(_, other)| *other == digest)
        {
            drop(std::fs::remove_file(directory.join(id.to_string()).join(digest.to_string())));
        }
        Ok(())
    }

    /// Removes the files of a session that the store no longer has.
    pub(crate) fn remove_object_files(&self, id: SessionId) {
        if let Some(directory) = &self.objects {
            drop(std::fs::remove_dir_all(directory.join(id.to_string())));
        }
    }
}

fn unavailable(error: std::io::Error) -> StoreError {
    StoreError::Unavailable { step: "use the directory of objects", source: Box::new(error) }
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
