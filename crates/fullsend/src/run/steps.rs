//! A step of the run: its two events around its work, and no step after somebody asked the run to end.

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
    /// A step whose failure ends the run.
    pub(super) fn run<T, E: Into<Stop>>(
        &self,
        step: Step,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, Stop> {
        self.check_cancelled()?;
        self.always(step, work)
    }

    /// The same, for what must be done however the run ends.
    pub(super) fn always<T, E: Into<Stop>>(
        &self,
        step: Step,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, Stop> {
        let started = Instant::now();
        self.emit.emit(RunEvent::StepStarted { step });
        let result = work();
        let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.emit.emit(RunEvent::StepFinished { step, duration_ms, ok: result.is_ok() });
        result.map_err(Into::into)
    }

    pub(super) fn check_cancelled(&self) -> Result<(), Stop> {
        self.cancel.asked().map_or(Ok(()), |why| Err(Stop::cancelled(why)))
    }
}
