//! What an agent learned in one session for its later ones. Learnings belong to the agent, not to the session, and
//! the same lesson is kept once. Whether one may enter a context is for the guard to say, not for this crate.

use serde::{Deserialize, Serialize};

use crate::log::digest::Sha256Digest;
use crate::log::id::SessionId;
use crate::log::time::Timestamp;

/// A learning as a run words it.
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

/// A learning as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredLearning {
    pub session_id: SessionId,
    pub time_ms: Timestamp,
    pub learning: Learning,
}

impl Learning {
    /// Two learnings with the same key are the same one, and the first stands: the agent's own key if it gave
    /// one, else the words without regard to case and spaces.
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
