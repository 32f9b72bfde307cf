//! Who thinks. One folder per runtime behind one contract: start the agent inside with a task, turn its stream into
//! events, and come back with an `Attempt`. Nothing here judges the output.

pub mod native;

use std::time::Duration;

use serde_json::Value as Json;

use crate::bootstrap::Ready;
use crate::event::log::Emitter;
use crate::harness::names::RuntimeName;

/// What the agent is asked to do, once.
#[derive(Clone, Debug)]
pub struct Task {
    pub iteration: u32,
    /// Why the last output was rejected.
    pub feedback: Option<String>,
    /// The conversation to continue, in the runtime's own form.
    pub conversation: Option<Json>,
    /// What is left of the run's time.
    pub time: Duration,
}

/// One run of the agent, however it ended.
#[derive(Clone, Debug)]
pub struct Attempt {
    pub iteration: u32,
    pub ending: Ending,
    pub conversation: Option<Json>,
    pub turns: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The agent says that it is done.
    Finished,
    /// It stopped talking without finishing.
    Stopped {
        last_words: String,
    },
    Failed {
        why: String,
    },
    Timeout,
}

#[derive(Debug)]
pub enum RuntimeError {
    NotBuilt(RuntimeName),
    Start(sandbox::ExecError),
    Stream(std::io::Error),
    Lost(sandbox::WaitError),
}

impl std::fmt::Display for RuntimeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotBuilt(name) => write!(f, "the runtime `{name}` is not built yet: use `runtime: native`"),
            Self::Start(error) => write!(f, "the agent could not be started: {error}"),
            Self::Stream(error) => write!(f, "the agent's stream broke: {error}"),
            Self::Lost(error) => write!(f, "the agent was lost: {error}"),
        }
    }
}

impl std::error::Error for RuntimeError {}

/// Runs the agent once.
pub fn attempt(ready: &Ready, task: &Task, emit: &Emitter) -> Result<Attempt, RuntimeError> {
    match ready.provisioned.cleared.checked.resolved.harness.runtime.value {
        RuntimeName::Native => native::launch::attempt(ready, task, emit),
        other => Err(RuntimeError::NotBuilt(other)),
    }
}
