//! One run, from a checked harness to its post-script. Read `sequence`: it is the list of steps. Each stage returns the
//! type that the next one takes, so that no stage can be skipped or reordered. A run is a library call: it installs no
//! signal handler, prints nothing, and several can run in one process.

mod attempts;
pub(crate) mod cancel_request;
pub mod directory;
pub(crate) mod extra_files;
pub(crate) mod host;
mod prescript;
pub(crate) mod script_output;
mod steps;
mod stop;
pub(crate) mod sweep;
pub(crate) mod workspace;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use model::Money;
use model::gateway::SharedBudgets;

use crate::bootstrap::{self, Ready};
use crate::cancel::Cancel;
use crate::check::Checked;
use crate::event::exit::Exit;
use crate::event::log::{Emitter, LogError};
use crate::event::outcome::{EndCause, OutcomeKind};
use crate::event::{Envelope, OperatorActionKind, RunEvent, Step, log};
use crate::git::head::{self, Head};
use crate::guard::confirmation::Confirmer;
use crate::harness::Harness;
use crate::harness::security::OnCritical;
use crate::inputs;
use crate::provision::gateway::Recording;
use crate::provision::spending::{self, RunBudgets};
use crate::provision::{self, RunContext};
use crate::publish::{self, Artifacts};
use crate::record::configuration::SavedConfiguration;
use crate::record::dsse::RecordSigner;
use crate::record::{self, Record};
use crate::resolve::library::Library;
use crate::resolve::variables;
use crate::runtime::state::StateFile;
use crate::runtime::{self, Conversation};
use crate::scripts::memory;
use crate::validate::Accepted;
use attempts::Attempts;
use cancel_request::CancelWatch;
pub use directory::RunDirectory;
use extra_files::ExtraFiles;
use host::Host;
use script_output::OnScriptOutput;
use steps::Steps;
pub use stop::Stop;
use workspace::SaveWorkspace;

/// Everything that one run needs. It reads nothing else from its surroundings.
pub struct Request {
    pub checked: Checked,
    pub library: Library,
    pub repository: PathBuf,
    /// `owner/name`, where it is known.
    pub repository_name: Option<String>,
    /// The directory of all runs.
    pub runs: PathBuf,
    /// The host's environment.
    pub environment: BTreeMap<String, String>,
    /// Record the model's responses, or replay recorded ones.
    pub recording: Option<Recording>,
    /// Drives the model gateway.
    pub executor: tokio::runtime::Handle,
    /// Text for the agent beside its prompt: a session's state, or the caller's input.
    pub context: Option<String>,
    /// The conversation to continue, in the runtime's own form, from an earlier outcome.
    pub conversation: Option<Conversation>,
    pub extra_files: ExtraFiles,
    /// Answers tool calls that a person must confirm.
    pub confirmer: Option<Arc<Confirmer>>,
    /// The caller's variables for the scripts on the host.
    pub variables: BTreeMap<String, String>,
    pub save_workspace: SaveWorkspace,
    /// How long a model request is retried. `None`: until the run's deadline.
    pub model_retry_timeout: Option<Duration>,
    /// What the earlier wakes of its session cost; `None` outside a session.
    pub session_spent: Option<Money>,
    /// Who started the run through `serve`.
    pub started_by: Option<StartedBy>,
    /// Who signs the record.
    pub signer: Option<Arc<RecordSigner>>,
    /// Gets every event as it happens.
    pub listener: Arc<dyn Fn(&Envelope) + Send + Sync>,
    /// Gets what the scripts print.
    pub script_output: Option<OnScriptOutput>,
}

impl Request {
    /// A run of a checked harness with nothing else: an empty environment, no session, no listener.
    pub fn new(
        checked: Checked,
        library: Library,
        repository: PathBuf,
        runs: PathBuf,
        executor: tokio::runtime::Handle,
    ) -> Self {
        Self {
            checked,
            library,
            repository,
            repository_name: None,
            runs,
            environment: BTreeMap::new(),
            recording: None,
            executor,
            context: None,
            conversation: None,
            extra_files: ExtraFiles::default(),
            confirmer: None,
            variables: BTreeMap::new(),
            save_workspace: SaveWorkspace::Never,
            model_retry_timeout: None,
            session_spent: None,
            started_by: None,
            signer: None,
            listener: Arc::new(|_| {}),
            script_output: None,
        }
    }

