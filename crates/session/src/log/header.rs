//! What a session is created with: its agent, its environment, its resources. The header never changes. The environment is
//! defined in a layer; the header has its id and digest.

use serde::{Deserialize, Serialize};

use crate::log::digest::Sha256Digest;
use crate::log::id::SessionId;
use crate::log::time::Timestamp;

/// The newest version of headers that this code reads and writes.
pub const HEADER_VERSION: u32 = 3;
/// The version of a header without a reference. Programs that do not know references still run such a session.
const VERSION_WITHOUT_REFERENCE: u32 = 2;

fn first_version() -> u32 {
    1
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionHeader {
    /// Headers of the first version have none: they name no organisation, no harness and no labels.
    #[serde(default = "first_version")]
    pub version: u32,
    pub id: SessionId,
    /// The repository that the session belongs to. Sessions of the first version have none: any worker may run them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// The branch, tag or commit of the repository that every wake works on, if not the newest commit of the default branch.
    /// Since version 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The organisation that the repository belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub organisation: Option<String>,
    /// The harness that every wake runs.
    pub agent: String,
    /// The digest of that harness when the session was created. Later wakes run the harness as it is then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harness: Option<Sha256Digest>,
    /// Only a worker that serves all of them runs the session.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    pub environment: Option<SessionEnvironment>,
    pub resources: Vec<SessionResource>,
    pub created_ms: Timestamp,
    /// The session that started it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ParentSession>,
    /// The session came from a bundle. A bundle itself does not say so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub imported: bool,
}

impl SessionHeader {
    /// The header of a session that belongs to no repository and has nothing but its agent.
    #[must_use]
    pub fn new(id: SessionId, agent: &str, created_ms: Timestamp) -> Self {
        Self {
            version: VERSION_WITHOUT_REFERENCE,
            id,
            repository: None,
            reference: None,
            organisation: None,
            agent: agent.to_owned(),
            harness: None,
            labels: Vec::new(),
            environment: None,
            resources: Vec::new(),
            created_ms,
            parent: None,
            imported: false,
        }
    }

    /// The same session on a branch, tag or commit. Older programs would run it on the default branch, so they must not read it.
    #[must_use]
    pub fn at(self, reference: Option<String>) -> Self {
        let version = if reference.is_some() { HEADER_VERSION } else { self.version };
        Self { version, reference, ..self }
    }
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

/// The session that started another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentSession {
    pub session: SessionId,
    /// How many sessions are above the child: 1 for a child of a session that a person created.
    pub depth: u32,
    /// What all wakes of the child may cost, with those of its own children.
    pub budget_microdollars: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResourceAccess {
    ReadOnly,
    ReadWrite,
}
