//! A session's bounded run: wake context, prompt, run, directive, one commit. This file reads as that sequence. It does not
//! decide which session runs when, and never imports `worker`.

pub(crate) mod confirm;
pub(crate) mod conversation;
pub(crate) mod interpret;
pub(crate) mod lease_keeper;
pub(crate) mod memory;
pub(crate) mod prepare;
pub(crate) mod prompt;
pub(crate) mod resources;
pub(crate) mod run_bundle;
pub(crate) mod run_reports;
pub(crate) mod screen;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sandbox::Mount;
use session::{
    ClaimedWake, ContextSource, ContextWindow, EventId, FailureClass, Lease, LeaseTerms, Payload, RunReport,
    Session, SessionError, SessionHeader, SessionId, SessionLimits, SessionRefusal, SessionState,
    SessionStatus, Sessions, Sha256Digest, StoreError, TimeSeed, Timestamp, WakeCommit, WakeEnding, WakeId,
};

use crate::cancel::Cancel;
use crate::check::Checked;
use crate::event::Envelope;
use crate::event::clock::Moment;
use crate::event::outcome::EndCause;
use crate::guard;
use crate::guard::confirmation::Confirmer;
use crate::record::dsse::RecordSigner;
use crate::run::workspace::SaveWorkspace;
use crate::run::{self, Outcome, Request};
use confirm::ToolConfirmations;
use conversation::EarlierConversations;
use interpret::{DIRECTIVE_FILE, EndedRun};
use lease_keeper::{LeaseKeeper, LeaseKeeperConfig, LeaseState};
use memory::WakeSummary;
use prepare::{LayerSnapshot, PrepareError, prepare};
use prompt::{Prompt, PromptBudget, PromptSource, assemble};
use resources::RemoteAccess;
use run_reports::RunReports;
use screen::MemoryScreen;

/// If the model is unavailable for longer, the wake is scheduled again.
const MODEL_RETRY_TIMEOUT: Duration = Duration::from_secs(120);

type OpenLayers = dyn Fn(&SessionHeader) -> Result<LayerSnapshot, PrepareError> + Send + Sync;

/// What a wake needs from the machine around it.
#[derive(Clone)]
pub struct WakeContext {
    /// Reads the configuration layers of a session as they are now.
    pub open: Arc<OpenLayers>,
    /// Opens another connection to the same store.
    pub connect: Arc<dyn Fn() -> Result<Sessions, String> + Send + Sync>,
    /// The directory of all runs.
    pub runs: PathBuf,
    /// Who signs the records of runs.
    pub signer: Option<Arc<RecordSigner>>,
    pub earlier_conversations: EarlierConversations,
    /// The host's environment variables.
    pub environment: BTreeMap<String, String>,
    pub executor: tokio::runtime::Handle,
    /// Receives every event of every run.
    pub listener: Arc<dyn Fn(&Envelope) + Send + Sync>,
    pub lease_terms: LeaseTerms,
    pub limits: SessionLimits,
    /// Set when this process must stop.
    pub cancel: Cancel,
}

/// How a wake ended.
#[derive(Debug, Clone)]
pub struct WakeResult {
    pub session: SessionId,
    pub wake: WakeId,
    pub status: SessionStatus,
    pub cause: EndCause,
    pub reason: String,
    /// The agent's message to the user.
    pub response: String,
    pub directory: Option<PathBuf>,
}

/// How long a commit is retried while the store is unavailable. This is safe: no other worker can claim the wake before its
/// lease ends.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(60);
/// The same in a process that must stop.
const COMMIT_TIMEOUT_ON_STOP: Duration = Duration::from_secs(5);
const COMMIT_RETRY: Duration = Duration::from_millis(500);

