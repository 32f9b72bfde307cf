//! Why output does not leave quarantine. Whose fault it is decides the exit code: the agent (`Refused`), the guard (`Blocked`),
//! or this machine (the rest).

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

use crate::git::GitError;
use crate::guard::Blocked;

#[derive(Debug)]
pub enum QuarantineError {
    /// The agent's fault.
    Refused {
        path: String,
        why: &'static str,
    },
    Read {
        path: String,
        source: io::Error,
    },
    /// The guard found something.
    Blocked(Blocked),
    Write {
        path: PathBuf,
        source: io::Error,
    },
    Git(GitError),
}

impl QuarantineError {
    /// The agent decides what is at a path and who may read it, so a failure to open it counts against the agent.
    /// Only I/O errors and exhausted descriptors or memory count as ours.
    pub(super) fn unreadable(path: String, source: io::Error) -> Self {
        match Errno::from_io_error(&source) {
            None | Some(Errno::IO | Errno::MFILE | Errno::NFILE | Errno::NOMEM) => {
                Self::Read { path, source }
            }
            Some(_) => Self::Refused { path, why: "cannot be read" },
        }
    }
}

impl std::fmt::Display for QuarantineError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused { path, why } => write!(f, "{path} {why}"),
            Self::Blocked(blocked) => blocked.fmt(f),
            Self::Read { path, source } => write!(f, "{path} cannot be read: {source}"),
            Self::Write { path, source } => write!(f, "cannot write {}: {source}", path.display()),
            Self::Git(error) => write!(f, "cannot create the patch: {error}"),
        }
    }
}

impl std::error::Error for QuarantineError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Refused { .. } | Self::Blocked(_) => None,
            Self::Read { source, .. } | Self::Write { source, .. } => Some(source),
            Self::Git(error) => Some(error),
        }
    }
}

impl From<GitError> for QuarantineError {
    fn from(error: GitError) -> Self {
        Self::Git(error)
    }
}
