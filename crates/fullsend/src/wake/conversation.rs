//! The conversations of runtimes, in their own form, beside the store: files by the digest of what is in them. The log names
//! the digest, so that a conversation that is missing or changed is not gone on with; the session then continues from
//! its memory and events.

use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::runtime::Conversation;
use crate::runtime::state::StateFile;
use session::{SessionId, Sha256Digest};

/// A conversation that has grown beyond this is not gone on with.
const MAX_BYTES: usize = 16 << 20;

/// Where conversations are kept.
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
    /// Keeps a conversation and gives what the log shall say of it; `None` if it cannot be gone on with.
    pub fn keep(&self, session: SessionId, conversation: &Conversation) -> std::io::Result<Option<String>> {
        let text = |file: &StateFile| {
            let text = String::from_utf8(file.contents.clone()).ok()?;
            Some(StoredFile { path: file.path.clone(), text })
        };
        let Some(files) = conversation.files.iter().map(text).collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let kept = StoredConversation { id: conversation.id.clone(), files };
        let bytes = serde_json::to_vec(&kept)?;
        if bytes.len() > MAX_BYTES || kept.files.is_empty() {
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

    /// The conversation that the log names, if it is here and what it was.
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
        let kept: StoredConversation = serde_json::from_slice(&bytes).ok()?;
        let file = |StoredFile { path, text }| StateFile { path, contents: text.into_bytes() };
        Some(Conversation { id: kept.id, files: kept.files.into_iter().map(file).collect() })
    }

    /// Removes what the log does not name any more.
    pub fn forget_others<'a>(&self, session: SessionId, named: impl Iterator<Item = &'a str>) {
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
    fn only_what_was_kept_is_gone_on_with() {
        let place = tempfile::tempdir().unwrap();
        let conversations = Conversations(place.path().to_owned());
        let session: SessionId = "018bcfe5-6800-7000-8000-00000000000a".parse().unwrap();
        let file = StateFile { path: "a/b.jsonl".to_owned(), contents: b"{}\n".to_vec() };
        let conversation = Conversation { id: "c".to_owned(), files: vec![file] };
        let name = conversations.keep(session, &conversation).unwrap().unwrap();
        assert_eq!(conversations.load(session, &name), Some(conversation.clone()));
        assert_eq!(conversations.load(session, &"0".repeat(64)), None);
        assert_eq!(conversations.load(session, "../../etc/passwd"), None);
        let path = conversations.directory(session).join(format!("{name}.json"));
        std::fs::write(&path, "{}").unwrap();
        assert_eq!(conversations.load(session, &name), None, "changed");
        conversations.forget_others(session, std::iter::empty());
        assert!(!path.exists());
        let empty = Conversation::default();
        assert_eq!(conversations.keep(session, &empty).unwrap(), None);
    }
}
