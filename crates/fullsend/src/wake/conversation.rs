//! The conversations of runtimes, in each runtime's own format, in files beside the store. A file is named after its digest,
//! and the log holds that name, so a missing or changed conversation is not resumed. The session then continues from its
//! memory and events.

use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::runtime::Conversation;
use crate::runtime::state::StateFile;
use session::{SessionId, Sha256Digest};

/// A longer conversation is not resumed.
const MAX_BYTES: usize = 16 << 20;

/// The directory of the conversations.
#[derive(Debug, Clone)]
pub struct Conversations(pub PathBuf);

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

impl Conversations {
    /// Stores a conversation and returns its name for the log, or `None` if it cannot be resumed.
    pub fn store(&self, session: SessionId, conversation: &Conversation) -> std::io::Result<Option<String>> {
        let text = |file: &StateFile| {
            let text = String::from_utf8(file.contents.clone()).ok()?;
            Some(StoredFile { path: file.path.clone(), text })
        };
        let Some(files) = conversation.files.iter().map(text).collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let stored = StoredConversation { id: conversation.id.clone(), files };
        let bytes = serde_json::to_vec(&stored)?;
        if bytes.len() > MAX_BYTES || stored.files.is_empty() {
            return Ok(None);
        }
        let digest = Sha256Digest::of(&bytes);
        let directory = self.directory(session);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let path = directory.join(format!("{digest}.json"));
        let unfinished = directory.join(format!(".{digest}.{}", std::process::id()));
        let mut file =
            std::fs::File::options().create(true).truncate(true).write(true).mode(0o600).open(&unfinished)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        std::fs::rename(unfinished, path)?;
        Ok(Some(digest.to_string()))
    }

    /// The conversation with this name, if its file exists and is unchanged.
    pub fn load(&self, session: SessionId, name: &str) -> Option<Conversation> {
        let digest: Sha256Digest = name.parse().ok()?;
        let path = self.directory(session).join(format!("{digest}.json"));
        let about = std::fs::symlink_metadata(&path).ok()?;
        if !about.is_file() || about.len() > MAX_BYTES as u64 {
            return None;
        }
        let bytes = std::fs::read(path).ok()?;
        if Sha256Digest::of(&bytes) != digest {
            return None;
        }
        let stored: StoredConversation = serde_json::from_slice(&bytes).ok()?;
        let file = |StoredFile { path, text }| StateFile { path, contents: text.into_bytes() };
        Some(Conversation { id: stored.id, files: stored.files.into_iter().map(file).collect() })
    }

    /// Removes the conversations that the log no longer names.
    pub fn remove_others<'a>(&self, session: SessionId, named: impl Iterator<Item = &'a str>) {
        let named: Vec<String> = named.map(|name| format!("{name}.json")).collect();
        for entry in std::fs::read_dir(self.directory(session)).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !named.contains(&name) && !name.starts_with('.') {
                drop(std::fs::remove_file(entry.path()));
            }
        }
    }

    fn directory(&self, session: SessionId) -> PathBuf {
        Path::new(&self.0).join(session.to_string()).join("conversations")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_unchanged_conversation_is_resumed() {
        let directory = tempfile::tempdir().unwrap();
        let conversations = Conversations(directory.path().to_owned());
        let session: SessionId = "018bcfe5-6800-7000-8000-00000000000a".parse().unwrap();
        let file = StateFile { path: "a/b.jsonl".to_owned(), contents: b"{}\n".to_vec() };
        let conversation = Conversation { id: "c".to_owned(), files: vec![file] };
        let name = conversations.store(session, &conversation).unwrap().unwrap();
        assert_eq!(conversations.load(session, &name), Some(conversation.clone()));
        assert_eq!(conversations.load(session, &"0".repeat(64)), None);
        assert_eq!(conversations.load(session, "../../etc/passwd"), None);
        let path = conversations.directory(session).join(format!("{name}.json"));
        std::fs::write(&path, "{}").unwrap();
        assert_eq!(conversations.load(session, &name), None, "changed");
        conversations.remove_others(session, std::iter::empty());
        assert!(!path.exists());
        let empty = Conversation::default();
        assert_eq!(conversations.store(session, &empty).unwrap(), None);
    }
}
