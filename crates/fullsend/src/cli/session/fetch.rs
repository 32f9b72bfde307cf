//! `session fetch`: the directories of a session's runs, from its store. A worker stores them after each wake, so that another
//! machine can show them.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::super::exit::{Exit, Failure};
use super::super::run::runs_directory;
use super::store::{SessionOptions, failure};
use crate::wake::run_bundle;

#[derive(Args, Debug)]
pub struct Fetch {
    #[command(flatten)]
    session: SessionOptions,
    /// Fetch only these runs
    #[arg(value_name = "RUN")]
    runs: Vec<String>,
    /// Write the runs to this directory [default: $XDG_STATE_HOME/fullsend/runs]
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// Print JSON, one object per run
    #[arg(long)]
    json: bool,
}

pub fn fetch(arguments: &Fetch) -> Result<Exit, Failure> {
    let (mut sessions, id) = arguments.session.open()?;
    let directory = arguments.output_dir.clone().map_or_else(runs_directory, Ok)?;
    let all = run_bundle::stored_runs(&mut sessions, id).map_err(failure)?;
    let wanted = if arguments.runs.is_empty() { &all } else { &arguments.runs };
    let mut out = std::io::stdout().lock();
    for run in wanted {
        let fetched = run_bundle::fetch(&mut sessions, id, run, &directory).map_err(failure)?;
        let path = fetched.ok_or_else(|| {
            Failure::new(Exit::Missing, format!("the store has no bundle of run {run}"))
                .help("`fullsend session events` names the runs of a session; the store keeps the last 50")
        })?;
        if arguments.json {
            writeln!(out, "{}", json!({ "run": run, "directory": path }))?;
        } else {
            writeln!(out, "{}", path.display())?;
        }
    }
    Ok(Exit::Done)
}
