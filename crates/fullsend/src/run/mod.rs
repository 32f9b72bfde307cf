//! One run, from a checked harness to its post-script. This file reads as the sequence; the stages are types, so that
//! none can be left out or put in another order. It is a library call first: it installs no signal handler, prints
//! nothing, and several may run in one process.

mod attempts;
pub mod belongings;
mod directory;
mod host;
pub mod keep;
mod prescript;
mod steps;
mod stop;
pub mod sweep;
pub mod unbuilt;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::bootstrap::{self, Ready};
use crate::cancel::Cancel;
use crate::check::Checked;
use crate::event::log::Emitter;
use crate::event::exit::Exit;
use crate::event::outcome::{EndCause, OutcomeKind};
use crate::event::{Envelope, RunEvent, Step};
use crate::guard::confirm::Asker;
use crate::harness::Harness;
use crate::harness::security::OnCritical;
use crate::inputs;
use crate::provision::gateway::Recording;
use crate::provision::{self, Surroundings};
use crate::publish::{self, Artifacts};
use crate::quarantine::head::{self, Head};
use crate::record;
use crate::resolve::library::Library;
use crate::resolve::variables;
use crate::runtime::state::StateFile;
use crate::runtime::{self, Conversation};
use crate::validate::Accepted;
use attempts::Attempts;
use belongings::Belongings;
pub use directory::RunDirectory;
use host::Host;
use keep::Keep;
use steps::Steps;
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
    /// Keep the model's answers, or answer from those that were kept.
    pub recording: Option<Recording>,
    /// Drives the gateway.
    pub runtime: tokio::runtime::Handle,
    /// What the agent is told beside its task: a session's state and what is new to it.
    pub context: Option<String>,
    /// The conversation to go on with, in the runtime's own form, as an earlier outcome gave it.
    pub conversation: Option<Conversation>,
    /// What the caller puts into the sandbox and wants back.
    pub belongings: Belongings,
    /// Whom to ask about calls that somebody must allow.
    pub asker: Option<Arc<Asker>>,
    /// Variables of the caller's for the scripts on the host.
    pub variables: BTreeMap<String, String>,
    /// Whether the workspace stays to be looked at.
    pub keep: Keep,
    /// Hears every event as it happens.
    pub listener: Arc<dyn Fn(&Envelope) + Send + Sync>,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub cause: EndCause,
    pub reason: String,
    /// The run's directory, if it came to have one.
    pub directory: Option<PathBuf>,
    /// The label for CI to set, where the guard ended the run and a person is to look at it.
    pub review_label: Option<String>,
    /// The accepted output of a run that completed.
    pub artifacts: Option<Artifacts>,
    /// The agent's conversation as it was at the end, if there was one.
    pub conversation: Option<Conversation>,
    /// What the caller wanted back, as it was at the end.
    pub kept: Vec<StateFile>,
}

impl Outcome {
    /// A run that left nothing behind.
    pub fn ended(cause: EndCause, reason: impl Into<String>) -> Self {
        Self {
            cause,
            reason: reason.into(),
            directory: None,
            review_label: None,
            artifacts: None,
            conversation: None,
            kept: Vec::new(),
        }
    }

    /// How it ended, as the record says it.
    pub fn kind(&self) -> OutcomeKind {
        self.cause.outcome()
    }

    pub fn exit(&self) -> Exit {
        self.cause.exit()
    }
}

/// What is counted while a run goes on.
#[derive(Debug, Default)]
struct Tally {
    denied: AtomicU64,
}

