//! Why a run ended early: the cause and a sentence. This file turns the error of every stage into one of these.

use std::path::PathBuf;

use super::Outcome;
use crate::backend::openshell::OpenshellError;
use crate::backend::{CommandError, TeardownError};
use crate::bootstrap::BootstrapError;
use crate::cancel::CancelReason;
use crate::credentials::CredentialError;
use crate::event::outcome::{EndCause, OutcomeKind};
use crate::guard::{Blocked, GuardError};
use crate::image::ImageError;
use crate::provision::ProvisionError;
use crate::provision::gateway::ModelSetupError;
use crate::provision::image::RunImageError;
use crate::publish::PublishError;
use crate::quarantine::QuarantineError;
use crate::registry::PullError;
use crate::runtime::{Ending, RuntimeError};
use crate::scripts::ScriptError;
use crate::validate::Rejected;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    cause: EndCause,
    reason: String,
}

impl Stop {
    fn new(cause: EndCause, reason: impl Into<String>) -> Self {
        Self { cause, reason: reason.into() }
    }

    /// The configuration is wrong.
    pub fn setup(reason: impl Into<String>) -> Self {
        Self::new(EndCause::ConfigurationInvalid, reason)
    }

    /// A prerequisite is missing.
    pub fn missing(reason: impl Into<String>) -> Self {
        Self::new(EndCause::PrerequisiteMissing, reason)
    }

    pub fn internal(reason: impl Into<String>) -> Self {
        Self::new(EndCause::Internal, reason)
    }

    /// The caller cancelled the run.
    pub fn cancelled(why: CancelReason) -> Self {
        match why {
            CancelReason::Interrupted => Self::new(EndCause::Interrupted, "the run was interrupted"),
            CancelReason::Terminated => Self::new(EndCause::Terminated, "the run was terminated"),
        }
    }

    pub fn timeout(minutes: u64) -> Self {
        Self::new(EndCause::Timeout, format!("the agent ran out of time: `timeout_minutes` is {minutes}"))
    }

    /// A file of the run cannot be written. A full disk is not a bug.
    pub fn unwritable(reason: &str, error: &std::io::Error) -> Self {
        use std::io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        match error.kind() {
            StorageFull | QuotaExceeded | ReadOnlyFilesystem => Self::missing(format!(
                "{reason}; free space there, or name another directory with --output-dir"
            )),
            _ => Self::internal(reason),
        }
    }

    /// The guard ended it.
    pub fn security(reason: &str) -> Self {
        Self::new(EndCause::SecurityStop, reason)
    }

    pub fn budget(spent: &str) -> Self {
        Self::new(EndCause::BudgetSpent, format!("the budget allows no further request: {spent}"))
    }

    pub fn model_unavailable(reason: &str) -> Self {
        Self::new(EndCause::ModelUnavailable, format!("the model is not available: {reason}"))
    }

    /// The gateway that has the sandbox failed.
    pub fn sandbox_lost(error: &OpenshellError) -> Self {
        Self::new(EndCause::SandboxUnavailable, error.to_string())
    }

    pub fn agent_failed(why: &str) -> Self {
        Self::new(EndCause::AgentFailed, format!("the agent failed: {why}"))
    }

    /// The pre-script skipped the run.
    pub fn skipped(reason: &str) -> Self {
        Self::new(EndCause::Skipped, reason)
    }

    /// A skipped run ends early, and nothing failed.
    pub fn is_skip(&self) -> bool {
        self.cause == EndCause::Skipped
    }

    pub fn script(name: &str, code: i32, output: &str) -> Self {
        let last = output.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it printed nothing");
        Self::new(EndCause::ScriptFailed, format!("`{name}` exited with {code}: {last}"))
    }

    /// A failure after publishing is the post-script's, unless the run was cancelled.
    pub fn after_publishing(self) -> Self {
        match self.cause.outcome() {
            OutcomeKind::Interrupted => self,
            _ => Self { cause: EndCause::PostScriptFailed, ..self },
        }
    }

