//! A session's bounded run: what the agent is told, what its answer means, and one commit. This file reads as the sequence. It
//! knows nothing of which session runs when: that is for whoever calls it, and `worker` is never imported here.

pub mod confirm;
pub mod conversation;
pub mod interpret;
pub mod lease_keeper;
pub mod memory;
pub mod prepare;
pub mod prompt;
pub mod resources;
pub mod run_reports;
pub mod screen;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::cancel::Cancel;
use crate::check::Checked;
use crate::event::Envelope;
use crate::event::outcome::EndCause;
use crate::guard;
use crate::guard::confirmation::Confirmer;
use crate::run::workspace::SaveWorkspace;
use crate::run::{self, Outcome, Request};
use confirm::Confirmations;
use conversation::Conversations;
use interpret::{DIRECTIVE_FILE, EndedRun};
use lease_keeper::{LeaseKeeper, LeaseKeeperConfig, LeaseState};
use memory::WakeSummary;
use prepare::{LayerSnapshot, PrepareError, prepare};
use prompt::{Prompt, PromptBudget, PromptSource, assemble};
use run_reports::RunReports;
use sandbox::Mount;
use screen::MemoryScreen;
use session::{
    ClaimedWake, ContextSource, ContextWindow, FailureClass, Lease, LeaseTerms, Payload, SessionError,
    SessionHeader, SessionId, SessionLimits, SessionState, SessionStatus, Sessions, Sha256Digest, StoreError,
    TimeSeed, Timestamp, WakeCommit, WakeEnding, WakeId,
};

/// Everything around a wake that is not the session's.
#[derive(Clone)]
pub struct WakeContext {
    /// The layers as they are now.
    pub open: Arc<dyn Fn() -> Result<LayerSnapshot, String> + Send + Sync>,
    /// Another connection to the same store.
    pub connect: Arc<dyn Fn() -> Result<Sessions, String> + Send + Sync>,
    /// Where runs are kept.
    pub runs: PathBuf,
    pub conversations: Conversations,
    /// The host's environment.
    pub environment: BTreeMap<String, String>,
    pub runtime: tokio::runtime::Handle,
    /// Hears every event of every run.
    pub listener: Arc<dyn Fn(&Envelope) + Send + Sync>,
    pub worker: LeaseTerms,
    pub limits: SessionLimits,
    /// Whoever started us wants to end.
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
    /// What the agent said to the user.
    pub response: String,
    pub directory: Option<PathBuf>,
}

/// How long a commit is tried while the store is away. Nobody else has the wake before its lease ends.
const COMMIT_PATIENCE: Duration = Duration::from_secs(60);

/// Runs one claimed wake and commits what came of it. An error means that nothing was committed: the wake is tried again by
/// whoever claims it next.
pub fn wake(
    setting: &WakeContext,
    sessions: &mut Sessions,
    claimed: &ClaimedWake,
) -> Result<WakeResult, SessionError> {
    let lease = &claimed.lease;
    let context = sessions.context(lease, &ContextWindow::default())?;
    let notes = Arc::new(RunReports::new(lease.wake));
    let confirmations = Confirmations::of(&context.session.state, &context.inputs);
    let ran = match bounded_run(setting, lease, &context, &notes, &confirmations) {
        Ok(ran) => ran,
        Err(trouble) => Ran::not_begun(&trouble),
    };
    let Ran { outcome, assembled, runtime, heart } = ran;
    if let LeaseState::Lost(why) = &heart {
        return Err(StoreError::Unavailable { step: "hold the lease", source: why.clone().into() }.into());
    }
    let directive = outcome
        .artifacts
        .as_ref()
        .and_then(|artifacts| std::fs::read_to_string(artifacts.directory.join(DIRECTIVE_FILE)).ok());
    let ending = interpret::ending(&EndedRun {
        cause: outcome.cause,
        reason: &outcome.reason,
        directive: directive.as_deref(),
        violations: &notes.violations(),
        fault: notes.fault(),
        heart: &heart,
    });
    let (ending, asked) = paused(ending, confirmations.take());
    let response = match &ending {
        WakeEnding::Directive(directive) => directive.response.clone(),
        _ => String::new(),
    };
    let commit = WakeCommit {
        reports: reports(&notes, &outcome).into_iter().chain(asked).collect(),
        bindings: bindings(setting, lease.session, &runtime, &outcome, &ending),
        memory: memory::writes(
            &told(&context, &ending, &assembled, &runtime, &notes),
            &outcome.returned_files,
            &setting.limits,
        ),
        usage: notes.usage(),
        ending,
    };
    let state = store(setting, sessions, lease, &commit)?;
    setting.conversations.forget_others(lease.session, state.bindings.values().map(String::as_str));
    Ok(WakeResult {
        session: lease.session,
        wake: lease.wake,
        status: state.status,
        cause: outcome.cause,
        reason: outcome.reason,
        response,
        directory: outcome.directory,
    })
}