/// Runs one claimed wake and commits its result. After an error the commit may be missing; then the next worker runs the
/// wake again.
pub fn wake(
    context: &WakeContext,
    sessions: &mut Sessions,
    claimed: &ClaimedWake,
) -> Result<WakeResult, SessionError> {
    let lease = &claimed.lease;
    let claimed_at = Instant::now();
    let source = sessions.context(lease, &ContextWindow::default())?;
    let reports = Arc::new(RunReports::new(lease.wake));
    let confirmations = ToolConfirmations::new(&source.session.state, &source.inputs);
    let bounded = match bounded_run(context, (lease, claimed_at), &source, &reports, &confirmations) {
        Ok(bounded) => bounded,
        Err(error) => BoundedRun::not_started(&error),
    };
    let BoundedRun { outcome, prompt, runtime, shown_memory, lease_state } = bounded;
    if let LeaseState::Lost(reason) = &lease_state {
        return Err(StoreError::Unavailable { step: "keep the lease", source: reason.clone().into() }.into());
    }
    let directive = directive_text(&outcome);
    let ending = interpret::ending(&EndedRun {
        cause: outcome.cause,
        reason: &outcome.reason,
        directive: directive.as_deref(),
        model_fault: reports.model_fault(),
        lease_state: &lease_state,
    });
    let (ending, requested) = pause_if_requested(ending, confirmations.take());
    let response = match &ending {
        WakeEnding::Directive(directive) => directive.response.clone(),
        _ => String::new(),
    };
    let summary = summarise(&source, &ending, &prompt, &runtime, &reports);
    let is_rejected = matches!(ending, WakeEnding::Malformed { .. }) && outcome.cause == EndCause::Completed;
    let commit = WakeCommit {
        reports: final_reports(&reports, &outcome, requested),
        bindings: bindings(context, sessions, lease.session, &runtime, &outcome, &ending),
        memory: memory::writes(&summary, &outcome.returned_files, &context.limits),
        deleted_memory: memory::deleted(&shown_memory, &outcome.returned_files, &ending),
        usage: reports.usage(),
        ending,
    };
    store_run(context, sessions, lease.session, &outcome);
    let (state, refused) = commit_or_reject(context, sessions, lease, &commit)?;
    // The next wake removes what is left.
    let named = state.bindings.values().map(String::as_str);
    drop(conversation::remove_others(sessions, lease.session, named));
    Ok(WakeResult {
        session: lease.session,
        wake: lease.wake,
        status: state.status,
        cause: if refused.is_some() || is_rejected { EndCause::InvalidOutput } else { outcome.cause },
        reason: refused.unwrap_or(outcome.reason),
        response,
        directory: outcome.directory,
    })
}

/// Checks whether a wake of this session could start now.
pub fn check(context: &WakeContext, session: &Session) -> Result<(), PrepareError> {
    prepare_run(context, session).map(drop)
}

/// What a run starts from: the layers as they are now, the checked harness, the session's resources.
fn prepare_run(
    context: &WakeContext,
    session: &Session,
) -> Result<(LayerSnapshot, Checked, Vec<Mount>), PrepareError> {
    let mut layers = (context.open)(&session.header)?;
    let lookup = |name: &str| context.environment.get(name).cloned();
    let checked = prepare(&mut layers, session, &lookup)?;
    let allowed = &checked.resolved.harness.allowed_remote_resources;
    let remote = RemoteAccess {
        resources: &layers.library.remote,
        allowed: allowed.iter().map(|prefix| prefix.value.clone()).collect(),
    };
    let resources = resources::mounts(&session.header.resources, &remote)?;
    Ok((layers, checked, resources))
}

/// The result of a run, or the reason why none started.
struct BoundedRun {
    outcome: Outcome,
    prompt: Prompt,
    runtime: String,
    /// The memory files that the agent saw.
    shown_memory: Vec<String>,
    lease_state: LeaseState,
}

impl BoundedRun {
    fn not_started(error: &PrepareError) -> Self {
        Self {
            outcome: Outcome::ended(error.cause, &error.message),
            prompt: Prompt::default(),
            runtime: String::new(),
            shown_memory: Vec::new(),
            lease_state: LeaseState::Held,
        }
    }
}