    /// The attempts are used up. Missing output and wrong output are different outcomes.
    pub fn rejected(rejected: &Rejected, denied: u64) -> Self {
        let first =
            rejected.violations.first().map_or(String::new(), |violation| match violation.path.as_str() {
                "" => violation.message.clone(),
                path => format!("at {path}: {}", violation.message),
            });
        let output = &rejected.quarantined;
        if output.files().is_empty() && output.changes().is_none() {
            let words = match rejected.quarantined.attempt().ending() {
                Ending::Stopped { last_words } if last_words.trim_end().ends_with('?') => {
                    return Self::new(EndCause::Asked, format!("the agent asked: {}", last_words.trim()));
                }
                Ending::Stopped { last_words } => last_words.trim().to_owned(),
                _ => String::new(),
            };
            if denied > 0 {
                let reason = format!(
                    "the agent produced no output or changes; {denied} of its calls were denied. {words}"
                );
                return Self::new(EndCause::Denied, reason.trim());
            }
            return Self::new(
                EndCause::NoOutput,
                format!("the agent produced no output or changes. {words}").trim().to_owned(),
            );
        }
        let count = rejected.violations.len();
        let more = if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() };
        Self::new(
            EndCause::InvalidOutput,
            format!("the output was rejected after the last attempt: {first}{more}"),
        )
    }

    pub fn outcome(self, directory: Option<PathBuf>) -> Outcome {
        Outcome { directory, ..Outcome::ended(self.cause, self.reason) }
    }
}

impl From<GuardError> for Stop {
    fn from(error: GuardError) -> Self {
        match error {
            GuardError::NoModel(_) | GuardError::NoWeights(_) | GuardError::AllowlistUnset { .. } => {
                Self::missing(error.to_string())
            }
            GuardError::Canary(_) => Self::internal(error.to_string()),
            GuardError::NoAllowlist => Self::setup(error.to_string()),
        }
    }
}

impl From<CredentialError> for Stop {
    fn from(error: CredentialError) -> Self {
        Self::missing(error.to_string())
    }
}

impl From<Blocked> for Stop {
    fn from(blocked: Blocked) -> Self {
        Self::security(&blocked.to_string())
    }
}

impl From<ProvisionError> for Stop {
    fn from(error: ProvisionError) -> Self {
        let reason = error.to_string();
        match error {
            ProvisionError::Program(_) | ProvisionError::Model(ModelSetupError::NoProvider) => {
                Self::missing(reason)
            }
            ProvisionError::Model(_) => Self::setup(reason),
            ProvisionError::Server(_) => Self::new(EndCause::ScriptFailed, reason),
            ProvisionError::HostFile(_) | ProvisionError::NoGateway(_) => Self::missing(reason),
            ProvisionError::Image(RunImageError::Image(error)) => of_image(&error),
            ProvisionError::Image(RunImageError::Pull(error)) => of_pull(&error),
            ProvisionError::Repository(_) | ProvisionError::Network(_) => Self::setup(reason),
            ProvisionError::Openshell(OpenshellError::Cancelled) => Self::new(EndCause::Interrupted, reason),
            ProvisionError::Blocked(blocked) => blocked.into(),
            ProvisionError::Proof(_) => Self::new(EndCause::SecurityStop, reason),
            ProvisionError::NotReady { .. }
            | ProvisionError::Guard(_)
            | ProvisionError::Sandbox(_)
            | ProvisionError::Serve(_)
            | ProvisionError::Openshell(_)
            | ProvisionError::Staging { .. } => Self::new(EndCause::SandboxUnavailable, reason),
        }
    }
}

fn of_image(error: &ImageError) -> Stop {
    let reason = error.to_string();
    match error {
        ImageError::Missing { .. } | ImageError::Cache { .. } => Stop::missing(reason),
        ImageError::Refused { .. } => Stop::new(EndCause::SecurityStop, reason),
        ImageError::Name { .. } | ImageError::Unusable { .. } => Stop::setup(reason),
    }
}