    fn is_in_session(&self) -> bool {
        self.session_spent.is_some()
    }
}

/// The operator who started a run, and the run id that `serve` already returned to the operator.
#[derive(Clone, Debug)]
pub struct StartedBy {
    pub operator: String,
    pub run_id: String,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub cause: EndCause,
    pub reason: String,
    /// The run's directory, if it was created.
    pub directory: Option<PathBuf>,
    /// The label for CI to set, where the guard stopped the run and a person must review it.
    pub review_label: Option<String>,
    /// The accepted output of a completed run.
    pub artifacts: Option<Artifacts>,
    /// The agent's conversation at the end, if there was one.
    pub conversation: Option<Conversation>,
    /// The files of the directory that `ExtraFiles::returned` names.
    pub returned_files: Vec<StateFile>,
}

impl Outcome {
    pub fn ended(cause: EndCause, reason: impl Into<String>) -> Self {
        Self {
            cause,
            reason: reason.into(),
            directory: None,
            review_label: None,
            artifacts: None,
            conversation: None,
            returned_files: Vec::new(),
        }
    }

    /// The kind of outcome that the record stores.
    pub fn kind(&self) -> OutcomeKind {
        self.cause.outcome()
    }

    pub fn exit(&self) -> Exit {
        self.cause.exit()
    }
}

/// Counters that a run keeps while it goes on.
#[derive(Debug, Default)]
struct Counts {
    denied: AtomicU64,
}