/// Prepares the harness, assembles the prompt, and runs the agent while the lease keeper extends the lease.
fn bounded_run(
    context: &WakeContext,
    (lease, claimed_at): (&Lease, Instant),
    source: &ContextSource,
    reports: &Arc<RunReports>,
    confirmations: &Arc<ToolConfirmations>,
) -> Result<BoundedRun, PrepareError> {
    check_budget(&source.session)?;
    let (layers, checked, resources) = prepare_run(context, &source.session)?;
    let harness = &checked.resolved.harness;
    let variables = |name: &str| context.environment.get(name).cloned();
    let weights = guard::weights_file::find(&variables);
    let learned = guard::setup::learned(&harness.security, weights);
    let learned = learned.map_err(|error| PrepareError::missing(error.to_string()))?;
    let screen = MemoryScreen::new(guard::setup::toggles(&harness.security), learned);
    let screened = screen.screen(&source.memory, &source.learnings);
    let runtime = harness.runtime.value.to_string();
    let binding = source.session.state.bindings.get(&runtime);
    let mut keeper_sessions = (context.connect)().map_err(PrepareError::transient)?;
    let conversation = match binding {
        Some(name) => {
            let earlier = &context.earlier_conversations;
            let loaded = conversation::load(&mut keeper_sessions, lease.session, name, earlier);
            loaded.map_err(|error| PrepareError::transient(error.to_string()))?
        }
        None => None,
    };
    let prompt = assemble(&PromptSource {
        context: source,
        screened: &screened,
        resumes: conversation.is_some(),
        directory: memory::DIRECTORY,
        budget: PromptBudget::default(),
    });
    let run_cancel = Cancel::default();
    let request = Request {
        checked,
        repository_name: layers.choices.repo.clone(),
        repository: layers.repository.clone(),
        library: layers.library,
        runs: context.runs.clone(),
        environment: context.environment.clone(),
        recording: None,
        executor: context.executor.clone(),
        context: Some(prompt.text.clone()),
        conversation,
        save_workspace: SaveWorkspace::Never,
        model_retry_timeout: Some(MODEL_RETRY_TIMEOUT),
        session_spent: Some(model::Money(source.session.state.usage.cost_microdollars.saturating_mul(1_000))),
        extra_files: memory::extra_files(source, &screened, resources),
        confirmer: Some(confirmer(confirmations)),
        signer: context.signer.clone(),
        started_by: None,
        variables: script_variables(lease),
        listener: listener(context, reports),
        script_output: None,
    };
    let config = LeaseKeeperConfig {
        sessions: keeper_sessions,
        lease: lease.clone(),
        terms: context.lease_terms.clone(),
        reports: Arc::clone(reports),
        process: context.cancel.clone(),
        run: run_cancel.clone(),
    };
    let keeper =
        LeaseKeeper::start(config, claimed_at).map_err(|error| PrepareError::transient(error.to_string()))?;
    let outcome = run::run(request, &run_cancel);
    drop(layers.guard);
    let shown_memory = screened.memory.into_iter().map(|file| file.name).collect();
    Ok(BoundedRun { outcome, prompt, runtime, shown_memory, lease_state: keeper.stop() })
}

/// A child session starts no wake after it has cost its budget. Its parent gets the reason as its result.
fn check_budget(session: &Session) -> Result<(), PrepareError> {
    let cost = session.state.usage.cost_microdollars;
    match session.header.parent {
        Some(parent) if cost >= parent.budget_microdollars => Err(PrepareError {
            message: "the session has cost as much as its parent allows".to_owned(),
            cause: EndCause::BudgetSpent,
        }),
        _ => Ok(()),
    }
}

