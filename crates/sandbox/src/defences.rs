//! The protections of a sandbox. All of them are on. A test removes one to show what it prevents, or stops the start at
//! a step to show what a failure there leaves behind.

use crate::describe::IsolationMechanism;
use crate::step::{StartStep, StepError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::io;
use std::time::Duration;

/// Which protections a sandbox has. `default` is all of them, and what the program uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Defences {
    missing: BTreeSet<IsolationMechanism>,
    failpoint: Option<Failpoint>,
}

impl Defences {
    /// All but `mechanisms`. Each must be accepted as weaker in the spec too.
    pub fn without(mechanisms: impl IntoIterator<Item = IsolationMechanism>) -> Self {
        Self { missing: mechanisms.into_iter().collect(), failpoint: None }
    }

    /// All, with a start that fails or stops at a step.
    pub fn failing(step: StartStep, action: FailAction) -> Self {
        Self { missing: BTreeSet::new(), failpoint: Some(Failpoint { step, action }) }
    }

    pub(crate) fn has(&self, mechanism: IsolationMechanism) -> bool {
        !self.missing.contains(&mechanism)
    }

    pub(crate) fn missing(&self) -> impl Iterator<Item = IsolationMechanism> {
        self.missing.iter().copied()
    }

    /// Called on the way into every step.
    pub(crate) fn reach(&self, step: StartStep) -> Result<(), StepError> {
        match self.failpoint {
            Some(Failpoint { step: wanted, action }) if wanted == step => act(step, action),
            _ => Ok(()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Failpoint {
    step: StartStep,
    action: FailAction,
}

/// What happens at a failpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailAction {
    /// The step fails.
    Fail,
    /// The thread takes the name `at-<step>`, as far as it fits into 15 bytes, and stops for an hour.
    Pause,
}

fn act(step: StartStep, action: FailAction) -> Result<(), StepError> {
    match action {
        FailAction::Fail => Err(StepError {
            step,
            on: "a failpoint".to_owned(),
            source: io::Error::from_raw_os_error(libc::ECANCELED),
        }),
        FailAction::Pause => {
            let name = CString::new(pause_name(step)).unwrap_or_default();
            // Only the test that waits for the name would miss it.
            drop(rustix::thread::set_name(&name).map_err(io::Error::from));
            std::thread::sleep(Duration::from_secs(3600));
            Ok(())
        }
    }
}

/// The name of a thread that pauses at `step`.
pub fn pause_name(step: StartStep) -> String {
    let name = format!("at-{step}");
    name.chars().take(15).collect()
}
