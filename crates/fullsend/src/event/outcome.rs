//! How a run ends, and the exit code that says so to CI.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeKind {
    Completed,
    Skipped,
    NoOutput,
    Denied,
    Asked,
    InvalidOutput,
    AgentFailed,
    Timeout,
    Budget,
    SecurityStop,
    SandboxUnavailable,
    SetupFailed,
    PostScriptFailed,
    Interrupted,
    Internal,
}

impl OutcomeKind {
    pub fn word(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Skipped => "skipped",
            Self::NoOutput => "no_output",
            Self::Denied => "denied",
            Self::Asked => "asked",
            Self::InvalidOutput => "invalid_output",
            Self::AgentFailed => "agent_failed",
            Self::Timeout => "timeout",
            Self::Budget => "budget",
            Self::SecurityStop => "security_stop",
            Self::SandboxUnavailable => "sandbox_unavailable",
            Self::SetupFailed => "setup_failed",
            Self::PostScriptFailed => "post_script_failed",
            Self::Interrupted => "interrupted",
            Self::Internal => "internal",
        }
    }
}
