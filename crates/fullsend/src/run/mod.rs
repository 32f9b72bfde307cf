//! One run, from a checked harness to its post-script. This file reads as the sequence; the stages are types, so that
//! none can be left out or put in another order. It is a library call first: it installs no signal handler, prints
//! nothing, and several may run in one process.

mod directory;
mod host;
mod prescript;
mod stop;
pub mod sweep;
pub mod unbuilt;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::bootstrap::{self, Ready};
use crate::check::Checked;
use crate::event::log::Emitter;
use crate::event::outcome::OutcomeKind;
use crate::event::{Envelope, RunEvent, Step};
use crate::guard::Guard;
use crate::harness::names::FeedbackMode;
use crate::inputs;
use crate::provision::{self, Surroundings};
use crate::publish::{self, Artifacts};
use crate::quarantine;
use crate::record;
use crate::resolve::library::Library;
use crate::resolve::variables;
use crate::runtime::{self, Attempt, Ending, Task};
use crate::validate::{self, Accepted};
pub use directory::RunDirectory;
use host::Host;
pub use stop::Stop;

/// Everything that one run is made of. Nothing else is read from the world around.
pub struct Request {
    pub checked: Checked,
    pub library: Library,
    pub repository: PathBuf,
    /// `owner/name`, where it is known.
    pub owner: Option<String>,
    /// Where runs are kept.
    pub runs: PathBuf,
    /// The host's environment.
    pub environment: BTreeMap<String, String>,
    /// Drives the door.
    pub runtime: tokio::runtime::Handle,
    /// Hears every event as it happens.
    pub listener: Arc<dyn Fn(&Envelope) + Send + Sync>,
}

/// Asks a run to end. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    pub fn cancel(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub kind: OutcomeKind,
    pub exit_code: u8,
    pub reason: String,
    /// The run's directory, if it came to have one.
    pub directory: Option<PathBuf>,
}

/// Runs one harness. Whatever happens, the record says it.
pub fn run(request: Request, cancel: &Cancel) -> Outcome {
    let directory = match RunDirectory::create(&request.runs, request.owner.as_deref()) {
        Ok(directory) => directory,
        Err(stop) => return stop.outcome(None),
    };
    let listener = Arc::clone(&request.listener);
    let emit = match Emitter::create(&directory.path.join("events.jsonl"), move |envelope| listener(envelope))
    {
        Ok(emit) => emit,
        Err(error) => {
            return Stop::setup(format!("the log cannot be written: {error}")).outcome(Some(directory.path));
        }
    };
    announce(&request, &directory, &emit);
    let ended = sequence(request, &directory, &emit, cancel);
    directory.clean();
    let outcome = match ended {
        Ok(_) => Outcome {
            kind: OutcomeKind::Completed,
            exit_code: 0,
            reason: String::new(),
            directory: Some(directory.path.clone()),
        },
        Err(stop) => stop.outcome(Some(directory.path.clone())),
    };
    let outcome = match emit.failure() {
        Some(why) => Stop::internal(format!("the log could not be written: {why}"))
            .outcome(Some(directory.path.clone())),
        None => outcome,
    };
    emit.emit(RunEvent::RunFinished {
        outcome: outcome.kind,
        exit_code: outcome.exit_code,
        reason: outcome.reason.clone(),
    });
    match directory.write_record() {
        Ok(()) => outcome,
        Err(stop) => stop.outcome(Some(directory.path)),
    }
}

/// The sequence itself.
fn sequence(
    request: Request,
    directory: &RunDirectory,
    emit: &Emitter,
    cancel: &Cancel,
) -> Result<Artifacts, Stop> {
    let Request { checked, library, repository, environment, runtime, .. } = request;
    let lookup = |name: &str| environment.get(name).cloned();
    let value = |name: &str| variables::value(&lookup, name);
    let time = Duration::from_secs(checked.resolved.harness.timeout_minutes.get() * 60);
    let host = Host { library: &library, repository: &repository, environment: &environment, directory };
    let scripts = checked.scripts.clone();
    let variables = host.script_environment(&checked, &value);
    let allowed = host.tool_allowlist(&checked, &value);
    let guard = Guard::new(&checked.resolved.harness, allowed.as_deref(), emit)?;
    let credentials = host.credentials(&checked, &value, &guard)?;

    host.preflight(&checked, &variables)?;
    if let Some(pre) = &scripts.pre {
        step(emit, Step::PreScript, || host.pre_script(pre, &variables, emit))?;
    }
    let cleared = step(emit, Step::Inputs, || inputs::clear(checked, &library, &repository, &guard, emit))?;
    let around = Surroundings {
        library: &library,
        repository: &repository,
        directory: &directory.path,
        guard: &guard,
        credentials: &credentials,
        emit,
        runtime,
        variables: &value,
    };
    let provisioned = step(emit, Step::Provision, || provision::provision(cleared, &around))?;
    let ready = step(emit, Step::Bootstrap, || bootstrap::bootstrap(provisioned, &library))?;
    let tried = attempts(&ready, &host, &variables, &guard, emit, time, cancel);
    let published = tried.and_then(|accepted| step(emit, Step::Publish, || publish::publish(accepted, emit)));
    let closed = step(emit, Step::Teardown, || ready.provisioned.close());
    let artifacts = published?;
    closed?;
    if let Some(post) = &scripts.post {
        let variables = host.with_artifacts(variables, &artifacts);
        step(emit, Step::PostScript, || {
            host.run_script("post_script", post, &variables, &directory.path, emit)
        })
        .map_err(Stop::after_publishing)?;
    }
    Ok(artifacts)
}

