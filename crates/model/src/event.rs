//! The events of the gateway, in the order in which they happen. The program wraps them into its own events; nothing
//! here prints or stores them.

use crate::price::Money;
use crate::wire::{TokenUsage, Wire};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub type OnModelEvent = Arc<dyn Fn(ModelEvent) + Send + Sync>;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ModelEvent {
    /// A model request passed every check and goes to the upstream.
    ModelRequest {
        exchange: u64,
        wire: Wire,
        model: String,
        turn: usize,
        tools: usize,
        bytes: usize,
        /// The longest answer that the budget pays, where the request asks for a longer one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shortened_to: Option<u64>,
    },
    /// The upstream's answer was delivered, or as much of it as came.
    ModelAnswer {
        exchange: u64,
        /// As the answer names it.
        model: String,
        status: u16,
        ending: AnswerEnding,
        usage: TokenUsage,
        /// `None`: this model has no price.
        cost: Option<Money>,
        /// The vendor did not report its usage; the amounts are the highest possible.
        #[serde(default, skip_serializing_if = "is_false")]
        estimated: bool,
        duration_ms: u64,
    },
    /// A model request that did not reach the upstream.
    ModelRefused { exchange: u64, status: u16, reason: String },
    /// The runtime asked how many tokens a request has. The upstream got the request and made no answer.
    TokensCounted {
        exchange: u64,
        model: String,
        bytes: usize,
        /// `None`: the upstream did not say.
        tokens: Option<u64>,
    },
    /// Four fifths of the budget are spent.
    BudgetWarning { spent: String },
    /// The budget is spent; no further request passes.
    BudgetSpent { spent: String },
    /// A request that failed is tried again after a wait.
    ModelRetry {
        exchange: u64,
        attempt: u32,
        /// `None`: there was no answer.
        status: Option<u16>,
        reason: String,
        wait_ms: u64,
    },
    /// The model stays busy; another one that the harness names is asked.
    ModelFallback { exchange: u64, from: String, to: String, reason: String },
    /// The upstream does not accept the key.
    CredentialRefused {
        exchange: u64,
        status: u16,
        /// The provider and the variable.
        credential: String,
    },
    /// The conversation does not fit into the model's context.
    ContextTooLong {
        exchange: u64,
        model: String,
        /// The vendor's words.
        reason: String,
    },
    /// Written by earlier versions: the upstream is too busy; nothing is sent to it until then.
    UpstreamResting { retry_after_ms: u64 },
    /// The guard stops the run. The gateway passes nothing from now on.
    Stop { exchange: u64, reason: String },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "it is the form that serde calls")]
fn is_false(value: &bool) -> bool {
    !value
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnswerEnding {
    Complete,
    /// The upstream answered with an error status, or with an error inside its stream.
    Fault,
    /// The upstream's answer broke off, or was not in its format.
    Cut,
    /// The client went away first.
    ClientGone,
    /// The guard stopped it.
    Stopped,
}
