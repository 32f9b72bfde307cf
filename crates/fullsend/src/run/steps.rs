//! Runs one step: an event before and after it. After a run is cancelled no further step starts.

use std::time::Instant;

use super::Stop;
use crate::cancel::Cancel;
use crate::event::log::Emitter;
use crate::event::{RunEvent, Step};

pub(super) struct Steps<'a> {
    pub(super) emit: &'a Emitter,
    pub(super) cancel: &'a Cancel,
}

impl Steps<'_> {
    /// Runs a step, unless the run is cancelled.
    pub(super) fn run<T, E: Into<Stop>>(
        &self,
        step: Step,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, Stop> {
        self.check_cancelled()?;
        self.run_even_cancelled(step, work)
    }

    /// Runs a step that a cancelled run needs too.
    pub(super) fn run_even_cancelled<T, E: Into<Stop>>(
        &self,
        step: Step,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, Stop> {
        let started = Instant::now();
        self.emit.emit(RunEvent::StepStarted { step });
        let result = work().map_err(Into::into);
        let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let ok = result.as_ref().err().is_none_or(Stop::is_skip);
        self.emit.emit(RunEvent::StepFinished { step, duration_ms, ok });
        result
    }

    pub(super) fn check_cancelled(&self) -> Result<(), Stop> {
        self.cancel.reason().map_or(Ok(()), |why| Err(Stop::cancelled(why)))
    }
}
