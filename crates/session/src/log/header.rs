//! What a session is created with: its agent, its environment, its resources. The header never changes. The environment is
//! defined in a layer; the header has its id and digest.

use serde::{Deserialize, Serialize};

use crate::log::digest::Sha256Digest;
use crate::log::id::SessionId;
use crate::log::time::Timestamp;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionHeader {
    pub id: SessionId,
    /// The repository that the session belongs to. Sessions of the first version have none: any worker may run them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// The harness that every wake runs.
    pub agent: String,
    pub environment: Option<SessionEnvironment>,
    pub resources: Vec<SessionResource>,
    pub created_ms: Timestamp,
    /// The session came from a bundle. A bundle itself does not say so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub imported: bool,
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
