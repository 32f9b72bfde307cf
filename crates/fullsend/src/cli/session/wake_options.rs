//! What `session run` and `worker` share: the options of a wake, its wake context, and how its result is printed.

use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use session::{LeaseTerms, SessionHeader, SessionLimits};

use super::super::configuration::ConfigurationOptions;
use super::super::exit::{Exit, Failure};
use super::super::lock_options::LockOptions;
use super::super::pull_options::PullOptions;
use super::super::run::{environment, forbid_core_dumps, runs_directory};
use super::super::write_stderr;
use super::default_store::state_directory;
use super::repository::repository_id;
use super::store::StoreOptions;
use crate::cancel::Cancel;
use crate::git::checkout::{Checkout, Checkouts};
use crate::render::console::Console;
use crate::render::diagnostics::clean_text;
use crate::render::workflow_commands::neutralise_json;
use crate::wake::conversation::EarlierConversations;
use crate::wake::prepare::{LayerSnapshot, PrepareError};
use crate::wake::{WakeContext, WakeResult};

/// How long a lease lasts unless it is renewed. The lease keeper renews it after a third of that time.
const LEASE_SECONDS: u64 = 30;

#[derive(Args, Debug, Clone)]
pub struct WakeOptions {
    /// Store runs in this directory [default: $XDG_STATE_HOME/fullsend/runs]
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// Print JSON, one object per wake
    #[arg(long)]
    pub json: bool,
    /// Print only errors
    #[arg(long, short)]
    pub quiet: bool,
    /// Seconds after which a silent worker loses its lease
    #[arg(long, value_name = "SECONDS", hide = true, default_value_t = LEASE_SECONDS)]
    lease_seconds: u64,
    #[command(flatten)]
    pull: PullOptions,
    #[command(flatten)]
    lock: LockOptions,
    #[command(flatten)]
    configuration: ConfigurationOptions,
}

/// The longest call of the store during a wake.
const MAX_CALL: Duration = Duration::from_secs(10);

/// How long a process that was asked to stop may take. A wake that is not committed then is retried by another worker.
const STOP_GRACE: Duration = Duration::from_secs(25);

/// Ends the process in time after the first signal, even if a store or a sandbox hangs. The sandbox ends with the process.
pub fn stop_in_time(cancel: &Cancel) -> Result<(), Failure> {
    let cancel = cancel.clone();
    let watch = move || {
        let mut asked_at: Option<Instant> = None;
        loop {
            std::thread::sleep(Duration::from_millis(100));
            if cancel.is_cancelled() && asked_at.get_or_insert_with(Instant::now).elapsed() >= STOP_GRACE {
                write_stderr("the work did not end in time; stopping\n");
                end_process();
            }
        }
    };
    let thread = std::thread::Builder::new().name("stop-watchdog".to_owned()).spawn(watch);
    thread.map(drop).map_err(|error| Failure::new(Exit::Bug, format!("cannot start a thread: {error}")))
}

#[expect(clippy::exit, reason = "the orderly end hangs")]
fn end_process() -> ! {
    std::process::exit(i32::from(Exit::Terminated.code()))
}

/// The commits that a wake uses: the one that it works on, and that of the default branch, if it is another. They stay while this
/// value exists.
struct WakeCheckouts {
    worked_on: Checkout,
    default_branch: Option<Checkout>,
}

impl WakeCheckouts {
    fn open(checkouts: &Checkouts, header: &SessionHeader) -> Result<Self, PrepareError> {
        let repository = header.repository.as_deref().unwrap_or_default();
        let open = |reference: Option<&str>| {
            checkouts.open(repository, reference).map_err(|error| match error.is_transient() {
                true => PrepareError::transient(error.to_string()),
                false => PrepareError::missing(error.to_string()),
            })
        };
        let default_branch = header.reference.is_some().then(|| open(None)).transpose()?;
        Ok(Self { worked_on: open(header.reference.as_deref())?, default_branch })
    }

    /// The harness comes from the default branch, because a change on another branch must not change what runs.
    fn choose(&self, configuration: &mut ConfigurationOptions) {
        configuration.repo = Some(self.worked_on.directory.clone());
        if let Some(default_branch) = &self.default_branch {
            configuration.fullsend_dir = Some(default_branch.directory.join(".fullsend"));
            configuration.config_ref = Some("worktree".to_owned());
        }
    }
}

