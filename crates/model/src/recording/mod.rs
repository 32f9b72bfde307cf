//! Exchanges with a model, kept in a directory, and answers taken from there instead of from a model. An answer is found
//! by what the request itself says of its history, so that retries and sub-agents find theirs in any order; where there
//! is none, the run ends and says so.

mod history;
mod record;
mod replay;

pub(crate) use record::AnswerRecorder;
pub use record::Recorder;
pub use replay::Replay;

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Masks what nobody may read later, in a text or in a JSON document.
pub type Redact = Arc<dyn Fn(&str) -> String + Send + Sync>;

const VERSION: u32 = 1;

/// One file of the directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedExchange {
    v: u32,
    wire: String,
    /// What the request is found by.
    history: String,
    /// For people; nothing is read from it.
    request: serde_json::Value,
    /// Whole, in the wire's own format, whether it was streamed or not.
    answer: serde_json::Value,
}

#[derive(Debug)]
pub enum RecordingError {
    Directory {
        path: PathBuf,
        source: std::io::Error,
    },
    /// Two recordings in one directory could not be told apart.
    NotEmpty {
        path: PathBuf,
    },
    Empty {
        path: PathBuf,
    },
    File {
        path: PathBuf,
        why: String,
    },
}

impl fmt::Display for RecordingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory { path, source } => write!(f, "{} cannot be used: {source}", path.display()),
            Self::NotEmpty { path } => {
                write!(f, "{} is not empty: a recording begins in a directory of its own", path.display())
            }
            Self::Empty { path } => write!(f, "{} holds no recorded exchange", path.display()),
            Self::File { path, why } => write!(f, "{} is not a recorded exchange: {why}", path.display()),
        }
    }
}

impl std::error::Error for RecordingError {}

#[cfg(test)]
mod tests;
