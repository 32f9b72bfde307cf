//! Why a document or a stream frame is not in its wire format.

use serde::de::DeserializeOwned;
use std::fmt;

#[derive(Debug)]
pub enum WireError {
    Json { format: &'static str, source: serde_json::Error },
    Invalid { format: &'static str, reason: String },
}

impl WireError {
    pub(super) fn invalid(format: &'static str, reason: impl Into<String>) -> Self {
        Self::Invalid { format, reason: reason.into() }
    }
}

pub(super) fn parse<T: DeserializeOwned>(format: &'static str, json: &[u8]) -> Result<T, WireError> {
    serde_json::from_slice(json).map_err(|source| WireError::Json { format, source })
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json { format, source } => write!(f, "not a {format} document: {source}"),
            Self::Invalid { format, reason } => write!(f, "not a {format} document: {reason}"),
        }
    }
}

impl std::error::Error for WireError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Json { source, .. } => Some(source),
            Self::Invalid { .. } => None,
        }
    }
}
