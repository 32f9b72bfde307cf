//! Why a service's own credential could not be made, and whether another try may make it.

use std::fmt;

/// A text alone is an error that stays: a file that is missing, a key that is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenError {
    pub reason: String,
    /// The token service is down or busy.
    pub is_transient: bool,
}

impl TokenError {
    pub(super) fn transient(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_transient: true }
    }

    /// The same error, with words before its reason.
    pub(super) fn within(self, place: &str) -> Self {
        Self { reason: format!("{place}: {}", self.reason), ..self }
    }
}

impl From<String> for TokenError {
    fn from(reason: String) -> Self {
        Self { reason, is_transient: false }
    }
}

impl From<&str> for TokenError {
    fn from(reason: &str) -> Self {
        Self::from(reason.to_owned())
    }
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for TokenError {}
