//! Errors of the host side. Every error says what failed, on what, and keeps its cause.

use crate::describe::SandboxPart;
use crate::step::{StartStep, StepError};
use std::fmt;
use std::io;
use std::time::Duration;

/// Why a sandbox did not start. Nothing is left of it when this is returned.
#[derive(Debug)]
pub enum StartError {
    /// A step of the start failed.
    Step { step: StartStep, on: String, source: io::Error },
    /// A part cannot be enforced here and the spec does not accept it weaker.
    TooWeak { part: SandboxPart, reason: String },
    /// `__init` ended before it reported that it is ready.
    InitDied { after: StartStep, how: String },
    /// `__init` did not answer in time.
    Timeout { after: StartStep, limit: Duration },
}

/// Why a command did not start.
#[derive(Debug)]
pub enum ExecError {
    /// The command itself could not be executed.
    NotStarted { program: String, source: io::Error },
    /// A pipe or descriptor for the command could not be made.
    Descriptor { source: io::Error },
    /// The sandbox is gone.
    Gone { how: String },
    /// PID 1 did not answer in time.
    Timeout { limit: Duration },
}

/// Why a wait gave no exit status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitError {
    /// The process is still running.
    Deadline { limit: Duration },
    /// The sandbox is gone, and the process with it.
    Gone { how: String },
}

/// Why a sandbox could not be taken down completely.
#[derive(Debug)]
pub enum CloseError {
    /// Processes that do not die, by their pid on the host.
    Alive { pids: Vec<i32>, limit: Duration },
    /// The state directory could not be removed.
    State { path: std::path::PathBuf, source: io::Error },
}

impl From<StepError> for StartError {
    fn from(StepError { step, on, source }: StepError) -> Self {
        Self::Step { step, on, source }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step { step, on, source } => {
                write!(f, "sandbox: step {step} failed on {on}: {source}; {}", step.advice())
            }
            Self::TooWeak { part, reason } => write!(
                f,
                "sandbox: {part} cannot be enforced here ({reason}); name it in accept_weaker to continue without it"
            ),
            Self::InitDied { after, how } => {
                write!(f, "sandbox: init {how} after step {after}; {}", after.advice())
            }
            Self::Timeout { after, limit } => {
                write!(f, "sandbox: no answer within {} ms after step {after}", limit.as_millis())
            }
        }
    }
}

impl fmt::Display for ExecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStarted { program, source } => write!(
                f,
                "sandbox: cannot run {program}: {source}; check that the path exists inside and is executable"
            ),
            Self::Descriptor { source } => {
                write!(f, "sandbox: cannot make the command's descriptors: {source}")
            }
            Self::Gone { how } => write!(f, "sandbox: it is gone: {how}"),
            Self::Timeout { limit } => {
                write!(f, "sandbox: PID 1 did not answer within {} ms", limit.as_millis())
            }
        }
    }
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deadline { limit } => {
                write!(f, "sandbox: the process still runs after {} ms", limit.as_millis())
            }
            Self::Gone { how } => write!(f, "sandbox: it is gone: {how}"),
        }
    }
}

impl fmt::Display for CloseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alive { pids, limit } => {
                let pids: Vec<String> = pids.iter().map(ToString::to_string).collect();
                write!(
                    f,
                    "sandbox: pid {} did not die within {} ms of SIGKILL; it is stuck in the kernel (see \
                     /proc/<pid>/stack)",
                    pids.join(", "),
                    limit.as_millis()
                )
            }
            Self::State { path, source } => {
                write!(f, "sandbox: cannot remove {}: {source}; `sweep` will try again", path.display())
            }
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Step { source, .. } => Some(source),
            Self::TooWeak { .. } | Self::InitDied { .. } | Self::Timeout { .. } => None,
        }
    }
}

impl std::error::Error for ExecError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NotStarted { source, .. } | Self::Descriptor { source } => Some(source),
            Self::Gone { .. } | Self::Timeout { .. } => None,
        }
    }
}

impl std::error::Error for WaitError {}

impl std::error::Error for CloseError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::State { source, .. } => Some(source),
            Self::Alive { .. } => None,
        }
    }
}
