//! The runs that operators start. Each is a separate process with an id that is known before it starts. Their number is
//! limited, and they end with the server.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hyper::{Response, StatusCode};
use rustix::process::{Pid, Signal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Server;
use super::actions::Action;
use super::answer::{self, AnswerBody};
use super::problem::Problem;
use super::start_keys::{KeyError, StartKeys};
use crate::record::store;
use crate::render::diagnostics::clean_text;

/// How long a run may take until it has a log: checks, and what it fetches for them.
const MAX_START_TIME: Duration = Duration::from_secs(120);
const TICK: Duration = Duration::from_millis(50);

/// How much of a process's standard error is stored: the start, which has the first error.
const MAX_ERROR_BYTES: u64 = 16 << 10;

/// A run to start. The fields are those of the options of `fullsend run`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRunBody {
    /// A harness of the repository or the organisation that the server was started for.
    pub harness: String,
    /// The prompt for the agent.
    pub prompt: Option<String>,
    /// Variables that the harness takes. Those of the server's own environment cannot be set.
    #[serde(default)]
    pub vars: BTreeMap<String, String>,
    /// Files for the agent to read.
    #[serde(default)]
    pub inputs: Vec<InputBody>,
    pub model: Option<String>,
    pub runtime: Option<String>,
    /// The most that the model may cost, in US dollars.
    pub max_usd: Option<f64>,
    pub timeout_minutes: Option<u64>,
}

/// A file for the agent.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InputBody {
    /// A file name without a directory.
    pub name: String,
    pub content: String,
}

/// A run that has begun.
#[derive(Debug, Serialize, JsonSchema)]
pub struct StartedRun {
    pub id: String,
}

/// The input of a new run's process.
pub struct RunStart {
    pub id: String,
    pub by: String,
    pub body: NewRunBody,
}

/// The process of a run, and its files, which are removed when it has ended.
pub struct RunChild {
    pub child: Child,
    pub files: tempfile::TempDir,
}

/// A run with an id, and with a process unless it has ended.
pub(super) struct IdentifiedRun {
    pub(super) id: String,
    live: Option<Arc<LiveRun>>,
}

/// The runs that the server started and that have not ended.
pub struct RunStarts {
    max_runs: usize,
    keys: StartKeys,
    is_closing: AtomicBool,
    live: Mutex<BTreeMap<String, Arc<LiveRun>>>,
}

#[derive(Default)]
struct LiveRun(Mutex<LiveState>);

#[derive(Default)]
enum LiveState {
    #[default]
    Starting,
    Running {
        child: Child,
        /// A second signal would end it at once, without its order.
        is_told: bool,
    },
    /// What it wrote to standard error, or why it was not started.
    Ended(String),
}

impl LiveRun {
    fn state(&self) -> MutexGuard<'_, LiveState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the process to end, once. It is not reaped meanwhile, so that the id is still its own.
    fn terminate(&self) {
        if let LiveState::Running { child, is_told } = &mut *self.state()
            && !std::mem::replace(is_told, true)
            && matches!(child.try_wait(), Ok(None))
            && let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw)
        {
            // It fails only when the process has just ended.
            let _gone = rustix::process::kill_process(pid, Signal::TERM);
        }
    }

    /// Whether the process has ended; reaps it.
    fn has_ended(&self) -> bool {
        match &mut *self.state() {
            LiveState::Starting => false,
            LiveState::Running { child, .. } => !matches!(child.try_wait(), Ok(None)),
            LiveState::Ended(_) => true,
        }
    }

    fn problem(&self) -> Option<Problem> {
        let LiveState::Ended(text) = &*self.state() else { return None };
        let why = clean_text(text.trim());
        Some(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "not-started", why))
    }
}

impl RunStarts {
    pub(super) fn new(max_runs: usize, directory: &Path) -> Self {
        Self {
            max_runs,
            keys: StartKeys::new(directory),
            is_closing: AtomicBool::new(false),
            live: Mutex::default(),
        }
    }

    fn live(&self) -> MutexGuard<'_, BTreeMap<String, Arc<LiveRun>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many have not ended.
    pub fn count(&self) -> usize {
        self.live().len()
    }

    /// Starts no more runs, and asks all to shut down. Called again, it asks those that have started since.
    pub fn close(&self) {
        self.is_closing.store(true, Ordering::SeqCst);
        self.live().values().for_each(|live| live.terminate());
    }

