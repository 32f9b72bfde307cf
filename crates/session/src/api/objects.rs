//! The objects of sessions: conversations of runtimes and bundles of runs. They are in the store, or in an object store that all
//! workers share. The store always has their names and digests, so that an object that is missing or changed is noticed.

use crate::api::object_store::{MAX_OBJECT_BYTES, SharedObjects};
use crate::api::sessions::Sessions;
use crate::decide::refusal::SessionRefusal;
use crate::log::digest::Sha256Digest;
use crate::log::id::SessionId;
use crate::store::{SessionError, StoreError, StoredObject};

impl Sessions {
    /// Keeps the contents of new objects in this object store. The store then has only their digests.
    #[must_use]
    pub fn with_objects(mut self, objects: SharedObjects) -> Self {
        self.objects = Some(objects);
        self
    }

    /// Stores an object, or replaces the one with the same name. While the object store fails, the store takes the content, so
    /// that an outage loses nothing.
    pub fn put_object(&mut self, id: SessionId, name: &str, content: &[u8]) -> Result<(), SessionError> {
        let size = content.len();
        if size > MAX_OBJECT_BYTES {
            let limit = MAX_OBJECT_BYTES;
            return Err(SessionRefusal::TooLarge { what: "object", size, limit }.into());
        }
        let digest = Sha256Digest::of(content);
        // The object is complete before the store names it.
        let is_elsewhere = match &self.objects {
            Some(SharedObjects { store, warn }) => match store.put(id, digest, content) {
                Ok(()) => true,
                Err(error) => {
                    warn(&format!(
                        "object `{name}` of session {id} is in the session store instead: {error}"
                    ));
                    false
                }
            },
            None => false,
        };
        let inline = if is_elsewhere { None } else { Some(content.to_vec()) };
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
        // If this worker cannot reach the content now, the session is not damaged.
        let unreadable = |source| StoreError::Unavailable { step: "read an object", source };
        let objects = self.objects.as_ref();
        let objects =
            objects.ok_or_else(|| unreadable("it is in an object store, and --objects names none".into()))?;
        let content = objects.store.get(id, digest).map_err(unreadable)?;
        let content = content.ok_or_else(|| damage("is missing from the object store"))?;
        if Sha256Digest::of(&content) != digest {
            return Err(damage("does not match its digest").into());
        }
        Ok(Some(content))
    }

    /// The names of a session's objects.
    pub fn object_names(&mut self, id: SessionId) -> Result<Vec<String>, SessionError> {
        Ok(self.store.objects(id)?.into_iter().map(|(name, _)| name).collect())
    }

    /// Removes an object, and its content unless another object of the session has the same.
    pub fn remove_object(&mut self, id: SessionId, name: &str) -> Result<(), SessionError> {
        let mut objects = self.store.objects(id)?;
        let Some(at) = objects.iter().position(|(known, _)| known == name) else { return Ok(()) };
        let (_, digest) = objects.swap_remove(at);
        self.store.remove_object(id, name)?;
        if let Some(SharedObjects { store, warn }) = &self.objects
            && !objects.iter().any(|(_, other)| *other == digest)
            && let Err(error) = store.remove(id, digest)
        {
            warn(&format!("object `{name}` of session {id} was not removed from the object store: {error}"));
        }
        Ok(())
    }

    /// Removes the contents of a session's objects, after the store has removed the session.
    pub(crate) fn remove_contents(&self, id: SessionId, known: &[Sha256Digest]) {
        if let Some(SharedObjects { store, warn }) = &self.objects
            && let Err(error) = store.remove_session(id, known)
        {
            warn(&format!("objects of session {id} were not removed from the object store: {error}"));
        }
    }
}
