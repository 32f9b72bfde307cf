//! Records the exchanges with a model in a directory, and replays answers from it. An answer is found by the conversation in
//! the request, so that retries and sub-agents find theirs in any order. Without a recorded answer the run stops with a
//! reason.

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

/// Redacts secrets in a text or a JSON document.
pub type Redact = Arc<dyn Fn(&str) -> String + Send + Sync>;

const VERSION: u32 = 1;

/// One file of the directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedExchange {
    v: u32,
    wire: String,
    /// The digest that the request is found by.
    history: String,
    /// For people; a replay does not read it.
    request: serde_json::Value,
    /// The complete answer in its wire format, whether it was streamed or not.
    answer: serde_json::Value,
}

#[derive(Debug)]
pub enum RecordingError {
    Directory {
        path: PathBuf,
        source: std::io::Error,
    },
    /// Two recordings in one directory could not be separated.
    NotEmpty {
        path: PathBuf,
    },
    Empty {
        path: PathBuf,
    },
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    TooLarge {
        path: PathBuf,
        bytes: u64,
    },
    Parse {
        path: PathBuf,
        source: serde_json::Error,
    },
    Version {
        path: PathBuf,
        found: u32,
    },
}

impl fmt::Display for RecordingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory { path, source } => write!(f, "{} cannot be used: {source}", path.display()),
            Self::NotEmpty { path } => {
                write!(f, "{} is not empty: a recording needs an empty directory", path.display())
            }
            Self::Empty { path } => write!(f, "{} holds no recorded exchange", path.display()),
            Self::Read { path, source } => write!(f, "cannot read {}: {source}", path.display()),
            Self::TooLarge { path, bytes } => {
                write!(f, "{} is not a recorded exchange: it has {bytes} bytes", path.display())
            }
            Self::Parse { path, source } => {
                write!(f, "{} is not a recorded exchange: {source}", path.display())
            }
            Self::Version { path, found } => write!(
                f,
                "{} has version {found}; this program reads recordings of version {VERSION}",
                path.display()
            ),
        }
    }
}

impl std::error::Error for RecordingError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Directory { source, .. } | Self::Read { source, .. } => Some(source),
            Self::Parse { source, .. } => Some(source),
            Self::NotEmpty { .. } | Self::Empty { .. } | Self::TooLarge { .. } | Self::Version { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests;
