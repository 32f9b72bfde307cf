//! A named place in a start at which it fails or stops, so that tests can show what is left when it ends right there.

use crate::step::{Step, StepError};
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::io;
use std::time::Duration;

/// What to do on reaching a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failpoint {
    pub step: Step,
    pub action: FailAction,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailAction {
    /// The step fails.
    Fail,
    /// The thread takes the name `at-<step>`, as far as it fits into 15 bytes, and stops for an hour.
    Pause,
}

/// Called on the way into every step.
pub(crate) fn reach(failpoint: Option<Failpoint>, step: Step) -> Result<(), StepError> {
    match failpoint {
        Some(Failpoint { step: wanted, action }) if wanted == step => act(step, action),
        _ => Ok(()),
    }
}

fn act(step: Step, action: FailAction) -> Result<(), StepError> {
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
pub fn pause_name(step: Step) -> String {
    let name = format!("at-{step}");
    name.chars().take(15).collect()
}