/// Whether a wake of this session could begin now.
pub fn check(setting: &WakeContext, header: &SessionHeader) -> Result<(), PrepareError> {
    stand(setting, header).map(drop)
}

/// What a run begins with: the layers as they are now, the harness checked anew, the session's resources.
fn stand(
    setting: &WakeContext,
    header: &SessionHeader,
) -> Result<(LayerSnapshot, Checked, Vec<Mount>), PrepareError> {
    let mut ground = (setting.open)().map_err(PrepareError::invalid)?;
    let lookup = |name: &str| setting.environment.get(name).cloned();
    let checked = prepare(&mut ground, header, &lookup)?;
    let resources = resources::mounts(&header.resources).map_err(PrepareError::missing)?;
    Ok((ground, checked, resources))
}

/// What a run left, or why there was none.
struct Ran {
    outcome: Outcome,
    assembled: Prompt,
    runtime: String,
    heart: LeaseState,
}

impl Ran {
    fn not_begun(trouble: &PrepareError) -> Self {
        Self {
            outcome: Outcome::ended(trouble.cause, &trouble.message),
            assembled: Prompt::default(),
            runtime: String::new(),
            heart: LeaseState::Held,
        }
    }
}

/// The harness, the context, and the run with its heartbeat.
fn bounded_run(
    setting: &WakeContext,
    lease: &Lease,
    context: &ContextSource,
    notes: &Arc<RunReports>,
    confirmations: &Arc<Confirmations>,
) -> Result<Ran, PrepareError> {
    let (ground, checked, resources) = stand(setting, &context.session.header)?;
    let harness = &checked.resolved.harness;
    let screened = MemoryScreen::new(guard::setup::toggles(&harness.security))
        .screen(&context.memory, &context.learnings);
    let runtime = harness.runtime.value.to_string();
    let conversation = context
        .session
        .state
        .bindings
        .get(&runtime)
        .and_then(|name| setting.conversations.load(lease.session, name));
    let assembled = assemble(&PromptSource {
        context,
        screened: &screened,
        resumes: conversation.is_some(),
        directory: memory::DIRECTORY,
        budget: PromptBudget::default(),
    });
    let run = Cancel::default();
    let request = Request {
        checked,
        owner: ground.choices.repo.clone(),
        repository: ground.repository.clone(),
        library: ground.library,
        runs: setting.runs.clone(),
        environment: setting.environment.clone(),
        recording: None,
        runtime: setting.runtime.clone(),
        context: Some(assembled.text.clone()),
        conversation,
        save_workspace: SaveWorkspace::Never,
        extra_files: memory::extra_files(context, &screened, resources),
        confirmer: Some(confirmer(confirmations)),
        variables: script_variables(lease),
        listener: listener(setting, notes),
    };
    let charge = LeaseKeeperConfig {
        sessions: (setting.connect)().map_err(PrepareError::passing)?,
        lease: lease.clone(),
        worker: setting.worker.clone(),
        notes: Arc::clone(notes),
        outer: setting.cancel.clone(),
        run: run.clone(),
    };
    let heart = LeaseKeeper::start(charge).map_err(|error| PrepareError::passing(error.to_string()))?;
    let outcome = run::run(request, &run);
    drop(ground.kept);
    Ok(Ran { outcome, assembled, runtime, heart: heart.stop() })
}

/// Outside effects may repeat after a crash: scripts can tell by the wake's id, which every attempt has.
fn script_variables(lease: &Lease) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("FULLSEND_SESSION_ID".to_owned(), lease.session.to_string()),
        ("FULLSEND_WAKE_ID".to_owned(), lease.wake.to_string()),
    ])
}