fn of_pull(error: &PullError) -> Stop {
    let reason = error.to_string();
    match error {
        PullError::Refused { .. } => Stop::new(EndCause::SecurityStop, reason),
        PullError::NotAllowed { .. } | PullError::Unusable { .. } => Stop::setup(reason),
        PullError::Cancelled { .. } => Stop::new(EndCause::Interrupted, reason),
        PullError::NotCached { .. }
        | PullError::Unreachable { .. }
        | PullError::Answered { .. }
        | PullError::Login { .. }
        | PullError::Store { .. } => Stop::missing(reason),
    }
}

impl From<BootstrapError> for Stop {
    fn from(error: BootstrapError) -> Self {
        match error {
            BootstrapError::Blocked(blocked) => blocked.into(),
            BootstrapError::Openshell(error) => Self::sandbox_lost(&error),
            error => Self::setup(error.to_string()),
        }
    }
}

impl From<RuntimeError> for Stop {
    fn from(error: RuntimeError) -> Self {
        match error {
            RuntimeError::Start(CommandError::Openshell(error)) => Self::sandbox_lost(&error),
            RuntimeError::Start(_) | RuntimeError::Stream(_) | RuntimeError::State { .. } => {
                Self::agent_failed(&error.to_string())
            }
        }
    }
}

impl From<QuarantineError> for Stop {
    fn from(error: QuarantineError) -> Self {
        match error {
            QuarantineError::Blocked(_) => Self::security(&error.to_string()),
            QuarantineError::Refused { .. } => Self::new(EndCause::InvalidOutput, error.to_string()),
            QuarantineError::Read { .. } => Self::internal(error.to_string()),
            QuarantineError::Write { ref source, .. } => Self::unwritable(&error.to_string(), source),
            QuarantineError::Git { .. } => Self::missing(error.to_string()),
        }
    }
}

impl From<PublishError> for Stop {
    fn from(error: PublishError) -> Self {
        match error {
            PublishError::Move { ref source, .. } => Self::unwritable(&error.to_string(), source),
            PublishError::Checkout(error) => error.into(),
        }
    }
}

impl From<TeardownError> for Stop {
    fn from(error: TeardownError) -> Self {
        match error {
            TeardownError::Local(error) => Self::internal(format!("the sandbox did not close: {error}")),
            TeardownError::LeftOver { .. } => Self::new(EndCause::SandboxUnavailable, error.to_string()),
        }
    }
}

impl From<ScriptError> for Stop {
    fn from(error: ScriptError) -> Self {
        match error {
            ScriptError::Timeout { .. } => Self::new(EndCause::Timeout, error.to_string()),
            ScriptError::Cancelled { why, .. } => Self::cancelled(why),
            ScriptError::Start { .. } | ScriptError::Wait { .. } | ScriptError::Memory { .. } => {
                Self::new(EndCause::ScriptFailed, error.to_string())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::*;

    #[test]
    fn a_full_disk_is_a_missing_prerequisite_and_not_a_bug() {
        let check = |kind: ErrorKind, expected: EndCause| {
            let write = QuarantineError::Write { path: "output/a".into(), source: Error::from(kind) };
            let moved = PublishError::Move { path: "output".into(), source: Error::from(kind) };
            for stop in [Stop::from(write), Stop::from(moved), Stop::unwritable("x", &Error::from(kind))] {
                assert_eq!(stop.cause, expected, "{kind}: {}", stop.reason);
            }
        };
        check(ErrorKind::StorageFull, EndCause::PrerequisiteMissing);
        check(ErrorKind::QuotaExceeded, EndCause::PrerequisiteMissing);
        check(ErrorKind::ReadOnlyFilesystem, EndCause::PrerequisiteMissing);
        check(ErrorKind::InvalidData, EndCause::Internal);
    }

    #[test]
    fn the_time_limit_names_its_field() {
        assert_eq!(Stop::timeout(7).reason, "the agent ran out of time: `timeout_minutes` is 7");
    }
}