/// The directive as the agent wrote it: in the accepted output, else in the output that was rejected last.
fn directive_text(outcome: &Outcome) -> Option<String> {
    let accepted = outcome.artifacts.as_ref().map(|artifacts| artifacts.directory().to_owned());
    let output = accepted.or_else(|| {
        let directory = outcome.directory.as_ref()?;
        let rejected = |number: u32| directory.join(format!("iteration-{number}")).join("rejected");
        (1..).map(rejected).take_while(|path| path.is_dir()).last()
    })?;
    std::fs::read_to_string(output.join(DIRECTIVE_FILE)).ok()
}

/// After a crash a script may run again for the same wake. Every attempt has the same wake id, so scripts can tell.
fn script_variables(lease: &Lease) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("FULLSEND_SESSION_ID".to_owned(), lease.session.to_string()),
        ("FULLSEND_WAKE_ID".to_owned(), lease.wake.to_string()),
    ])
}

fn confirmer(confirmations: &Arc<ToolConfirmations>) -> Arc<Confirmer> {
    let confirmations = Arc::clone(confirmations);
    Arc::new(move |tool, input| confirmations.ask(tool, input))
}

fn listener(context: &WakeContext, reports: &Arc<RunReports>) -> Arc<dyn Fn(&Envelope) + Send + Sync> {
    let listener = Arc::clone(&context.listener);
    let reports = Arc::clone(reports);
    Arc::new(move |envelope| {
        reports.on_event(envelope);
        listener(envelope);
    })
}

/// A run that asked for a confirmation has paused, even if its directive is malformed. A run that failed or was
/// interrupted drops its requests: the next attempt makes them again.
fn pause_if_requested(ending: WakeEnding, requested: Vec<Payload>) -> (WakeEnding, Vec<Payload>) {
    match ending {
        WakeEnding::Malformed { .. } if !requested.is_empty() => (WakeEnding::Paused, requested),
        WakeEnding::Directive(_) => (ending, requested),
        ending => (ending, Vec::new()),
    }
}

/// The reports that are not in the log yet, and the run with the digest of its record.
fn final_reports(reports: &RunReports, outcome: &Outcome, requested: Vec<Payload>) -> Vec<RunReport> {
    let mut all = reports.begin();
    // The commit has the whole usage.
    all.retain(|report| !matches!(report.payload, Payload::RunUsage { .. }));
    let mut more = Vec::new();
    let record = outcome.directory.as_ref().and_then(|path| std::fs::read(path.join("run.json")).ok());
    if let (Some(run_id), Some(record)) = (reports.run_id(), record) {
        more.push(Payload::RunAttached { run_id, digest: Some(Sha256Digest::of(&record)) });
    }
    let mut seed = time_seed(Timestamp(i64::try_from(Moment::now().millis()).unwrap_or(0)));
    let report = |payload| RunReport { id: EventId::generate(&mut seed), payload };
    all.extend(more.into_iter().chain(requested).map(report));
    all
}

/// The conversation that the next wake resumes. It is stored before the commit names it. The conversation of a failed run is not resumed.
fn bindings(
    context: &WakeContext,
    sessions: &mut Sessions,
    session: SessionId,
    runtime: &str,
    outcome: &Outcome,
    ending: &WakeEnding,
) -> BTreeMap<String, String> {
    let stored = match (ending, &outcome.conversation) {
        (WakeEnding::Directive(_) | WakeEnding::Paused, Some(conversation)) => {
            let stored = with_retry(context, sessions, |sessions| {
                conversation::store(sessions, session, conversation)
            });
            stored.ok().flatten()
        }
        _ => None,
    };
    // An empty name matches no conversation: the next wake starts a new one.
    let name = stored.unwrap_or_default();
    if runtime.is_empty() { BTreeMap::new() } else { BTreeMap::from([(runtime.to_owned(), name)]) }
}

