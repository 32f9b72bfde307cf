//! `session run`: one bounded wake of one session, now.

use clap::Args;
use session::{ClaimTarget, Session, SessionStatus};

use super::super::exit::{Exit, Failure};
use super::super::progress::Progress;
use super::super::{executor, signals, telemetry, write_stderr};
use super::requests;
use super::store::{SessionOptions, failure, time_seed};
use super::wake_options::{WakeOptions, stop_in_time};
use crate::render::session::load_open_requests;
use crate::wake::{self, WakeContext};

#[derive(Args, Debug)]
pub struct Run {
    #[command(flatten)]
    session: SessionOptions,
    #[command(flatten)]
    wake: WakeOptions,
    /// Print the events of the run too, one JSON object per line, as they happen
    #[arg(long, requires = "json")]
    events: bool,
}

pub fn run(arguments: &Run) -> Result<Exit, Failure> {
    let Run { session: session_options, wake: options, events } = arguments;
    let executor = executor::start(2)?;
    let named = SessionOptions { store: options.store(&session_options.store), ..session_options.clone() };
    let (store, mut sessions, id) = named.locate()?;
    let mut context = options.context(&store, None, executor.handle())?;
    if *events {
        context.listener = Progress::choose(true, false).listener();
    }
    signals::watch(executor.handle(), &context.cancel)?;
    stop_in_time(&context.cancel)?;
    let session = sessions.session(id).map_err(failure)?;
    check_repository(&session, &options.repository()?)?;
    check(&context, &session)?;
    let mut seed = time_seed(&mut sessions)?;
    let target = ClaimTarget::Session(id);
    let Some(claimed) = sessions.claim(target, &context.lease_terms, &mut seed).map_err(failure)? else {
        write_stderr("nothing to run\n");
        return Ok(Exit::Done);
    };
    let result = wake::wake(&context, &mut sessions, &claimed).map_err(failure)?;
    options.print(&result)?;
    telemetry::send(result.directory.as_deref());
    if !options.json && !options.quiet {
        let session = sessions.session(id).map_err(failure)?;
        let open = load_open_requests(&mut sessions, &session).map_err(failure)?;
        requests::print(&mut std::io::stdout().lock(), &session, &open)?;
    }
    Ok(match result.status {
        SessionStatus::RequiresAction => Exit::Paused,
        _ => result.cause.exit(),
    })
}

/// A session runs with the files of its own repository.
fn check_repository(session: &Session, here: &str) -> Result<(), Failure> {
    match &session.header.repository {
        Some(repository) if repository != here => {
            let message = format!("the session belongs to repository `{repository}`, and this is `{here}`");
            Err(Failure::new(Exit::Usage, message).help("run the command in that repository, or pass --repo"))
        }
        _ => Ok(()),
    }
}

/// Reports a mistake in the files before the claim, so that no message is consumed.
fn check(context: &WakeContext, session: &Session) -> Result<(), Failure> {
    match session.state.status {
        SessionStatus::Idle | SessionStatus::Rescheduling => wake::check(context, session).map_err(|error| {
            Failure::new(error.cause.exit(), error.message)
                .help("no run was started, and the session's messages still wait")
        }),
        SessionStatus::Running | SessionStatus::RequiresAction | SessionStatus::Terminated => Ok(()),
    }
}
