//! The conversations of runtimes, in each runtime's own format, as objects of their session. An object is named after its
//! digest, and the log holds that name, so a missing or changed conversation is not resumed. The session then continues from
//! its memory and events.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::runtime::Conversation;
use crate::runtime::state::StateFile;
use session::{SessionError, SessionId, Sessions, Sha256Digest, StoreError};

/// A longer conversation is not resumed.
const MAX_BYTES: usize = session::MAX_OBJECT_BYTES;

const PREFIX: &str = "conversation/";

/// Where earlier versions kept conversations: in files on the machine of the worker. They are read and no longer written.
#[derive(Debug, Clone)]
pub struct EarlierConversations(pub PathBuf);

#[derive(Serialize, Deserialize)]
struct StoredConversation {
    id: String,
    files: Vec<StoredFile>,
}

#[derive(Serialize, Deserialize)]
struct StoredFile {
    path: String,
    text: String,
}

/// Stores a conversation and returns its name for the log, or `None` if it cannot be resumed.
pub fn store(
    sessions: &mut Sessions,
    session: SessionId,
    conversation: &Conversation,
) -> Result<Option<String>, SessionError> {
    let text = |file: &StateFile| {
        let text = String::from_utf8(file.contents.clone()).ok()?;
        Some(StoredFile { path: file.path.clone(), text })
    };
    let Some(files) = conversation.files.iter().map(text).collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    let stored = StoredConversation { id: conversation.id.clone(), files };
    let Ok(bytes) = serde_json::to_vec(&stored) else { return Ok(None) };
    if bytes.len() > MAX_BYTES || stored.files.is_empty() {
        return Ok(None);
    }
    let digest = Sha256Digest::of(&bytes).to_string();
    sessions.put_object(session, &format!("{PREFIX}{digest}"), &bytes)?;
    Ok(Some(digest))
}

/// The conversation with this name, if it exists and is unchanged. An object store that cannot be reached is an error,
/// because a retry may find the conversation.
pub fn load(
    sessions: &mut Sessions,
    session: SessionId,
    name: &str,
    earlier: &EarlierConversations,
) -> Result<Option<Conversation>, SessionError> {
    let Ok(digest) = name.parse::<Sha256Digest>() else { return Ok(None) };
    let stored = match sessions.object(session, &format!("{PREFIX}{digest}")) {
        Err(SessionError::Store(StoreError::Corrupt { .. })) => None,
        stored => stored?,
    };
    let bytes = stored.or_else(|| earlier.read(session, digest));
    Ok(bytes.filter(|bytes| Sha256Digest::of(bytes) == digest).and_then(|bytes| read(&bytes)))
}

fn read(bytes: &[u8]) -> Option<Conversation> {
    let stored: StoredConversation = serde_json::from_slice(bytes).ok()?;
    let file = |StoredFile { path, text }| StateFile { path, contents: text.into_bytes() };
    Some(Conversation { id: stored.id, files: stored.files.into_iter().map(file).collect() })
}

/// Removes the conversations that the log no longer names.
pub fn remove_others<'a>(
    sessions: &mut Sessions,
    session: SessionId,
    named: impl Iterator<Item = &'a str>,
) -> Result<(), SessionError> {
    let named: Vec<&str> = named.collect();
    for object in sessions.object_names(session)? {
        if object.strip_prefix(PREFIX).is_some_and(|name| !named.contains(&name)) {
            sessions.remove_object(session, &object)?;
        }
    }
    Ok(())
}

impl EarlierConversations {
    fn read(&self, session: SessionId, digest: Sha256Digest) -> Option<Vec<u8>> {
        let directory = self.0.join(session.to_string()).join("conversations");
        let path = directory.join(format!("{digest}.json"));
        let about = std::fs::symlink_metadata(&path).ok()?;
        if !about.is_file() || about.len() > MAX_BYTES as u64 {
            return None;
        }
        std::fs::read(path).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::{SessionHeader, SessionLimits, SqliteStore, Timestamp};

    #[test]
    fn only_an_unchanged_conversation_is_resumed_on_any_machine() {
        let directory = tempfile::tempdir().unwrap();
        let open = || {
            let store = SqliteStore::open(&directory.path().join("sessions.db")).unwrap();
            Sessions::new(Box::new(store), SessionLimits::default())
        };
        let session: SessionId = "018bcfe5-6800-7000-8000-00000000000a".parse().unwrap();
        let nowhere = EarlierConversations(directory.path().join("nowhere"));
        let mut here = open();
        here.create(&SessionHeader::new(session, "helper", Timestamp(0))).unwrap();
        let file = StateFile { path: "a/b.jsonl".to_owned(), contents: b"{}\n".to_vec() };
        let conversation = Conversation { id: "c".to_owned(), files: vec![file] };
        let name = store(&mut here, session, &conversation).unwrap().unwrap();
        let mut there = open();
        let mut resumed = |name: &str| load(&mut there, session, name, &nowhere).unwrap();
        assert_eq!(resumed(&name), Some(conversation.clone()));
        assert_eq!(resumed(&"0".repeat(64)), None);
        assert_eq!(resumed("../../etc/passwd"), None);
        let bytes = there.object(session, &format!("{PREFIX}{name}")).unwrap().unwrap();
        there.put_object(session, &format!("{PREFIX}{name}"), b"{}").unwrap();
        assert_eq!(load(&mut there, session, &name, &nowhere).unwrap(), None, "changed");
        remove_others(&mut there, session, std::iter::empty()).unwrap();
        assert_eq!(there.object_names(session).unwrap(), [""; 0]);
        assert_eq!(store(&mut here, session, &Conversation::default()).unwrap(), None);
        // The file of an earlier version.
        let earlier = EarlierConversations(directory.path().join("earlier"));
        let place = earlier.0.join(session.to_string()).join("conversations");
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join(format!("{name}.json")), bytes).unwrap();
        assert_eq!(load(&mut here, session, &name, &earlier).unwrap(), Some(conversation));
    }
}