    /// The run with this id. It must be started if a slot comes with it.
    fn enter(self: &Arc<Self>, id: &str) -> Result<(Arc<LiveRun>, Option<Slot>), Problem> {
        let mut all = self.live();
        if let Some(live) = all.get(id) {
            return Ok((Arc::clone(live), None));
        }
        if self.is_closing.load(Ordering::SeqCst) {
            let why = "the server ends";
            return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "closing", why));
        }
        if all.len() >= self.max_runs {
            let why =
                format!("{} runs are running, the most that this server allows; try again later", all.len());
            return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "too-many-runs", why));
        }
        let live = Arc::<LiveRun>::default();
        all.insert(id.to_owned(), Arc::clone(&live));
        let slot = Slot {
            starts: Arc::clone(self),
            id: id.to_owned(),
            live: Arc::clone(&live),
            text: "the run could not be started".to_owned(),
        };
        Ok((live, Some(slot)))
    }
}

/// The slot of a running run. Dropping it frees the slot, also after an error.
struct Slot {
    starts: Arc<RunStarts>,
    id: String,
    live: Arc<LiveRun>,
    /// The message about the end.
    text: String,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let ended = LiveState::Ended(std::mem::take(&mut self.text));
        if let LiveState::Running { mut child, .. } = std::mem::replace(&mut *self.live.state(), ended)
            && matches!(child.try_wait(), Ok(None))
        {
            // Nobody follows it any more.
            drop(child.kill());
            drop(child.wait());
        }
        self.starts.live().remove(&self.id);
    }
}

impl Slot {
    /// Follows the process on a thread of its own until it ends. Without a thread it ends now.
    fn follow(self, process: RunChild) {
        let RunChild { mut child, files } = process;
        let errors = child.stderr.take();
        *self.live.state() = LiveState::Running { child, is_told: false };
        let mut slot = self;
        let follow = move || {
            let slot = &mut slot;
            let mut text = Vec::new();
            if let Some(mut errors) = errors {
                drop(errors.by_ref().take(MAX_ERROR_BYTES).read_to_end(&mut text));
                // A process whose standard error nobody reads would block.
                drop(std::io::copy(&mut errors, &mut std::io::sink()));
            }
            while !slot.live.has_ended() {
                std::thread::sleep(TICK);
            }
            slot.text = String::from_utf8_lossy(&text).into_owned();
            drop(files);
        };
        drop(std::thread::Builder::new().name("started run".to_owned()).spawn(follow));
    }
}

pub(super) async fn start(action: &Action<'_>, body: NewRunBody) -> Result<Response<AnswerBody>, Problem> {
    let begun = action.server.begin_run(&action.caller.name, action.key.clone(), body).await?;
    let id = action.server.wait_until_begun(begun).await?;
    Ok(answer::created_at(&format!("/v1/runs/{id}"), &StartedRun { id }))
}

impl Server {
    /// Starts the process of a run. The same key starts one run.
    pub(super) async fn begin_run(
        self: &Arc<Self>,
        by: &str,
        key: Option<String>,
        body: NewRunBody,
    ) -> Result<IdentifiedRun, Problem> {
        let by = by.to_owned();
        let begun = self.blocking(move |server| {
            let id = server.run_id(&by, key.as_deref(), &body)?;
            if store::with_id(&server.runs, &id).is_some() {
                return Ok(IdentifiedRun { id, live: None });
            }
            let (live, slot) = server.starts.enter(&id)?;
            if let Some(mut slot) = slot {
                let start = RunStart { id: id.clone(), by, body };
                match (server.backend.start_run)(&start) {
                    Ok(process) => slot.follow(process),
                    Err(why) => slot.text = why,
                }
            }
            Ok(IdentifiedRun { id, live: Some(live) })
        });
        begun.await
    }

    fn run_id(&self, by: &str, key: Option<&str>, body: &NewRunBody) -> Result<String, Problem> {
        let Some(key) = key else { return Ok(uuid::Uuid::now_v7().to_string()) };
        let body = serde_json::to_vec(body).unwrap_or_default();
        self.starts.keys.run_id(by, key, &body).map_err(|error| match error {
            KeyError::Reused => Problem::refused("the `Idempotency-Key` was used before, with another body"),
            KeyError::Disk(error) => Problem::internal(format!("the key cannot be stored: {error}")),
        })
    }

    /// A run has started when it has a log: from then on it can be read and followed.
    pub(super) async fn wait_until_begun(self: &Arc<Self>, begun: IdentifiedRun) -> Result<String, Problem> {
        let IdentifiedRun { id, live } = begun;
        let Some(live) = live else { return Ok(id) };
        let deadline = Instant::now() + MAX_START_TIME;
        loop {
            // Check this first: a run that has ended may have started before.
            let problem = live.problem();
            let wanted = id.clone();
            let found = self.blocking(move |server| Ok(store::with_id(&server.runs, &wanted).is_some()));
            match problem {
                _ if found.await? => return Ok(id),
                Some(problem) => return Err(problem),
                None if Instant::now() > deadline => {
                    live.terminate();
                    let why = format!("the run did not start within {} seconds", MAX_START_TIME.as_secs());
                    return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not-begun", why));
                }
                None => tokio::time::sleep(TICK).await,
            }
        }
    }
}
