//! `fullsend worker`: runs the wakes of sessions as they become due. Many workers can share a store.

use std::sync::Arc;

use clap::Args;
use session::{ClaimFilter, ClaimedWake, Session, SessionError, Sessions, StoreError, WorkerDescription};

use super::checkout_options::CheckoutOptions;
use super::exit::{Exit, Failure};
use super::session::store::StoreOptions;
use super::session::wake_options::{WakeOptions, stop_in_time};
use super::{executor, signals, telemetry, write_stderr};
use crate::wake;
use crate::worker::{self, WorkUntil, WorkerPlan};

#[derive(Args, Debug)]
#[command(
    after_help = "Example: fullsend worker --concurrency 4\n\nA fleet that serves many repositories:\n  \
                        fullsend worker --store postgres://sessions.example/fullsend --checkout https://github.com/acme"
)]
pub struct Arguments {
    /// Run this many wakes at once
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    concurrency: u16,
    /// Run one due wake, if there is one, and exit
    #[arg(long, conflicts_with_all = ["drain", "watch"])]
    once: bool,
    /// Run due wakes until none is left, and exit
    #[arg(long, conflicts_with = "watch")]
    drain: bool,
    /// Run wakes as they become due until the worker is stopped; this is the default
    #[arg(long)]
    watch: bool,
    /// Run only sessions of this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Also run sessions with this label; can be repeated. A session runs where all its labels are served
    #[arg(long, value_name = "LABEL")]
    label: Vec<String>,
    #[command(flatten)]
    checkout: CheckoutOptions,
    #[command(flatten)]
    store: StoreOptions,
    #[command(flatten)]
    wake: WakeOptions,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let options = arguments.wake.clone();
    let executor = executor::start(2)?;
    let store = options.store(&arguments.store);
    let checkouts = arguments.checkout.checkouts(&arguments.store)?.map(Arc::new);
    let context = options.context(&store, checkouts.clone(), executor.handle())?;
    signals::watch(executor.handle(), &context.cancel)?;
    stop_in_time(&context.cancel)?;
    // Report a store that cannot be opened at once.
    drop(store.open()?);
    store.probe_objects()?;
    let filter = ClaimFilter {
        repository: if checkouts.is_some() { None } else { Some(options.repository()?) },
        repository_prefixes: checkouts.as_ref().map(|checkouts| checkouts.prefixes()),
        agent: arguments.agent.clone(),
        labels: Some(arguments.label.clone()),
        skip: Vec::new(),
    };
    let repositories = filter.repository.iter().chain(filter.repository_prefixes.iter().flatten());
    let description = WorkerDescription {
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        repositories: repositories.cloned().collect(),
        agent: arguments.agent.clone(),
        labels: arguments.label.clone(),
        concurrency: arguments.concurrency,
    };
    let check_context = context.clone();
    let plan = WorkerPlan {
        concurrency: usize::from(arguments.concurrency),
        until: match (arguments.once, arguments.drain) {
            (true, _) => WorkUntil::Once,
            (_, true) => WorkUntil::Drained,
            _ => WorkUntil::Cancelled,
        },
        filter,
        can_run: Arc::new(move |session: &Session| {
            wake::check(&check_context, session).map_err(|error| error.message)
        }),
        lease_terms: context.lease_terms.clone(),
        description,
        connect: Arc::clone(&context.connect),
        cancel: context.cancel.clone(),
        run_wake: Arc::new(move |sessions: &mut Sessions, claimed: &ClaimedWake| {
            match wake::wake(&context, sessions, claimed) {
                Ok(result) => {
                    drop(options.print(&result));
                    telemetry::send(result.directory.as_deref());
                }
                Err(error) => {
                    let session = claimed.lease.session;
                    write_stderr(&format!(
                        "warning: a wake of session {session} was not committed: {error}\n"
                    ));
                    if let SessionError::Store(StoreError::Corrupt { session: Some(damaged), .. }) = error {
                        drop(sessions.mark_unreadable(damaged));
                    }
                }
            }
        }),
        time_seed: wake::time_seed,
        warn: Arc::new(|message| write_stderr(&format!("warning: {message}\n"))),
    };
    let count = worker::work(&plan).map_err(|message| Failure::new(Exit::Missing, message))?;
    if !arguments.wake.quiet && !arguments.wake.json {
        write_stderr(&format!("{count} wake{}\n", if count == 1 { "" } else { "s" }));
    }
    Ok(Exit::Done)
}
