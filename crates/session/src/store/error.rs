//! Why something was not done: there is no such session, it was refused, or the store failed.

use std::fmt;

use crate::decide::refusal::SessionRefusal;
use crate::log::id::SessionId;

/// The store could not do its part. Nothing of the failed call was stored.
#[derive(Debug)]
pub enum StoreError {
    /// It cannot be reached or did not answer.
    Unavailable { step: &'static str, source: Box<dyn std::error::Error + Send + Sync> },
    /// No room is left.
    Full { step: &'static str },
    /// Others kept it busy for too long.
    Busy { step: &'static str },
    /// Something stored is not what was stored.
    Corrupt { session: Option<SessionId>, what: String },
    /// The stored form belongs to another version of this program.
    Version { found: i64, known: i64 },
    /// The place cannot be used as a store.
    Location { what: String },
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable { step, source } => write!(f, "the session store failed to {step}: {source}"),
            Self::Full { step } => write!(f, "the session store is full and failed to {step}; make room"),
            Self::Busy { step } => write!(f, "the session store was too busy to {step}; try again"),
            Self::Corrupt { session: Some(session), what } => {
                write!(f, "session {session} is damaged: {what}; restore it from an export")
            }
            Self::Corrupt { session: None, what } => write!(f, "the session store is damaged: {what}"),
            Self::Version { found, known } => {
                write!(f, "the session store has format {found}, this program knows up to {known}; update it")
            }
            Self::Location { what } => f.write_str(what),
        }
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unavailable { source, .. } => Some(source.as_ref()),
            _ => None,
        }
    }
}

/// Why something was not done.
#[derive(Debug)]
pub enum SessionError {
    NoSession(SessionId),
    Refused(SessionRefusal),
    Store(StoreError),
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSession(id) => write!(f, "there is no session {id}"),
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SessionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NoSession(_) => None,
            Self::Refused(refusal) => Some(refusal),
            Self::Store(error) => Some(error),
        }
    }
}

impl From<SessionRefusal> for SessionError {
    fn from(refusal: SessionRefusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<StoreError> for SessionError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
