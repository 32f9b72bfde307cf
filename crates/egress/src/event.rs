//! What egress tells the program: small plain facts, in the order in which they happened. The program wraps them into
//! its own events; nothing here prints or stores them.

use crate::door::price::Money;
use crate::proxy::Via;
use crate::wire::Usage;
use serde::Serialize;
use std::sync::Arc;

pub type OnEvent = Arc<dyn Fn(EgressEvent) + Send + Sync>;

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EgressEvent {
    /// A model request passed every check and goes to the upstream.
    ModelRequest { exchange: u64, wire: &'static str, model: String, turn: usize, tools: usize, bytes: usize },
    /// The upstream's answer was delivered, or as much of it as came.
    ModelAnswer {
        exchange: u64,
        /// As the answer names it.
        model: String,
        status: u16,
        ending: Ending,
        usage: Usage,
        /// `None`: this model has no price.
        cost: Option<Money>,
        duration_ms: u64,
    },
    /// A model request that did not reach the upstream.
    ModelRefused { exchange: u64, status: u16, reason: String },
    /// Four fifths of the budget are spent.
    BudgetWarning { spent: String },
    /// The budget is spent; no further request passes.
    BudgetSpent { spent: String },
    /// The upstream is too busy; nothing is sent to it until then.
    UpstreamResting { retry_after_ms: u64 },
    /// One attempt to reach something through the proxy, at its end.
    Attempt(AttemptEvent),
    /// The sandbox asked for the address of a name that it gets none for.
    NameRefused { name: String, reason: String },
    /// The judge wants the run to end. The door passes nothing from here on.
    Stop { exchange: u64, reason: String },
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    Complete,
    /// The upstream answered with an error status, or with an error inside its stream.
    Fault,
    /// The upstream's answer broke off, or was not in its format.
    Cut,
    /// The client went away first.
    ClientGone,
    /// The judge stopped it.
    Stopped,
}
