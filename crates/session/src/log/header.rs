//! What a session is given at its creation and keeps for good: its agent, its environment, its resources. An
//! environment is defined elsewhere; the session remembers which one and its digest, and never edits it.

use serde::{Deserialize, Serialize};

use crate::log::digest::Sha256Digest;
use crate::log::id::SessionId;
use crate::log::time::Timestamp;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionHeader {
    pub id: SessionId,
    /// The name of the harness that its wakes run.
    pub agent: String,
    pub environment: Option<SessionEnvironment>,
    pub resources: Vec<SessionResource>,
    pub created_ms: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionEnvironment {
    pub id: String,
    pub digest: Sha256Digest,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionResource {
    pub id: String,
    pub kind: String,
    pub source: String,
    pub mount: String,
    pub access: ResourceAccess,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResourceAccess {
    ReadOnly,
    ReadWrite,
}