/// The agent, its output and the check of it, until one output passes or the attempts are used up.
fn attempts(
    ready: &Ready,
    host: &Host<'_>,
    variables: &BTreeMap<String, String>,
    guard: &Guard,
    emit: &Emitter,
    time: Duration,
    cancel: &Cancel,
) -> Result<Accepted, Stop> {
    let started = Instant::now();
    let checked = &ready.provisioned.cleared.checked;
    let settings = &checked.resolved.harness.validation_loop;
    let most = u32::try_from(settings.max_iterations.get()).unwrap_or(1);
    let mut task = Task { iteration: 1, feedback: None, conversation: None, time };
    loop {
        if cancel.is_cancelled() {
            return Err(Stop::interrupted());
        }
        let place = host.directory.path.join(format!("iteration-{}", task.iteration));
        let attempt = step(emit, Step::Agent, || once(ready, &task, guard, &place, emit))?;
        let conversation = attempt.conversation.clone();
        let place = place.join("quarantine");
        let root = ready.provisioned.sandbox.root();
        let quarantined =
            step(emit, Step::Quarantine, || quarantine::quarantine(attempt, root, &place, guard))?;
        match step_value(emit, Step::Validate, || {
            validate::validate(checked, quarantined, |output| {
                host.validation_script(checked, output, variables, guard, emit)
            })
        }) {
            Ok(accepted) => {
                emit.emit(RunEvent::OutputAccepted {
                    iteration: task.iteration,
                    schema: accepted.schema.clone(),
                });
                return Ok(accepted);
            }
            Err(rejected) => {
                let violations = rejected.violations.clone();
                emit.emit(RunEvent::OutputRejected {
                    iteration: task.iteration,
                    violations: violations.clone(),
                });
                publish::set_aside(&rejected)?;
                if task.iteration >= most {
                    return Err(Stop::rejected(&rejected));
                }
                let append = settings.feedback_mode.value == FeedbackMode::Append;
                task = Task {
                    iteration: task.iteration + 1,
                    feedback: Some(validate::feedback(
                        &violations,
                        checked.resolved.harness.output_file.as_str(),
                    )),
                    conversation: conversation.filter(|_| append),
                    time: time.saturating_sub(started.elapsed()),
                };
            }
        }
    }
}

/// One run of the agent. Running out of time or failing outright ends the run; an unfinished one goes on to the check,
/// which says what is missing.
fn once(
    ready: &Ready,
    task: &Task,
    guard: &Guard,
    place: &std::path::Path,
    emit: &Emitter,
) -> Result<Attempt, Stop> {
    emit.emit(RunEvent::AgentStarted { iteration: task.iteration });
    let attempt = runtime::attempt(&ready.scene(guard), task, emit)?;
    runtime::keep_logs(&attempt, place, guard)
        .map_err(|error| Stop::internal(format!("the transcripts cannot be kept: {error}")))?;
    let ending = match &attempt.ending {
        Ending::Finished => "finished".to_owned(),
        Ending::Stopped { .. } => "stopped".to_owned(),
        Ending::Failed { why } => format!("failed: {why}"),
        Ending::Timeout => "timeout".to_owned(),
    };
    emit.emit(RunEvent::AgentFinished { iteration: task.iteration, ending, turns: attempt.turns });
    if let Some(reason) = guard.stop_reason() {
        return Err(Stop::security(&reason));
    }
    match &attempt.ending {
        Ending::Timeout => Err(Stop::timeout()),
        Ending::Failed { why } => Err(Stop::agent_failed(why)),
        Ending::Finished | Ending::Stopped { .. } => Ok(attempt),
    }
}

fn announce(request: &Request, directory: &RunDirectory, emit: &Emitter) {
    let resolved = &request.checked.resolved;
    emit.emit(RunEvent::RunStarted {
        run_id: directory.id.clone(),
        harness: resolved.name.clone(),
        runtime: resolved.harness.runtime.value.to_string(),
        repository: request.owner.clone().unwrap_or_default(),
        fullsend: env!("CARGO_PKG_VERSION").to_owned(),
    });
    for toggle in &resolved.toggles {
        let place = request.library.sources.locate(toggle.at).to_string();
        emit.emit(RunEvent::Toggle { field: toggle.field.clone(), value: toggle.value.clone(), place });
    }
    for exception in &resolved.exceptions {
        emit.emit(RunEvent::Exception {
            field: exception.field.clone(),
            what: exception.what.clone(),
            reason: exception.reason.clone(),
            until: exception.until.clone(),
        });
    }
}

/// A step with its events, whose failure ends the run.
fn step<T, E: Into<Stop>>(
    emit: &Emitter,
    step: Step,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, Stop> {
    step_value(emit, step, work).map_err(Into::into)
}

fn step_value<T, E>(emit: &Emitter, step: Step, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let started = Instant::now();
    emit.emit(RunEvent::StepStarted { step });
    let result = work();
    let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    emit.emit(RunEvent::StepFinished { step, duration_ms, ok: result.is_ok() });
    result
}

/// Folds the log of a run into its record again, as after a crash.
pub fn refold(directory: &std::path::Path) -> Result<record::Record, crate::event::log::LogError> {
    crate::event::log::read(&directory.join("events.jsonl")).map(|events| record::fold(&events))
}