/// The files of this machine are at whatever commit they are at.
fn needs_checkout(header: &SessionHeader) -> Result<(), PrepareError> {
    header.reference.as_ref().map_or(Ok(()), |reference| {
        Err(PrepareError::missing(format!(
            "it works on `{reference}`, which only a worker with --checkout fetches"
        )))
    })
}

impl WakeOptions {
    /// The store, if none is named: that of the repository.
    pub fn store(&self, named: &StoreOptions) -> StoreOptions {
        named.of(&self.configuration)
    }

    pub fn context(
        &self,
        store: &StoreOptions,
        checkouts: Option<Arc<Checkouts>>,
        executor: &tokio::runtime::Handle,
    ) -> Result<WakeContext, Failure> {
        forbid_core_dumps()?;
        let runs = self.output_dir.clone().map_or_else(runs_directory, Ok)?;
        for problem in crate::run::sweep::sweep(&runs).problems {
            write_stderr(&format!("warning: cannot clean up after an earlier run: {problem}\n"));
        }
        let configuration = self.configuration.clone();
        let pull = self.pull.mode();
        let lock = self.lock;
        let store = store.clone();
        let quiet = self.quiet || self.json;
        let call_timeout = Duration::from_millis(self.lease_seconds * 1_000 / 3).min(MAX_CALL);
        let console = Mutex::new(Console::default());
        Ok(WakeContext {
            open: Arc::new(move |header| {
                let mut configuration = configuration.clone();
                let opened = checkouts.as_ref().map(|checkouts| WakeCheckouts::open(checkouts, header));
                let checkout = opened.transpose()?;
                match &checkout {
                    Some(checkout) => checkout.choose(&mut configuration),
                    None => needs_checkout(header)?,
                }
                let opened = configuration.open();
                let mut opened = opened.map_err(|failure| PrepareError::invalid(failure.message))?;
                opened.choices.pull = pull;
                lock.choose(&mut opened.choices);
                let (library, choices, repository, guard) = opened.into_parts();
                Ok(LayerSnapshot { library, choices, repository, guard: Box::new((guard, checkout)) })
            }),
            // A call ends long before the lease does.
            connect: Arc::new(move || store.open_within(call_timeout).map_err(|failure| failure.message)),
            runs,
            signer: super::super::signing::signer(None, &environment())?.map(Arc::new),
            earlier_conversations: EarlierConversations(state_directory()?.join("sessions")),
            environment: environment(),
            executor: executor.clone(),
            listener: Arc::new(move |envelope| {
                let line = console.lock().unwrap_or_else(PoisonError::into_inner).line(envelope);
                if let Some(line) = line.filter(|_| !quiet) {
                    write_stderr(&format!("{}\n", clean_text(&line)));
                }
            }),
            // Every process start has its own owner name.
            lease_terms: LeaseTerms {
                owner: uuid::Uuid::now_v7().to_string(),
                lease_ms: self.lease_seconds * 1_000,
            },
            limits: SessionLimits::default(),
            cancel: Cancel::default(),
        })
    }

    /// The repository whose sessions this process runs.
    pub fn repository(&self) -> Result<String, Failure> {
        Ok(repository_id(&self.configuration.repository()?))
    }

    pub fn print(&self, result: &WakeResult) -> Result<(), Failure> {
        let mut out = std::io::stdout().lock();
        let outcome = result.cause.outcome().as_str();
        if self.json {
            let line = json!({
                "session": result.session, "wake": result.wake, "status": result.status, "outcome": outcome,
                "exit_code": result.cause.exit().code(), "reason": result.reason, "response": result.response,
                "run": result.directory,
            });
            writeln!(out, "{}", neutralise_json(&line.to_string()))?;
        } else if !self.quiet {
            let reason =
                if result.reason.is_empty() { String::new() } else { format!(": {}", result.reason) };
            let line = format!("{} {} ({outcome}){reason}", result.session, result.status);
            writeln!(out, "{}", clean_text(&line))?;
            if !result.response.is_empty() {
                writeln!(out, "{}", clean_text(&result.response))?;
            }
        }
        Ok(())
    }
}
