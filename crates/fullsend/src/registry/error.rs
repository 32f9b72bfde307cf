//! Why an image could not be pulled: what failed, with which image, and what to try. No message holds a credential.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::fetch::FetchError;

#[derive(Debug)]
pub enum PullError {
    /// The configuration does not allow this image.
    NotAllowed {
        name: String,
        why: String,
    },
    /// It is not in the cache, and must not be pulled.
    NotCached {
        name: String,
    },
    /// The registry cannot be reached.
    Unreachable {
        name: String,
        source: FetchError,
    },
    /// The registry said no.
    Answered {
        name: String,
        status: u16,
        message: String,
    },
    /// The registry requires a login, and there is none or it does not work.
    Login {
        registry: String,
        why: String,
    },
    /// The content does not match its digest, or is ambiguous.
    Refused {
        name: String,
        why: String,
    },
    /// It is not an image that this machine can use.
    Unusable {
        name: String,
        why: String,
    },
    /// The cache cannot be used.
    Store {
        path: PathBuf,
        source: io::Error,
    },
    Cancelled {
        name: String,
    },
}

impl fmt::Display for PullError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAllowed { name, why } => write!(f, "the image {name} is not allowed: {why}"),
            Self::NotCached { name } => write!(
                f,
                "the image {name} is not in the cache and must not be pulled: run `fullsend image pull {name}` first"
            ),
            Self::Unreachable { name, source } => write!(f, "the image {name} cannot be pulled: {source}"),
            Self::Answered { name, status, message } => {
                write!(f, "the image {name} cannot be pulled: the registry answered {status}")?;
                if message.is_empty() { Ok(()) } else { write!(f, ": {message}") }
            }
            Self::Login { registry, why } => write!(f, "cannot log in to {registry}: {why}"),
            Self::Refused { name, why } => write!(f, "the image {name} is refused: {why}"),
            Self::Unusable { name, why } => write!(f, "the image {name} cannot be used: {why}"),
            Self::Store { path, source } => {
                write!(f, "the cache of images {} cannot be used: {source}", path.display())
            }
            Self::Cancelled { name } => write!(f, "pulling the image {name} was interrupted"),
        }
    }
}

impl std::error::Error for PullError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreachable { source, .. } => Some(source),
            Self::Store { source, .. } => Some(source),
            _ => None,
        }
    }
}
