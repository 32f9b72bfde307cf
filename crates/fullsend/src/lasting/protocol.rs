//! The messages between a client and the owner of a lasting sandbox, over a Unix socket in the sandbox's directory. The
//! bytes of commands do not pass through the owner: the client passes it the ends of pipes. Both ends are this program;
//! `PROTOCOL` is in the manifest, so that a client notices another version before it connects.

use std::ffi::OsString;
use std::path::PathBuf;

use sandbox::CommandExit;
use serde::{Deserialize, Serialize};

/// Grows when a message changes.
pub const PROTOCOL: u32 = 1;

/// From the process that creates a sandbox to its owner. Carries a descriptor of the parent process, if it has one.
#[derive(Debug, Serialize, Deserialize)]
pub struct OwnerSpec {
    pub id: String,
    pub name: Option<String>,
    /// Where this sandbox keeps its manifest, its record, its socket and its state. Exists.
    pub directory: PathBuf,
    pub policy_name: String,
    pub policy_text: String,
    /// An image, and the cache that it is unpacked in.
    pub image: Option<(PathBuf, PathBuf)>,
    /// Shown inside as a copy-on-write view.
    pub repository: Option<PathBuf>,
    pub ttl_seconds: u64,
    pub limits: LastingLimits,
}

/// What a lasting sandbox may use. The defaults are those of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastingLimits {
    pub memory_mb: u64,
    pub pids: u64,
    pub file_mb: u64,
    pub open_files: u64,
    pub disk_mb: u64,
}

impl Default for LastingLimits {
    fn default() -> Self {
        Self { memory_mb: 4096, pids: 1024, file_mb: 1024, open_files: 4096, disk_mb: 8192 }
    }
}

/// The owner's one answer to its spec.
#[derive(Debug, Serialize, Deserialize)]
pub enum OwnerStart {
    Ready,
    Failed { message: String },
}

/// The first message of a client on a new connection; on the connection of a command, `Signal` may follow.
#[derive(Debug, Serialize, Deserialize)]
pub enum OwnerRequest {
    /// Carries the command's ends of its three streams, unless it gets a terminal.
    Exec(ExecSpec),
    /// To the process group of the connection's command.
    Signal {
        signal: i32,
    },
    /// End the sandbox; answered when it is gone.
    Remove,
    Status,
}

/// A command for a lasting sandbox.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExecSpec {
    pub arguments: Vec<OsString>,
    pub environment: Vec<(OsString, OsString)>,
    /// Where it starts; by default the workspace.
    pub working_directory: Option<PathBuf>,
    pub terminal: bool,
    /// After this time everything that the command started is killed.
    pub timeout_ms: Option<u64>,
    pub purpose: ExecPurpose,
}

/// What the record says about a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExecPurpose {
    Command,
    Put { path: String },
    Get { path: String },
}

/// From the owner to a client.
#[derive(Debug, Serialize, Deserialize)]
pub enum OwnerReply {
    /// The command runs. Carries the person's side of its terminal, if it has one.
    Started {
        pid: i32,
    },
    /// The command was not started, or the request is not valid here.
    Refused {
        message: String,
        errno: Option<i32>,
    },
    /// The command ended.
    Ended {
        exit: CommandExit,
        timed_out: bool,
    },
    /// The sandbox ended before the command did.
    Gone {
        how: String,
    },
    Removed,
    Status {
        commands: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::LastingLimits;

    #[test]
    fn the_limits_are_those_of_a_run() {
        let LastingLimits { memory_mb, pids, file_mb, open_files, disk_mb } = LastingLimits::default();
        let (_, defaults) = crate::defaults::FILES[0];
        for (name, value) in [
            ("memory_mb", memory_mb),
            ("pids", pids),
            ("file_mb", file_mb),
            ("open_files", open_files),
            ("disk_mb", disk_mb),
        ] {
            assert!(defaults.contains(&format!("    {name}: {value}\n")), "{name}");
        }
    }
}
