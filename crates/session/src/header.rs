//! What a session is given at its creation and keeps for good: its agent, its environment, its resources. An
//! environment is defined elsewhere; the session remembers which one and its digest, and never edits it.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::id::SessionId;
use crate::limits::Limits;
use crate::moment::Timestamp;
use crate::refusal::Refusal;

const MAX_NAME_BYTES: usize = 200;
const MAX_PATH_BYTES: usize = 4_096;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    pub id: SessionId,
    /// The name of the harness that its wakes run.
    pub agent: String,
    pub environment: Option<Environment>,
    pub resources: Vec<Resource>,
    pub created_ms: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Environment {
    pub id: String,
    pub digest: Digest,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resource {
    pub id: String,
    pub kind: String,
    pub source: String,
    pub mount: String,
    pub access: Access,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    ReadOnly,
    ReadWrite,
}

impl Header {
    pub(crate) fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        let Self { id: _, agent, environment, resources, created_ms: _ } = self;
        check_text("agent", agent, MAX_NAME_BYTES)?;
        if let Some(Environment { id, digest: _ }) = environment {
            check_text("environment", id, MAX_NAME_BYTES)?;
        }
        let (count, limit) = (resources.len(), limits.resources);
        if count > limit {
            return Err(Refusal::TooMany { what: "resources", count, limit });
        }
        for (at, Resource { id, kind, source, mount, access: _ }) in resources.iter().enumerate() {
            check_text("resource id", id, MAX_NAME_BYTES)?;
            check_text("resource kind", kind, MAX_NAME_BYTES)?;
            check_text("resource source", source, MAX_PATH_BYTES)?;
            check_text("resource mount", mount, MAX_PATH_BYTES)?;
            let clashes = |other: &Resource| other.id == *id || other.mount == *mount;
            if resources[..at].iter().any(clashes) {
                return Err(Refusal::Field { what: "resources", why: "two have the same id or mount" });
            }
        }
        Ok(())
    }
}

fn check_text(what: &'static str, text: &str, limit: usize) -> Result<(), Refusal> {
    if text.trim().is_empty() {
        return Err(Refusal::Empty { what });
    }
    if text.chars().any(char::is_control) {
        return Err(Refusal::Field { what, why: "control characters are not allowed" });
    }
    if text.len() > limit {
        return Err(Refusal::TooLarge { what, size: text.len(), limit });
    }
    Ok(())
}
