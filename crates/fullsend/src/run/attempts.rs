//! Attempts: run the agent, quarantine its output and validate it, until an output passes or the attempts are used up.
//! Output of an attempt that ended early is saved as `partial`.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use model::gateway::Gateway;
use sandbox::Limit;
use scan::Origin;

use super::host::Host;
use super::steps::Steps;
use super::{Counts, Stop};
use crate::bootstrap::Ready;
use crate::event::{AgentEnding, RunEvent, Step};
use crate::guard::Guard;
use crate::harness::names::FeedbackMode;
use crate::provision::Provisioned;
use crate::publish;
use crate::quarantine;
use crate::quarantine::changes::AgentRepository;
use crate::runtime::paths;
use crate::runtime::{self, Attempt, AttemptRequest, Conversation, Ending};
use crate::validate::{self, Accepted, Rejected};

/// What the attempts of one run share.
pub(super) struct Attempts<'a> {
    pub(super) host: &'a Host<'a>,
    pub(super) variables: &'a BTreeMap<String, String>,
    pub(super) guard: &'a Guard,
    pub(super) steps: &'a Steps<'a>,
    pub(super) counts: &'a Counts,
    /// Replaces the sandbox by a fresh one.
    pub(super) recreate: &'a dyn Fn(Ready) -> Result<Ready, Stop>,
}

impl Attempts<'_> {
    /// Runs attempts until one is accepted. `conversation` is the one to continue, and afterwards the latest one. Returns the sandbox of the last attempt, if it
    /// still exists.
    pub(super) fn run(
        &self,
        ready: Ready,
        context: Option<String>,
        conversation: &mut Option<Conversation>,
    ) -> (Result<Accepted, Stop>, Option<Ready>) {
        let mut ready = Some(ready);
        let tried = self.until_accepted(&mut ready, context, conversation);
        (tried, ready)
    }

    fn until_accepted(
        &self,
        sandbox_slot: &mut Option<Ready>,
        context: Option<String>,
        conversation: &mut Option<Conversation>,
    ) -> Result<Accepted, Stop> {
        let started = Instant::now();
        let Some(first) = sandbox_slot.as_ref() else { return Err(Stop::internal("the sandbox is gone")) };
        let harness = &first.provisioned.inputs.checked().resolved.harness;
        // For all attempts together.
        let time_limit = Duration::from_secs(harness.timeout_minutes.get() * 60);
        let feedback: Option<String> = None;
        let mut task = AttemptRequest {
            iteration: 1,
            context,
            feedback,
            conversation: conversation.clone(),
            time: time_limit,
        };
        let mut asked_again = false;
        loop {
            let Some(ready) = sandbox_slot.as_ref() else {
                return Err(Stop::internal("the sandbox is gone"));
            };
            let settings = &ready.provisioned.inputs.checked().resolved.harness.validation_loop;
            let max_attempts = settings.max_iterations.get();
            let mode = settings.feedback_mode.value;
            let rejected = match self.attempt(ready, &task, conversation)? {
                Ok(accepted) => return Ok(accepted),
                Err(rejected) => rejected,
            };
            // Another attempt could not reach the model.
            if let Some(stop) = model_stop(&ready.provisioned.gateway) {
                return Err(stop);
            }
            // If the document that the caller expects is wrong, the agent gets exactly one more attempt, beyond
            // `max_iterations` too.
            let retry_expected = rejected.expected_is_wrong && !asked_again;
            asked_again |= rejected.expected_is_wrong;
            if !retry_expected && (rejected.expected_is_wrong || u64::from(task.iteration) >= max_attempts) {
                return Err(Stop::rejected(&rejected, self.counts.denied_calls()));
            }
            let next_conversation = match mode {
                FeedbackMode::Append => {
                    // A file of a rejected output must not count as output of the next attempt.
                    runtime::state::empty(&ready.provisioned.sandbox, paths::OUTPUT).map_err(|error| {
                        Stop::internal(format!("cannot empty the output directory: {error}"))
                    })?;
                    conversation.clone()
                }
                FeedbackMode::Fresh => {
                    let recreated = sandbox_slot.take().map(self.recreate).transpose()?;
                    *sandbox_slot = recreated;
                    None
                }
            };
            let feedback = validate::feedback(&rejected.violations);
            self.guard.inspect(feedback.as_bytes(), Origin::Instruction, "feedback")?;
            task = AttemptRequest {
                iteration: task.iteration + 1,
                feedback: Some(feedback),
                conversation: next_conversation,
                time: time_limit.saturating_sub(started.elapsed()),
                ..task
            };
        }
    }

    /// One run of the agent and the verdict on its output.
    fn attempt(
        &self,
        ready: &Ready,
        task: &AttemptRequest,
        conversation: &mut Option<Conversation>,
    ) -> Result<Result<Accepted, Box<Rejected>>, Stop> {
        let steps = self.steps;
        let iteration = task.iteration;
        let iteration_directory = self.host.directory.path.join(format!("iteration-{iteration}"));
        let attempt = steps.run(Step::Agent, || self.agent(ready, task, &iteration_directory))?;
        if attempt.conversation().is_some() {
            *conversation = attempt.conversation().cloned();
        }
        let early = self.ended_early(ready, &attempt);
        let quarantine = || {
            let agent_repository = agent_repository(ready, self.host.repository);
            steps.run_even_cancelled(Step::Quarantine, || {
                quarantine::quarantine(
                    attempt,
                    &agent_repository,
                    &iteration_directory.join("quarantine"),
                    self.guard,
                )
            })
        };
        let sandbox = &ready.provisioned.sandbox;
        if let Some(stop) = early {
            let is_reachable = sandbox.lost().is_none();
            if !steps.cancel.is_urgent() && is_reachable && sandbox.collect().is_ok() {
                // The reason for the end matters more than output that cannot be saved.
                drop(quarantine().and_then(|partial| Ok(publish::set_aside(&partial, "partial")?)));
            }
            return Err(stop);
        }
        sandbox.collect().map_err(|error| Stop::sandbox_lost(&error))?;
        let quarantined = quarantine()?;
        let checked = ready.provisioned.inputs.checked();
        let verdict = steps.run_even_cancelled(Step::Validate, || {
            validate::validate(checked, quarantined, |output| {
                self.host.validation_script(checked, output, self.variables, self.guard, steps)
            })
        })?;
        match &verdict {
            Ok(accepted) => {
                steps.emit.emit(RunEvent::OutputAccepted { iteration, schema: accepted.schema().to_owned() });
            }
            Err(rejected) => {
                let violations = rejected.violations.clone();
                steps.emit.emit(RunEvent::OutputRejected { iteration, violations });
                publish::set_aside(&rejected.quarantined, "rejected")?;
                steps.check_cancelled()?;
            }
        }
        Ok(verdict)
    }

    /// Runs the agent, and saves its transcript and logs.
    fn agent(&self, ready: &Ready, task: &AttemptRequest, place: &Path) -> Result<Attempt, Stop> {
        let emit = self.steps.emit;
        emit.emit(RunEvent::AgentStarted { iteration: task.iteration });
        let attempt = runtime::attempt(&ready.launch_context(self.guard, self.steps.cancel), task, emit)?;
        runtime::keep_logs(&attempt, place, self.guard)
            .map_err(|error| Stop::internal(format!("cannot save the transcript: {error}")))?;
        let ending = match attempt.ending() {
            Ending::Finished => AgentEnding::Finished,
            Ending::Stopped { .. } => AgentEnding::Stopped,
            Ending::Failed { why } => AgentEnding::Failed { why: why.clone() },
            Ending::Timeout => AgentEnding::Timeout,
            Ending::Interrupted => AgentEnding::Interrupted,
        };
        emit.emit(RunEvent::AgentFinished { iteration: task.iteration, ending, turns: attempt.turns() });
        runtime::review_logs(&attempt, self.guard)?;
        Ok(attempt)
    }

    /// Why the run ends with this attempt regardless of its output. An agent that stopped without finishing does not
    /// end the run: validation says what is missing.
    fn ended_early(&self, ready: &Ready, attempt: &Attempt) -> Option<Stop> {
        if let Some(reason) = self.guard.stop_reason() {
            return Some(Stop::security(&reason));
        }
        if let Some(lost) = ready.provisioned.sandbox.lost() {
            return Some(Stop::sandbox_lost(&lost));
        }
        match attempt.ending() {
            Ending::Timeout => {
                let unavailable = ready.provisioned.gateway.unavailable();
                let minutes = ready.provisioned.inputs.checked().resolved.harness.timeout_minutes.get();
                let timeout = || Stop::timeout(minutes);
                Some(unavailable.map_or_else(timeout, |reason| Stop::model_unavailable(&reason)))
            }
            Ending::Failed { why } => {
                let gateway = &ready.provisioned.gateway;
                let why = with_limits(why, ready);
                let failed = || match (gateway.refused_credential(), gateway.too_long()) {
                    (Some(credential), _) => Stop::agent_failed(&format!("{why} ({credential})")),
                    (None, Some(too_long)) => Stop::agent_failed(&format!("{too_long}; {LONGER_CONTEXT}")),
                    (None, None) => Stop::agent_failed(&why),
                };
                Some(model_stop(gateway).unwrap_or_else(failed))
            }
            Ending::Interrupted => self.steps.check_cancelled().err(),
            Ending::Finished | Ending::Stopped { .. } => None,
        }
    }
}