fn confirmer(confirmations: &Arc<Confirmations>) -> Arc<Confirmer> {
    let confirmations = Arc::clone(confirmations);
    Arc::new(move |tool, input| confirmations.ask(tool, input))
}

fn listener(setting: &WakeContext, notes: &Arc<RunReports>) -> Arc<dyn Fn(&Envelope) + Send + Sync> {
    let (listener, notes) = (Arc::clone(&setting.listener), Arc::clone(notes));
    Arc::new(move |envelope| {
        notes.on_event(envelope);
        listener(envelope);
    })
}

/// A run that asked and then lost its words has paused all the same; one that failed or was interrupted asks again when it
/// is tried again.
fn paused(ending: WakeEnding, asked: Vec<Payload>) -> (WakeEnding, Vec<Payload>) {
    match ending {
        WakeEnding::Malformed { .. } if !asked.is_empty() => (WakeEnding::Paused, asked),
        WakeEnding::Directive(_) => (ending, asked),
        ending => (ending, Vec::new()),
    }
}

/// What was not yet written, and the run with the digest of its record.
fn reports(notes: &RunReports, outcome: &Outcome) -> Vec<Payload> {
    let mut reports = notes.take();
    let record = outcome.directory.as_ref().and_then(|path| std::fs::read(path.join("run.json")).ok());
    if let (Some(run_id), Some(record)) = (notes.run_id(), record) {
        reports.push(Payload::RunAttached { run_id, digest: Some(Sha256Digest::of(&record)) });
    }
    reports
}

/// The conversation to go on with next time, kept before the commit names it. One that ended in trouble is not gone on with.
fn bindings(
    setting: &WakeContext,
    session: SessionId,
    runtime: &str,
    outcome: &Outcome,
    ending: &WakeEnding,
) -> BTreeMap<String, String> {
    let kept = match (ending, &outcome.conversation) {
        (WakeEnding::Directive(_) | WakeEnding::Paused, Some(conversation)) => {
            setting.conversations.keep(session, conversation).ok().flatten()
        }
        _ => None,
    };
    // An empty name is nobody's: the next wake begins a conversation of its own.
    let name = kept.unwrap_or_default();
    if runtime.is_empty() { BTreeMap::new() } else { BTreeMap::from([(runtime.to_owned(), name)]) }
}

fn told<'a>(
    context: &'a ContextSource,
    ending: &'a WakeEnding,
    assembled: &'a Prompt,
    runtime: &'a str,
    notes: &RunReports,
) -> WakeSummary<'a> {
    let (directive, word) = match ending {
        WakeEnding::Directive(directive) => (Some(directive), "done"),
        WakeEnding::Paused => (None, "paused"),
        WakeEnding::Malformed { .. } => (None, "malformed directive"),
        WakeEnding::Failed { class: FailureClass::Transient, .. } => (None, "failed, to be tried again"),
        WakeEnding::Failed { class: FailureClass::Permanent, .. } => (None, "failed"),
        WakeEnding::Interrupted => (None, "interrupted"),
    };
    WakeSummary {
        context,
        directive,
        report: &assembled.report,
        runtime,
        run_id: notes.run_id(),
        ending: word,
    }
}

/// One write, tried for a while if the store is away. Whether it is refused is decided by the token alone.
fn store(
    setting: &WakeContext,
    sessions: &mut Sessions,
    lease: &Lease,
    commit: &WakeCommit,
) -> Result<SessionState, SessionError> {
    let start = Instant::now();
    loop {
        let tried = sessions.now().and_then(|now| sessions.commit(lease, commit, &mut seed(now)));
        match tried {
            Err(SessionError::Store(
                StoreError::Unavailable { .. } | StoreError::Busy { .. } | StoreError::Full { .. },
            )) if start.elapsed() < COMMIT_PATIENCE && !setting.cancel.is_urgent() => {
                std::thread::sleep(Duration::from_millis(500));
            }
            done => return done,
        }
    }
}

/// The time of a store, with randomness of the operating system's.
pub fn seed(now: Timestamp) -> TimeSeed {
    let mut seed = [0; 32];
    seed[..16].copy_from_slice(uuid::Uuid::new_v4().as_bytes());
    seed[16..].copy_from_slice(uuid::Uuid::new_v4().as_bytes());
    TimeSeed::new(now, seed)
}
