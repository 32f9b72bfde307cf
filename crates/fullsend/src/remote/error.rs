//! Why a remote resource cannot be used. No message holds a credential or a query.

use std::fmt;
use std::path::PathBuf;

use crate::fetch::FetchError;
use crate::git::GitError;

#[derive(Debug)]
pub enum RemoteError {
    /// No directory for the cache is known.
    NoCache,
    Store {
        path: PathBuf,
        source: std::io::Error,
    },
    /// The run is offline, and the cache does not have it.
    NotCached {
        url: String,
    },
    Download {
        url: String,
        source: FetchError,
    },
    Status {
        url: String,
        status: u16,
    },
    Git {
        url: String,
        source: GitError,
    },
    /// It does not match its digest.
    Digest {
        url: String,
        expected: String,
        found: String,
    },
    /// Something is wrong with its files.
    Files {
        url: String,
        why: String,
    },
    /// It took too long.
    Slow {
        url: String,
        seconds: u64,
    },
    TooMany {
        most: usize,
    },
    /// The lock file has another digest, or no entry.
    Lock {
        url: String,
        why: String,
    },
}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCache => f.write_str("there is no cache: set HOME or XDG_CACHE_HOME"),
            Self::Store { path, source } => write!(f, "cannot use the cache {}: {source}", path.display()),
            Self::NotCached { url } => write!(f, "{url} is not in the cache and must not be fetched"),
            Self::Download { url, source } => write!(f, "{url} cannot be fetched: {source}"),
            Self::Status { url, status } => {
                write!(f, "{url} cannot be fetched: the server answered {status}")
            }
            Self::Git { url, source } => write!(f, "{url} cannot be fetched: {source}"),
            Self::Digest { url, expected, found } => {
                write!(f, "{url} has the digest {found}, and {expected} is expected: it was changed")
            }
            Self::Files { url, why } => write!(f, "{url} {why}"),
            Self::Slow { url, seconds } => write!(f, "{url} took longer than {seconds} seconds"),
            Self::TooMany { most } => write!(f, "more than {most} remote resources are named"),
            Self::Lock { url, why } => write!(f, "{url} {why}"),
        }
    }
}

impl std::error::Error for RemoteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Store { source, .. } => Some(source),
            Self::Download { source, .. } => Some(source),
            Self::Git { source, .. } => Some(source),
            _ => None,
        }
    }
}
