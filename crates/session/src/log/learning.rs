//! Learnings: what an agent keeps from one session for its later ones. They belong to the agent. The same learning is stored
//! once. The guard decides whether a learning may enter a prompt; this crate does not.

use serde::{Deserialize, Serialize};

use crate::log::digest::Sha256Digest;
use crate::log::id::SessionId;
use crate::log::time::Timestamp;

/// A learning as the agent wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Learning {
    pub kind: LearningKind,
    pub title: String,
    pub detail: String,
    #[serde(default)]
    pub dedupe_key: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LearningKind {
    Lesson,
    Correction,
    Error,
}

/// A learning as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredLearning {
    pub session_id: SessionId,
    pub time_ms: Timestamp,
    pub learning: Learning,
}

impl Learning {
    /// Learnings with the same key are the same, and the first one is kept. The key is the agent's own if it gave one, else
    /// the text without regard to case and spaces.
    #[must_use]
    pub fn key(&self) -> Sha256Digest {
        if let Some(key) = &self.dedupe_key {
            return Sha256Digest::of_parts(&[b"key", key.trim().as_bytes()]);
        }
        let kind = format!("{:?}", self.kind);
        Sha256Digest::of_parts(&[
            b"words",
            kind.as_bytes(),
            plain(&self.title).as_bytes(),
            plain(&self.detail).as_bytes(),
        ])
    }
}

fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learning(title: &str, key: Option<&str>) -> Learning {
        let dedupe_key = key.map(str::to_owned);
        Learning { kind: LearningKind::Lesson, title: title.to_owned(), detail: "d".to_owned(), dedupe_key }
    }

    #[test]
    fn the_same_lesson_is_one() {
        let same = |a: &Learning, b: &Learning| a.key() == b.key();
        assert!(same(&learning("Use  the cache ", None), &learning("use the CACHE", None)));
        assert!(!same(&learning("use the cache", None), &learning("use a cache", None)));
        assert!(same(&learning("one", Some("k")), &learning("two", Some("k"))));
        assert!(!same(&learning("one", Some("k")), &learning("one", None)));
        let error = Learning { kind: LearningKind::Error, ..learning("one", None) };
        assert!(!same(&error, &learning("one", None)));
    }
}