fn summarise<'a>(
    source: &'a ContextSource,
    ending: &'a WakeEnding,
    prompt: &'a Prompt,
    runtime: &'a str,
    reports: &RunReports,
) -> WakeSummary<'a> {
    let (directive, label) = match ending {
        WakeEnding::Directive(directive) => (Some(directive), "done"),
        WakeEnding::Paused => (None, "paused"),
        WakeEnding::Malformed { .. } => (None, "malformed directive"),
        WakeEnding::Failed { class: FailureClass::Transient, .. } => (None, "failed, will be retried"),
        WakeEnding::Failed { class: FailureClass::Permanent, .. } => (None, "failed"),
        WakeEnding::Interrupted => (None, "interrupted"),
    };
    WakeSummary {
        context: source,
        directive,
        report: &prompt.report,
        runtime,
        run_id: reports.run_id(),
        ending: label,
    }
}

/// Commits the result. A result that breaks a limit of the session would break it again in every attempt, so it is committed
/// as a malformed directive instead, with its usage. Returns why it was refused.
fn commit_or_reject(
    context: &WakeContext,
    sessions: &mut Sessions,
    lease: &Lease,
    commit: &WakeCommit,
) -> Result<(SessionState, Option<String>), SessionError> {
    let refusal = match commit_with_retry(context, sessions, lease, commit) {
        Err(SessionError::Refused(refusal)) => refusal,
        result => return result.map(|state| (state, None)),
    };
    if matches!(refusal, SessionRefusal::Stale { .. } | SessionRefusal::Terminated) {
        return Err(refusal.into());
    }
    let error = format!("the result of the wake was refused: {refusal}");
    let rejected = WakeCommit {
        reports: Vec::new(),
        ending: WakeEnding::Malformed { error: error.clone(), excerpt: String::new() },
        usage: commit.usage,
        bindings: BTreeMap::new(),
        memory: Vec::new(),
        deleted_memory: Vec::new(),
    };
    Ok((commit_with_retry(context, sessions, lease, &rejected)?, Some(error)))
}

/// One write, retried for a while if the store is unavailable. The fencing token alone decides whether it is accepted. If the
/// reply of an earlier try was lost, the store finds that commit and writes nothing.
fn commit_with_retry(
    context: &WakeContext,
    sessions: &mut Sessions,
    lease: &Lease,
    commit: &WakeCommit,
) -> Result<SessionState, SessionError> {
    with_retry(context, sessions, |sessions| {
        sessions.now().and_then(|now| sessions.commit(lease, commit, &mut time_seed(now)))
    })
}

/// Stores the bundle of the run, so that it is not only on this machine. Its directory here stays in any case.
fn store_run(context: &WakeContext, sessions: &mut Sessions, session: SessionId, outcome: &Outcome) {
    if let Some(directory) = &outcome.directory {
        let stored = with_retry(context, sessions, |sessions| {
            run_bundle::store(sessions, session, &context.runs, directory)
        });
        drop(stored);
    }
}

/// Repeats a call for a while if the store is unavailable.
fn with_retry<T>(
    context: &WakeContext,
    sessions: &mut Sessions,
    mut call: impl FnMut(&mut Sessions) -> Result<T, SessionError>,
) -> Result<T, SessionError> {
    let start = Instant::now();
    loop {
        let result = call(sessions);
        let timeout = if context.cancel.is_cancelled() { COMMIT_TIMEOUT_ON_STOP } else { COMMIT_TIMEOUT };
        let may_retry = start.elapsed() < timeout && !context.cancel.is_urgent();
        match result {
            Err(SessionError::Store(
                StoreError::Unavailable { .. } | StoreError::Busy { .. } | StoreError::Full { .. },
            )) if may_retry => std::thread::sleep(COMMIT_RETRY),
            result => return result,
        }
    }
}

/// The time of a store, with a random seed from the operating system.
pub fn time_seed(now: Timestamp) -> TimeSeed {
    let mut seed = [0; 32];
    seed[..16].copy_from_slice(uuid::Uuid::new_v4().as_bytes());
    seed[16..].copy_from_slice(uuid::Uuid::new_v4().as_bytes());
    TimeSeed::new(now, seed)
}
