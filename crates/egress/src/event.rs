//! What egress tells the program: small plain facts, in the order in which they happened. The program wraps them into
//! its own events; nothing here prints or stores them.

use crate::proxy::Via;
use serde::Serialize;
use std::sync::Arc;

pub type OnEvent = Arc<dyn Fn(EgressEvent) + Send + Sync>;

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EgressEvent {
    /// One attempt to reach something through the proxy, at its end.
    Attempt(AttemptEvent),
    /// The sandbox asked for the address of a name that it gets none for.
    NameRefused { name: String, reason: String },
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AttemptEvent {
    pub via: Via,
    pub host: String,
    pub port: u16,
    /// Of a request that was read; a tunnel has none.
    pub method: Option<String>,
    /// Without its query, which may hold what nobody should read.
    pub path: Option<String>,
    /// Outside the sandbox.
    pub pid: Option<u32>,
    pub binary: Option<String>,
    pub sha256: Option<String>,
    pub decision: AttemptDecision,
    /// Where the policy says so.
    pub rule: Option<String>,
    /// The kind of refusal, as the client reads it too.
    pub code: Option<&'static str>,
    pub reason: Option<String>,
    /// The least addition to the policy that would have allowed it.
    pub fix: Option<String>,
    pub status: Option<u16>,
    pub bytes_out: u64,
    pub bytes_in: u64,
    pub duration_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptDecision {
    Allowed,
    /// Let through because the endpoint only audits.
    Audited,
    Denied,
    /// Neither allowed nor refused by the policy: out of reach, cut off, unreadable.
    Failed,
}
