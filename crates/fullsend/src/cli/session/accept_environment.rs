//! `session accept-environment`: moves a session to its environment as it is now. Until a person does so, a session whose
//! environment changed is not woken.

use std::io::Write;

use clap::Args;
use serde_json::json;

use super::super::configuration::ConfigurationOptions;
use super::super::exit::{Exit, Failure};
use super::create::digested;
use super::store::{SessionOptions, failure, time_seed};

#[derive(Args, Debug)]
pub struct AcceptEnvironment {
    #[command(flatten)]
    session: SessionOptions,
    #[command(flatten)]
    configuration: ConfigurationOptions,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn accept_environment(arguments: &AcceptEnvironment) -> Result<Exit, Failure> {
    let (mut sessions, id) = arguments.session.open()?;
    let session = sessions.session(id).map_err(failure)?;
    let known = session.environment().ok_or_else(|| {
        Failure::new(Exit::Usage, "the session has no environment")
            .help("`session create --environment` sets one")
    })?;
    let environment = digested(&mut arguments.configuration.open()?, &known.id)?;
    let mut seed = time_seed(&mut sessions)?;
    sessions.accept_environment(id, &environment, &mut seed).map_err(failure)?;
    let mut out = std::io::stdout().lock();
    if arguments.json {
        writeln!(out, "{}", json!({ "id": id, "environment": environment }))?;
    } else {
        writeln!(out, "{id} runs in {} ({}) from now on", environment.id, environment.digest)?;
    }
    Ok(Exit::Done)
}
