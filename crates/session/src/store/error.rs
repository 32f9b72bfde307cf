//! Errors: the session does not exist, it refused the call, or the store failed.

use std::fmt;

use crate::decide::refusal::SessionRefusal;
use crate::log::id::SessionId;

/// An error of the store. The failed call stored nothing.
#[derive(Debug)]
pub enum StoreError {
    /// The store cannot be reached or did not answer.
    Unavailable { step: &'static str, source: Box<dyn std::error::Error + Send + Sync> },
    /// The disk is full.
    Full { step: &'static str },
    /// Other writers held a lock for too long.
    Busy { step: &'static str },
    /// Stored data is damaged.
    Corrupt { session: Option<SessionId>, what: String },
    /// A newer version of this program migrated the store.
    Version { found: i64, known: i64 },
    /// The server refuses the user, or the user's rights do not suffice.
    Rights { step: &'static str, why: String },
    /// The tables must be created or migrated by a user with the rights to do so.
    NotMigrated,
    /// The path or the address cannot be used as a store.
    Location { what: String },
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable { step, source } => write!(f, "the session store failed to {step}: {source}"),
            Self::Full { step } => {
                write!(f, "the session store is full and failed to {step}; free some disk space")
            }
            Self::Busy { step } => write!(f, "the session store was too busy to {step}; try again"),
            Self::Corrupt { session: Some(session), what } => {
                write!(f, "session {session} is damaged: {what}; restore it from an export")
            }
            Self::Corrupt { session: None, what } => write!(f, "the session store is damaged: {what}"),
            Self::Version { found, known } => {
                write!(
                    f,
                    "the session store has format {found}, but this program knows formats up to {known}; update fullsend"
                )
            }
            Self::Rights { step, why } => write!(f, "the session store refused to {step}: {why}"),
            Self::NotMigrated => f.write_str(
                "the session store is not migrated; run `fullsend store migrate` as a user who may create them",
            ),
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

/// Why a call failed.
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