const LONGER_CONTEXT: &str = "use a model with a longer context, or give the agent less to read";

/// Why the gateway passes no further requests, if it does not.
fn model_stop(gateway: &Gateway) -> Option<Stop> {
    let spent = gateway.budget_refused().map(|spent| Stop::budget(&spent));
    spent.or_else(|| gateway.unavailable().map(|reason| Stop::model_unavailable(&reason)))
}

/// Why the agent failed, and the limits of the sandbox that it went over.
fn with_limits(why: &str, ready: &Ready) -> String {
    let limits = &ready.provisioned.inputs.checked().resolved.harness.sandbox.limits;
    let mut text = why.to_owned();
    for exceeded in ready.provisioned.sandbox.exceeded() {
        let (field, value) = match exceeded.limit {
            Limit::Memory => ("memory_mb", limits.memory_mb.get()),
            Limit::Processes => ("pids", limits.pids.get()),
            Limit::Disk => ("disk_mb", limits.disk_mb.get()),
            _ => continue,
        };
        let detail = &exceeded.detail;
        text.push_str(&format!("; it went over `sandbox.limits.{field}`, which is {value} ({detail})"));
    }
    text
}

/// The agent's repository, and its state before the run.
pub(super) fn agent_repository<'a>(ready: &'a Ready, repository: &'a Path) -> AgentRepository<'a> {
    let Provisioned { inputs, sandbox, fullsend_files, changed, .. } = &ready.provisioned;
    let writable = !inputs.checked().resolved.harness.readonly_repo.value;
    let layer = changed.as_ref().map(AsFd::as_fd);
    AgentRepository {
        root: sandbox.root(),
        inside: ready.repository(),
        layer,
        repository,
        fullsend_files,
        writable,
    }
}