impl Counts {
    fn add(&self, event: &RunEvent) {
        if matches!(event, RunEvent::ToolDenied { .. }) {
            self.denied.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn denied_calls(&self) -> u64 {
        self.denied.load(Ordering::Relaxed)
    }
}

/// What the next run of a session continues from, whether or not this one completed.
struct Continuation {
    /// The conversation to continue; after the run, the latest one.
    conversation: Option<Conversation>,
    returned_files: Vec<StateFile>,
}

/// Runs one harness. If the event log could be created, `run.json` says how the run ended, whatever happened.
pub fn run(mut request: Request, cancel: &Cancel) -> Outcome {
    let configuration = variables::configuration_directory(&request.library);
    let as_variable = |path| (variables::CONFIGURATION_DIRECTORY.to_owned(), path);
    request.environment.extend(configuration.map(as_variable));
    let known_id = request.started_by.as_ref().map(|start| start.run_id.clone());
    let directory = match RunDirectory::create(&request.runs, request.repository_name.as_deref(), known_id) {
        Ok(directory) => directory,
        Err(stop) => return stop.outcome(None),
    };
    let counts = Arc::new(Counts::default());
    let emit = match create_log(&directory, &request, &counts) {
        Ok(emit) => emit,
        Err(stop) => return stop.outcome(Some(directory.path)),
    };
    emit_start(&request, &directory, &emit);
    let review_label = review_label(&request.checked.resolved.harness);
    let signer = request.signer.take();
    let mut continuation =
        Continuation { conversation: request.conversation.take(), returned_files: Vec::new() };
    let steps = Steps { emit: &emit, cancel };
    // In a session, the lease keeper cancels the run, so no cancel file is watched.
    let cancel_watch = (!request.is_in_session()).then(|| CancelWatch::start(&directory.path, &emit, cancel));
    let ended = sequence(request, &directory, &steps, &counts, &mut continuation);
    drop(cancel_watch);
    directory.clean();
    let mut outcome = match ended {
        _ if emit.failure().is_some() => {
            let error = emit.failure().unwrap_or_else(|| std::io::ErrorKind::Other.into());
            Stop::unwritable(&format!("cannot write the event log: {error}"), &error).outcome(None)
        }
        Ok(artifacts) => Outcome { artifacts: Some(artifacts), ..Outcome::ended(EndCause::Completed, "") },
        Err(stop) => stop.outcome(None),
    };
    if let Some(label) = review_label.filter(|_| outcome.cause == EndCause::SecurityStop) {
        emit.emit(RunEvent::ReviewRequested { label: label.clone() });
        outcome.reason.push_str(&format!("; a person must review it: set the label `{label}`"));
        outcome.review_label = Some(label);
    }
    outcome.reason = emit.redact(&outcome.reason);
    emit.emit(RunEvent::RunFinished {
        outcome: outcome.kind(),
        exit_code: outcome.exit().code(),
        reason: outcome.reason.clone(),
    });
    if let Err(stop) = directory.write_record(outcome.kind(), signer.as_deref()) {
        outcome = stop.outcome(None);
    }
    let Continuation { conversation, returned_files } = continuation;
    Outcome { directory: Some(directory.path), conversation, returned_files, ..outcome }
}

/// The sequence of a run.
fn sequence(
    mut request: Request,
    directory: &RunDirectory,
    steps: &Steps<'_>,
    counts: &Counts,
    continuation: &mut Continuation,
) -> Result<Artifacts, Stop> {
    save_configuration(&mut request, directory)?;
    let memory = memory::bytes(&request.environment).map_err(|error| Stop::missing(error.to_string()))?;
    let _group = memory::hold(memory);
    let shared_budgets = shared_budgets(&request);
    let save_workspace = request.save_workspace;
    let model_retry_timeout = request.model_retry_timeout;
    let Request {
        checked, library, repository, environment, recording, executor, context, extra_files, ..
    } = request;
    let emit = steps.emit;
    let host_variable = |name: &str| environment.get(name).cloned();
    let variable = |name: &str| variables::value(&host_variable, name);
    let host = Host {
        library: &library,
        repository: &repository,
        environment: &environment,
        directory,
        script_output: request.script_output.as_ref(),
    };
    let scripts = checked.scripts.clone();
    let mut variables = host.script_environment(&checked, &variable);
    variables.extend(request.variables);
    let guard = host.guard(&checked, &variable, emit)?.with_confirmer(request.confirmer);
    Host::add_known_secrets(&variables, &guard);
    let credentials = host.credentials(&checked, recording.as_ref(), &variable, &guard)?;
    guard.remember_earlier_calls(continuation.conversation.iter().flat_map(runtime::past_calls));

    let scanned = inputs::scan_harness(checked, &library, &guard, emit)?;
    host.preflight_check(scanned.checked(), &variables, &guard, steps.cancel)?;
    if let Some(pre_script) = &scripts.pre {
        steps.run(Step::PreScript, || host.pre_script(pre_script, &variables, &guard, steps))?;
    }
    let inputs = steps.run(Step::Inputs, || {
        context.as_deref().map_or(Ok(()), |text| inputs::scan_context_text(text, &guard, emit))?;
        inputs::mounted::scan_mounts(&extra_files.mounts, &guard, emit)?;
        let runtime_name = scanned.checked().resolved.harness.runtime.value;
        let instruction_file = runtime::of(runtime_name).instruction_file;
        inputs::scan_repository(scanned, &library, &repository, &guard, emit, instruction_file)
    })?;
    let run_context = RunContext {
        shared_budgets,
        library: &library,
        repository: &repository,
        directory: &directory.path,
        guard: &guard,
        credentials: &credentials,
        recording: recording.as_ref(),
        environment: &environment,
        emit,
        cancel: steps.cancel,
        gateway: &OnceLock::new(),
        executor,
        variables: &variable,
        mounts: &extra_files.mounts,
        model_retry_timeout,
    };
    let prepare = |inputs| -> Result<Ready, Stop> {
        let provisioned = steps.run(Step::Provision, || provision::provision(inputs, &run_context))?;
        steps.run(Step::Bootstrap, || {
            extra_files.write_into(&provisioned.sandbox)?;
            Ok::<_, Stop>(bootstrap::bootstrap(provisioned, &library, &guard)?)
        })
    };
    let recreate =
        |ready: Ready| prepare(steps.run_even_cancelled(Step::Teardown, || ready.provisioned.close())?);
    let attempts =
        Attempts { host: &host, variables: &variables, guard: &guard, steps, counts, recreate: &recreate };
    // The agent, quarantine and validation, once per attempt.
    let (accepted, ready) = attempts.run(prepare(inputs)?, context, &mut continuation.conversation);
    if let Some(ready) = &ready {
        continuation.returned_files = extra_files.read_back(&ready.provisioned.sandbox, &guard);
    }
    let artifacts = publish_and_tear_down(accepted, ready, &host, save_workspace, steps)?;
    if let Some(post_script) = &scripts.post {
        let run = || host.post_script(post_script, variables, &artifacts, &guard, steps);
        steps.run(Step::PostScript, run).map_err(Stop::after_publishing)?;
    }
    Ok(artifacts)
}

/// The budgets that this run shares with others.
fn shared_budgets(request: &Request) -> SharedBudgets {
    let spender = RunBudgets {
        runs: &request.runs,
        repository_name: request.repository_name.as_deref(),
        repository: &request.repository,
        session_spent: request.session_spent,
    };
    spending::shared_budgets(request.checked.resolved.harness.budget.as_ref(), &spender)
}

/// Publishes accepted output while its sandbox still exists, and closes the sandbox in any case.
fn publish_and_tear_down(
    accepted: Result<Accepted, Stop>,
    ready: Option<Ready>,
    host: &Host<'_>,
    save_workspace: SaveWorkspace,
    steps: &Steps<'_>,
) -> Result<Artifacts, Stop> {
    let published = accepted.and_then(|accepted| {
        let ready = ready.as_ref().ok_or_else(|| Stop::internal("the sandbox is gone"))?;
        let agent_repository = attempts::agent_repository(ready, host.repository);
        steps.run(Step::Publish, || publish::publish(accepted, &agent_repository, steps.emit))
    });
    if let Some(ready) = ready.as_ref().filter(|_| save_workspace.applies(published.is_ok())) {
        workspace::save(ready, &host.directory.path, steps.emit);
    }
    let closed = match ready {
        Some(ready) => steps.run_even_cancelled(Step::Teardown, || ready.provisioned.close()).map(drop),
        None => Ok(()),
    };
    let artifacts = published?;
    closed.map(|()| artifacts)
}

/// The event log of this run. Its events are counted, then passed to the caller.
fn create_log(directory: &RunDirectory, request: &Request, counts: &Arc<Counts>) -> Result<Emitter, Stop> {
    let listener = Arc::clone(&request.listener);
    let counts = Arc::clone(counts);
    let on_event = move |envelope: &Envelope| {
        counts.add(&envelope.event);
        listener(envelope);
    };
    Emitter::create(&directory.path.join("events.jsonl"), on_event)
        .map_err(|error| Stop::unwritable(&format!("cannot write the event log: {error}"), &error))
}

/// Saves the run's configuration, so that it can be explained after the files change.
fn save_configuration(request: &mut Request, directory: &RunDirectory) -> Result<(), Stop> {
    let redactor = redact::Redactor::new();
    let masked = |text: &str| redactor.redact(text).into_owned();
    let configuration = SavedConfiguration::new(&mut request.library, &request.checked, masked);
    configuration
        .write(&directory.path)
        .map_err(|error| Stop::unwritable(&format!("cannot write configuration.json: {error}"), &error))
}

/// The label that the harness sets for a run that the guard stopped.
fn review_label(harness: &Harness) -> Option<String> {
    let escalation = &harness.security.escalation;
    (escalation.on_critical.value == OnCritical::Review).then(|| escalation.review_label.value.clone())
}

/// The first events: what runs, where the repository is, and what is weaker than the defaults.
fn emit_start(request: &Request, directory: &RunDirectory, emit: &Emitter) {
    let resolved = &request.checked.resolved;
    emit.emit(RunEvent::RunStarted {
        run_id: directory.id.clone(),
        harness: resolved.name.clone(),
        runtime: resolved.harness.runtime.value.to_string(),
        model: runtime::options::model(&request.checked).unwrap_or_default().to_owned(),
        repository: request.repository_name.clone().unwrap_or_default(),
        repository_directory: request
            .repository
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default(),
        fullsend: env!("CARGO_PKG_VERSION").to_owned(),
    });
    if let Some(StartedBy { operator, .. }) = &request.started_by {
        let by = operator.clone();
        emit.emit(RunEvent::OperatorAction { by, action: OperatorActionKind::Start });
    }
    if let Some(Head { branch, commit }) = head::of_host(&request.repository) {
        emit.emit(RunEvent::Repository {
            commit: commit.unwrap_or_default(),
            branch: branch.unwrap_or_default(),
        });
    }
    for toggle in &resolved.toggles {
        let place = request.library.sources.locate(toggle.at).to_string();
        emit.emit(RunEvent::Toggle { field: toggle.field.clone(), value: toggle.value.clone(), place });
    }
    for (field, value) in resolved.overrides() {
        emit.emit(RunEvent::Override { field, value });
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

/// Rebuilds the record from the event log, for example after a crash.
pub fn rebuild_record(directory: &Path) -> Result<Record, LogError> {
    log::read(&directory.join("events.jsonl")).map(|events| record::fold(&events))
}
