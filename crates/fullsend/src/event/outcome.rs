//! How a run ends. `EndCause` says why; it decides the outcome that the record shows and the exit code that CI sees.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::exit::Exit;

/// How a run ended, as its record shows it.
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
    ModelUnavailable,
    SecurityStop,
    SandboxUnavailable,
    SetupFailed,
    PostScriptFailed,
    Interrupted,
    Internal,
}

/// Why a run ended. Each cause has one outcome and one exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndCause {
    /// The output passed every check and was published.
    Completed,
    /// The pre-script found nothing to do.
    Skipped,
    /// The agent produced no output or changes.
    NoOutput,
    /// The agent produced no output or changes, and the guard had denied some of its calls.
    Denied,
    /// The agent ended with a question instead of output.
    Asked,
    /// The output violates its schema, or the validation script rejects it, after the last attempt.
    InvalidOutput,
    AgentFailed,
    Timeout,
    BudgetSpent,
    /// A rate limit or an outage of the model lasted until the retry time was over.
    ModelUnavailable,
    /// The guard stopped the run.
    SecurityStop,
    SandboxUnavailable,
    /// The harness or its configuration is wrong.
    ConfigurationInvalid,
    /// A variable, a credential, a program or another prerequisite is missing.
    PrerequisiteMissing,
    /// The pre-script, the validation script or an API server failed.
    ScriptFailed,
    PostScriptFailed,
    /// SIGINT, or the fullsend process died.
    Interrupted,
    /// SIGTERM or SIGHUP.
    Terminated,
    /// A bug in fullsend, or a write error other than a full or read-only disk.
    Internal,
}

impl EndCause {
    pub const ALL: [Self; 19] = [
        Self::Completed,
        Self::Skipped,
        Self::NoOutput,
        Self::Denied,
        Self::Asked,
        Self::InvalidOutput,
        Self::AgentFailed,
        Self::Timeout,
        Self::BudgetSpent,
        Self::ModelUnavailable,
        Self::SecurityStop,
        Self::SandboxUnavailable,
        Self::ConfigurationInvalid,
        Self::PrerequisiteMissing,
        Self::ScriptFailed,
        Self::PostScriptFailed,
        Self::Interrupted,
        Self::Terminated,
        Self::Internal,
    ];

    pub fn outcome(self) -> OutcomeKind {
        match self {
            Self::Completed => OutcomeKind::Completed,
            Self::Skipped => OutcomeKind::Skipped,
            Self::NoOutput => OutcomeKind::NoOutput,
            Self::Denied => OutcomeKind::Denied,
            Self::Asked => OutcomeKind::Asked,
            Self::InvalidOutput => OutcomeKind::InvalidOutput,
            Self::AgentFailed => OutcomeKind::AgentFailed,
            Self::Timeout => OutcomeKind::Timeout,
            Self::BudgetSpent => OutcomeKind::Budget,
            Self::ModelUnavailable => OutcomeKind::ModelUnavailable,
            Self::SecurityStop => OutcomeKind::SecurityStop,
            Self::SandboxUnavailable => OutcomeKind::SandboxUnavailable,
            Self::ConfigurationInvalid | Self::PrerequisiteMissing | Self::ScriptFailed => {
                OutcomeKind::SetupFailed
            }
            Self::PostScriptFailed => OutcomeKind::PostScriptFailed,
            Self::Interrupted | Self::Terminated => OutcomeKind::Interrupted,
            Self::Internal => OutcomeKind::Internal,
        }
    }

    /// The exit code of a run. The numbers are in `exit.rs`.
    pub fn exit(self) -> Exit {
        match self {
            Self::Completed | Self::Skipped => Exit::Done,
            Self::AgentFailed | Self::ScriptFailed | Self::PostScriptFailed => Exit::Failed,
            Self::ConfigurationInvalid => Exit::Invalid,
            Self::PrerequisiteMissing => Exit::Missing,
            Self::InvalidOutput => Exit::InvalidOutput,
            Self::SecurityStop => Exit::Security,
            Self::BudgetSpent => Exit::Budget,
            Self::ModelUnavailable => Exit::ModelUnavailable,
            Self::SandboxUnavailable => Exit::SandboxUnavailable,
            Self::NoOutput | Self::Denied | Self::Asked => Exit::NoOutput,
            Self::Internal => Exit::Bug,
            Self::Timeout => Exit::Timeout,
            Self::Interrupted => Exit::Interrupted,
            Self::Terminated => Exit::Terminated,
        }
    }
}

impl OutcomeKind {
    pub fn as_str(self) -> &'static str {
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
            Self::ModelUnavailable => "model_unavailable",
            Self::SecurityStop => "security_stop",
            Self::SandboxUnavailable => "sandbox_unavailable",
            Self::SetupFailed => "setup_failed",
            Self::PostScriptFailed => "post_script_failed",
            Self::Interrupted => "interrupted",
            Self::Internal => "internal",
        }
    }
}
