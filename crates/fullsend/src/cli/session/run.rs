//! `session run` and `worker`: what a wake needs from the machine around it, and how it is told to people.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde_json::json;

use super::super::configuration::ConfigurationOptions;
use super::super::exit::{Exit, Failure};
use super::super::run::{environment, runs_directory};
use super::super::{signals, talk};
use super::requests;
use super::store::{SessionArguments, StoreArguments, failure, moment, state_directory};
use crate::cancel::Cancel;
use crate::render::console;
use crate::render::diagnostics::clean_text;
use crate::wake::conversation::Conversations;
use crate::wake::prepare::LayerSnapshot;
use crate::wake::{self, WakeContext, WakeResult};
use crate::worker::{self, WorkUntil, WorkerPlan};
use session::{
    ClaimTarget, ClaimedWake, LeaseTerms, Session, SessionError, SessionLimits, SessionStatus, Sessions,
};

/// How long a lease lasts unless it is renewed, which it is three times as often.
const LEASE_MS: u64 = 30_000;

#[derive(Args, Debug)]
pub struct Run {
    #[command(flatten)]
    one: SessionArguments,
    #[command(flatten)]
    around: WakeArguments,
}

#[derive(Args, Debug)]
pub struct WorkerArguments {
    /// How many wakes at once
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    concurrency: u16,
    /// Run one due wake, if there is one, and end
    #[arg(long, conflicts_with_all = ["drain", "watch"])]
    once: bool,
    /// Run what is due until nothing is, and end
    #[arg(long, conflicts_with = "watch")]
    drain: bool,
    /// Run what comes due until somebody ends it, which is what it does anyway
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    place: StoreArguments,
    #[command(flatten)]
    around: WakeArguments,
}

/// Where wakes run.
#[derive(Args, Debug, Clone)]
struct WakeArguments {
    /// Where runs are kept [default: $XDG_STATE_HOME/fullsend/runs]
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// Print JSON, one object for each wake
    #[arg(long)]
    json: bool,
    /// Say nothing but errors
    #[arg(long, short)]
    quiet: bool,
    /// Seconds until a worker that is not heard of is given up
    #[arg(long, value_name = "SECONDS", hide = true, default_value_t = LEASE_MS / 1_000)]
    lease_seconds: u64,
    #[command(flatten)]
    layers: ConfigurationOptions,
}

/// One bounded wake now, with the exit code of its run, or 10 if it waits for an answer.
pub fn run(arguments: &Run) -> Result<Exit, Failure> {
    let Run { one, around } = arguments;
    let threads = threads()?;
    let setting = setting(around, &one.place, threads.handle())?;
    signals::watch(threads.handle(), &setting.cancel)?;
    let mut sessions = one.place.open()?;
    check(&setting, &sessions.session(one.id).map_err(failure)?)?;
    let mut moment = moment(&mut sessions)?;
    let claimed =
        sessions.claim(ClaimTarget::Session(one.id), &setting.worker, &mut moment).map_err(failure)?;
    let Some(claimed) = claimed else {
        talk("nothing ran\n");
        return Ok(Exit::Done);
    };
    let woken = wake::wake(&setting, &mut sessions, &claimed).map_err(failure)?;
    tell(&woken, around)?;
    if !around.json && !around.quiet {
        let session = sessions.session(one.id).map_err(failure)?;
        let asked = requests::open(&mut sessions, &session).map_err(failure)?;
        requests::tell(&mut std::io::stdout().lock(), &session, &asked)?;
    }
    Ok(match woken.status {
        SessionStatus::RequiresAction => Exit::Paused,
        _ => woken.cause.exit(),
    })
}

/// A mistake in the files costs no message: whoever wakes a session by hand hears of it before anything is claimed.
fn check(setting: &WakeContext, session: &Session) -> Result<(), Failure> {
    match session.state.status {
        SessionStatus::Idle | SessionStatus::Rescheduling => {
            wake::check(setting, &session.header).map_err(|trouble| {
                Failure::new(trouble.cause.exit(), trouble.message)
                    .help("nothing was done, and what was sent still waits")
            })
        }
        SessionStatus::Running | SessionStatus::RequiresAction | SessionStatus::Terminated => Ok(()),
    }
}

