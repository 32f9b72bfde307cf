//! What happens to a lasting sandbox. Its record is a log of these, with the same chain as that of a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum LastingEvent {
    /// The sandbox is being created. A field is empty if the sandbox has no such setting.
    Created {
        sandbox: String,
        name: String,
        policy: String,
        image: String,
        repository: String,
        ttl_seconds: u64,
        fullsend: String,
    },
    CommandStarted {
        command: u64,
        arguments: Vec<String>,
        directory: String,
    },
    CommandFinished {
        command: u64,
        /// As a shell gives it: 128 and more for a signal.
        exit: u8,
        timed_out: bool,
        duration_ms: u64,
    },
    /// A file or a directory was put into it, or got from it.
    FilesTransferred {
        direction: TransferDirection,
        path: String,
        ok: bool,
    },
    /// It is gone.
    Closed {
        reason: SandboxEnd,
        detail: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TransferDirection {
    Put,
    Get,
}

/// Why a lasting sandbox ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SandboxEnd {
    /// It was removed.
    Removed,
    /// Its time to live is over.
    Expired,
    /// The process that it belonged to has ended.
    ParentEnded,
    /// It went over a limit, or its first process ended.
    Stopped,
    /// Its owner process was killed; a later command cleaned up.
    OwnerDied,
}