impl Tally {
    fn count(&self, event: &RunEvent) {
        if matches!(event, RunEvent::ToolDenied { .. }) {
            self.denied.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn denied(&self) -> u64 {
        self.denied.load(Ordering::Relaxed)
    }
}

/// Runs one harness. Whatever happens, the record says it.
pub fn run(mut request: Request, cancel: &Cancel) -> Outcome {
    let directory = match RunDirectory::create(&request.runs, request.owner.as_deref()) {
        Ok(directory) => directory,
        Err(stop) => return stop.outcome(None),
    };
    let (tally, listener) = (Arc::new(Tally::default()), Arc::clone(&request.listener));
    let counted = Arc::clone(&tally);
    let hear = move |envelope: &Envelope| {
        counted.count(&envelope.event);
        listener(envelope);
    };
    let emit = match Emitter::create(&directory.path.join("events.jsonl"), hear) {
        Ok(emit) => emit,
        Err(error) => {
            return Stop::setup(format!("the log cannot be written: {error}")).outcome(Some(directory.path));
        }
    };
    announce(&request, &directory, &emit);
    let review_label = review_label(&request.checked.resolved.harness);
    let mut carried = Carried { conversation: request.conversation.take(), kept: Vec::new() };
    let steps = Steps { emit: &emit, cancel };
    let ended = sequence(request, &directory, &steps, &tally, &mut carried);
    directory.clean();
    let ended = match emit.failure() {
        Some(why) => Err(Stop::internal(format!("the log could not be written: {why}"))),
        None => ended,
    };
    let mut outcome = match ended {
        Ok(artifacts) => {
            Outcome { artifacts: Some(artifacts), ..Outcome::ended(EndCause::Completed, "") }
        }
        Err(stop) => stop.outcome(None),
    };
    if let Some(label) = review_label.filter(|_| outcome.cause == EndCause::SecurityStop) {
        emit.emit(RunEvent::ReviewRequested { label: label.clone() });
        outcome.reason.push_str(&format!("; a person must look at it: set the label `{label}`"));
        outcome.review_label = Some(label);
    }
    outcome.reason = emit.redact(&outcome.reason);
    emit.emit(RunEvent::RunFinished {
        outcome: outcome.kind(),
        exit_code: outcome.exit().code(),
        reason: outcome.reason.clone(),
    });
    if let Err(stop) = directory.write_record() {
        outcome = stop.outcome(None);
    }
    let Carried { conversation, kept } = carried;
    Outcome { directory: Some(directory.path), conversation, kept, ..outcome }
}

/// What goes from one run to the next: the conversation to go on with, and afterwards the last one there was, and what
/// the caller wanted back.
struct Carried {
    conversation: Option<Conversation>,
    kept: Vec<StateFile>,
}

/// The sequence itself.
fn sequence(
    request: Request,
    directory: &RunDirectory,
    steps: &Steps<'_>,
    tally: &Tally,
    carried: &mut Carried,
) -> Result<Artifacts, Stop> {
    let keep = request.keep;
    let Request {
        checked, library, repository, environment, recording, runtime, context, belongings, ..
    } = request;
    let emit = steps.emit;
    let lookup = |name: &str| environment.get(name).cloned();
    let value = |name: &str| variables::value(&lookup, name);
    let time = Duration::from_secs(checked.resolved.harness.timeout_minutes.get() * 60);
    let host = Host { library: &library, repository: &repository, environment: &environment, directory };
    let scripts = checked.scripts.clone();
    let mut variables = host.script_environment(&checked, &value);
    variables.extend(request.variables);
    let guard = host.guard(&checked, &value, emit)?.asking(request.asker);
    let credentials = host.credentials(&checked, recording.as_ref(), &value, &guard)?;
    guard.remember_past(carried.conversation.iter().flat_map(runtime::past_calls));

    host.begin(&checked, &variables, steps)?;
    let cleared = steps.take(Step::Inputs, || {
        context.as_deref().map_or(Ok(()), |text| inputs::clear_context(text, &guard, emit))?;
        inputs::mounted::clear_mounts(&belongings.mounts, &guard, emit)?;
        inputs::clear(checked, &library, &repository, &guard, emit)
    })?;
    let around = Surroundings {
        library: &library,
        repository: &repository,
        directory: &directory.path,
        guard: &guard,
        credentials: &credentials,
        recording: recording.as_ref(),
        environment: &environment,
        emit,
        gateway: &OnceLock::new(),
        runtime,
        variables: &value,
        mounts: &belongings.mounts,
    };
    let prepare = |cleared| -> Result<Ready, Stop> {
        let provisioned = steps.take(Step::Provision, || provision::provision(cleared, &around))?;
        steps.take(Step::Bootstrap, || {
            belongings.unpack(&provisioned.sandbox)?;
            Ok::<_, Stop>(bootstrap::bootstrap(provisioned, &library, &guard)?)
        })
    };
    let renew = |ready: Ready| prepare(steps.always(Step::Teardown, || ready.provisioned.close())?);
    let attempts =
        Attempts { host: &host, variables: &variables, guard: &guard, steps, tally, time, renew: &renew };
    let (tried, ready) = attempts.run(prepare(cleared)?, context, &mut carried.conversation);
    if let Some(ready) = &ready {
        carried.kept = belongings.pack(&ready.provisioned.sandbox, &guard);
    }
    let artifacts = conclude(tried, ready, &host, keep, steps)?;
    if let Some(post) = &scripts.post {
        let run = || host.post_script(post, variables, &artifacts, steps);
        steps.take(Step::PostScript, run).map_err(Stop::after_publishing)?;
    }
    Ok(artifacts)
}

/// What a harness asks of people when the guard ends its run.
fn review_label(harness: &Harness) -> Option<String> {
    let escalation = &harness.security.escalation;
    (escalation.on_critical.value == OnCritical::Review).then(|| escalation.review_label.value.clone())
}

/// Publishes what was accepted while its sandbox still stands, and takes that down in any case.
fn conclude(
    tried: Result<Accepted, Stop>,
    ready: Option<Ready>,
    host: &Host<'_>,
    keep: Keep,
    steps: &Steps<'_>,
) -> Result<Artifacts, Stop> {
    let published = tried.and_then(|accepted| {
        let ready = ready.as_ref().ok_or_else(|| Stop::internal("the sandbox is gone"))?;
        let worked = attempts::worked(ready, host.repository);
        steps.take(Step::Publish, || publish::publish(accepted, &worked, steps.emit))
    });
    if let Some(ready) = ready.as_ref().filter(|_| keep.wants(published.is_ok())) {
        keep::keep(ready, &host.directory.path, steps.emit);
    }
    let closed = match ready {
        Some(ready) => steps.always(Step::Teardown, || ready.provisioned.close()).map(drop),
        None => Ok(()),
    };
    let artifacts = published?;
    closed.map(|()| artifacts)
}

fn announce(request: &Request, directory: &RunDirectory, emit: &Emitter) {
    let resolved = &request.checked.resolved;
    emit.emit(RunEvent::RunStarted {
        run_id: directory.id.clone(),
        harness: resolved.name.clone(),
        runtime: resolved.harness.runtime.value.to_string(),
        model: runtime::options::model(&request.checked).unwrap_or_default().to_owned(),
        repository: request.owner.clone().unwrap_or_default(),
        fullsend: env!("CARGO_PKG_VERSION").to_owned(),
    });
    if let Some(Head { branch, commit }) = head::of_host(&request.repository) {
        let (commit, branch) = (commit.unwrap_or_default(), branch.unwrap_or_default());
        emit.emit(RunEvent::Repository { commit, branch });
    }
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

/// Folds the log of a run into its record again, as after a crash.
pub fn refold(directory: &Path) -> Result<record::Record, crate::event::log::LogError> {
    crate::event::log::read(&directory.join("events.jsonl")).map(|events| record::fold(&events))
}