pub fn work(arguments: &WorkerArguments) -> Result<Exit, Failure> {
    let WorkerArguments { concurrency, place, around, .. } = arguments;
    let threads = threads()?;
    let setting = setting(around, place, threads.handle())?;
    signals::watch(threads.handle(), &setting.cancel)?;
    // A store that cannot be used at all is said at once.
    drop(place.open()?);
    let (perform, shown) = (setting.clone(), around.clone());
    let plan = WorkerPlan {
        concurrency: usize::from(*concurrency),
        until: match (arguments.once, arguments.drain) {
            (true, _) => WorkUntil::Once,
            (_, true) => WorkUntil::Drained,
            _ => WorkUntil::Ended,
        },
        worker: setting.worker.clone(),
        connect: Arc::clone(&setting.connect),
        perform: Arc::new(move |sessions: &mut Sessions, claimed: &ClaimedWake| {
            match wake::wake(&perform, sessions, claimed) {
                Ok(woken) => drop(tell(&woken, &shown)),
                Err(error) => talk(&lost(claimed, &error)),
            }
        }),
        moment: wake::seed,
        complain: Arc::new(|what| talk(&format!("warning: {what}\n"))),
        cancel: setting.cancel.clone(),
    };
    let count = worker::work(&plan).map_err(|message| Failure::new(Exit::Missing, message))?;
    if !around.quiet && !around.json {
        talk(&format!("{count} wake{}\n", if count == 1 { "" } else { "s" }));
    }
    Ok(Exit::Done)
}

fn lost(claimed: &ClaimedWake, error: &SessionError) -> String {
    format!("warning: a wake of session {} was not committed: {error}\n", claimed.lease.session)
}

fn threads() -> Result<tokio::runtime::Runtime, Failure> {
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    threads.map_err(|error| Failure::new(Exit::Bug, format!("no threads: {error}")))
}

fn setting(
    around: &WakeArguments,
    place: &StoreArguments,
    runtime: &tokio::runtime::Handle,
) -> Result<WakeContext, Failure> {
    let runs = around.output_dir.clone().map_or_else(runs_directory, Ok)?;
    for problem in crate::run::sweep::sweep(&runs).problems {
        talk(&format!("warning: an earlier run could not be swept: {problem}\n"));
    }
    let (layers, place, quiet) = (around.layers.clone(), place.clone(), around.quiet || around.json);
    Ok(WakeContext {
        open: Arc::new(move || {
            let opened = layers.open().map_err(|failure| failure.message)?;
            let (library, choices, repository, kept) = opened.into_parts();
            Ok(LayerSnapshot { library, choices, repository, kept })
        }),
        connect: Arc::new(move || place.open().map_err(|failure| failure.message)),
        runs,
        conversations: Conversations(state_directory()?.join("sessions")),
        environment: environment(),
        runtime: runtime.clone(),
        listener: Arc::new(move |envelope| {
            if !quiet && let Some(line) = console::line(envelope) {
                talk(&format!("{line}\n"));
            }
        }),
        // No other process start has this name.
        worker: LeaseTerms {
            owner: uuid::Uuid::now_v7().to_string(),
            lease_ms: around.lease_seconds * 1_000,
        },
        limits: SessionLimits::default(),
        cancel: Cancel::default(),
    })
}

fn tell(woken: &WakeResult, around: &WakeArguments) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    if around.json {
        let line = json!({
            "session": woken.session, "wake": woken.wake, "status": woken.status, "outcome": woken.cause.outcome().as_str(),
            "exit_code": woken.cause.exit().code(), "reason": woken.reason, "response": woken.response, "run": woken.directory,
        });
        writeln!(out, "{line}")?;
    } else if !around.quiet {
        let reason = if woken.reason.is_empty() { String::new() } else { format!(": {}", woken.reason) };
        writeln!(out, "{} {} ({}){reason}", woken.session, woken.status, woken.cause.outcome().as_str())?;
        if !woken.response.is_empty() {
            writeln!(out, "{}", clean_text(&woken.response))?;
        }
    }
    Ok(())
}
