//! The agent, its output and the check of it, until one output passes or the attempts are used up. What an attempt that
//! did not come to its end left behind is kept too, under a name that says so.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use super::host::Host;
use super::steps::Steps;
use super::{Stop, Tally};
use crate::bootstrap::Ready;
use crate::event::{RunEvent, Step};
use crate::guard::Guard;
use crate::harness::names::FeedbackMode;
use crate::publish;
use crate::quarantine;
use crate::runtime::{self, Attempt, Conversation, Ending, Task};
use crate::validate::{self, Accepted, Rejected};

/// What the attempts of one run share.
pub(super) struct Attempts<'a> {
    pub(super) ready: &'a Ready,
    pub(super) host: &'a Host<'a>,
    pub(super) variables: &'a BTreeMap<String, String>,
    pub(super) guard: &'a Guard,
    pub(super) steps: &'a Steps<'a>,
    pub(super) tally: &'a Tally,
    /// Over all of them.
    pub(super) time: Duration,
}

impl Attempts<'_> {
    /// `conversation` is the one to go on with, and afterwards the last one there was.
    pub(super) fn run(
        &self,
        context: Option<String>,
        conversation: &mut Option<Conversation>,
    ) -> Result<Accepted, Stop> {
        let started = Instant::now();
        let settings = &self.ready.provisioned.cleared.checked.resolved.harness.validation_loop;
        let most = u32::try_from(settings.max_iterations.get()).unwrap_or(1);
        let mut task = Task {
            iteration: 1,
            context,
            feedback: None,
            conversation: conversation.clone(),
            time: self.time,
        };
        let mut asked_again = false;
        loop {
            let rejected = match self.attempt(&task, conversation)? {
                Ok(accepted) => return Ok(accepted),
                Err(rejected) => rejected,
            };
            // What the caller expects is asked for again once, whatever the harness says about its own output.
            let first = rejected.unexpected && !asked_again;
            asked_again |= rejected.unexpected;
            if !first && (rejected.unexpected || task.iteration >= most) {
                return Err(Stop::rejected(&rejected, self.tally.denied()));
            }
            let append = settings.feedback_mode.value == FeedbackMode::Append;
            task = Task {
                iteration: task.iteration + 1,
                feedback: Some(validate::feedback(&rejected.violations)),
                conversation: conversation.clone().filter(|_| append),
                time: self.time.saturating_sub(started.elapsed()),
                ..task
            };
        }
    }

    /// One run of the agent and the verdict on what it made.
    fn attempt(
        &self,
        task: &Task,
        conversation: &mut Option<Conversation>,
    ) -> Result<Result<Accepted, Box<Rejected>>, Stop> {
        let (steps, iteration) = (self.steps, task.iteration);
        let place = self.host.directory.path.join(format!("iteration-{iteration}"));
        let attempt = steps.take(Step::Agent, || self.agent(task, &place))?;
        if attempt.conversation.is_some() {
            conversation.clone_from(&attempt.conversation);
        }
        let early = self.ended_early(&attempt);
        let quarantine = || {
            let root = self.ready.provisioned.sandbox.root();
            steps.always(Step::Quarantine, || {
                quarantine::quarantine(attempt, root, &place.join("quarantine"), self.guard)
            })
        };
        if let Some(stop) = early {
            if !steps.cancel.is_urgent() {
                // What could be saved is saved; why it ended stands above what could not.
                drop(quarantine().and_then(|partial| Ok(publish::set_aside(&partial, "partial")?)));
            }
            return Err(stop);
        }
        let quarantined = quarantine()?;
        let checked = &self.ready.provisioned.cleared.checked;
        let verdict = steps.always(Step::Validate, || {
            validate::validate(checked, quarantined, |output| {
                self.host.validation_script(checked, output, self.variables, self.guard, steps)
            })
        })?;
        match &verdict {
            Ok(accepted) => {
                steps.emit.emit(RunEvent::OutputAccepted { iteration, schema: accepted.schema.clone() });
            }
            Err(rejected) => {
                let violations = rejected.violations.clone();
                steps.emit.emit(RunEvent::OutputRejected { iteration, violations });
                publish::set_aside(&rejected.quarantined, "rejected")?;
                steps.go_on()?;
            }
        }
        Ok(verdict)
    }

    /// The agent from its start to its end, and what it left to read.
    fn agent(&self, task: &Task, place: &Path) -> Result<Attempt, Stop> {
        let emit = self.steps.emit;
        emit.emit(RunEvent::AgentStarted { iteration: task.iteration });
        let attempt = runtime::attempt(&self.ready.scene(self.guard, self.steps.cancel), task, emit)?;
        runtime::keep_logs(&attempt, place, self.guard)
            .map_err(|error| Stop::internal(format!("the transcripts cannot be kept: {error}")))?;
        let ending = match &attempt.ending {
            Ending::Finished => "finished".to_owned(),
            Ending::Stopped { .. } => "stopped".to_owned(),
            Ending::Failed { why } => format!("failed: {why}"),
            Ending::Timeout => "timeout".to_owned(),
            Ending::Interrupted => "interrupted".to_owned(),
        };
        emit.emit(RunEvent::AgentFinished { iteration: task.iteration, ending, turns: attempt.turns });
        Ok(attempt)
    }

    /// Why this attempt was the last, whatever it made. An agent that stopped without finishing is not such a reason: the
    /// check says what is missing.
    fn ended_early(&self, attempt: &Attempt) -> Option<Stop> {
        if let Some(reason) = self.guard.stop_reason() {
            return Some(Stop::security(&reason));
        }
        match &attempt.ending {
            Ending::Timeout => Some(Stop::timeout()),
            Ending::Failed { why } => Some(Stop::agent_failed(why)),
            Ending::Interrupted => self.steps.go_on().err(),
            Ending::Finished | Ending::Stopped { .. } => None,
        }
    }
}
