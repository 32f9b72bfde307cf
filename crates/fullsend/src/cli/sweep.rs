//! `fullsend sweep`: removes what dead runs left behind, and completes their records. Every `fullsend run` does it too.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::exit::{Exit, Failure};
use crate::lasting::directory::{LASTING, LastingDirectory};
use crate::provision::policy_sandbox;
use crate::run::sweep;

#[derive(Args, Debug)]
pub struct Arguments {
    /// Read runs from this directory [default: $XDG_STATE_HOME/fullsend/runs]
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let runs = arguments.output_dir.clone().map_or_else(super::run::runs_directory, Ok)?;
    let swept = sweep::sweep(&runs);
    let mut problems = swept.problems;
    // Sandboxes that had no run are beside our own runs, and nowhere else.
    if arguments.output_dir.is_none() {
        match sandbox::sweep(&runs.with_file_name(policy_sandbox::SANDBOXES)) {
            Ok(policy_sandbox) => {
                let failed =
                    policy_sandbox.failed.iter().map(|(path, error)| format!("{}: {error}", path.display()));
                problems.extend(failed);
            }
            Err(error) => problems.push(error.to_string()),
        }
        match LastingDirectory::open(&runs.with_file_name(LASTING)) {
            Ok(lasting) => problems.extend(lasting.sweep()),
            Err(error) => problems.push(error.to_string()),
        }
    }
    let mut out = std::io::stdout().lock();
    for directory in &swept.ended {
        if arguments.json {
            writeln!(out, "{}", json!({ "ended": directory.display().to_string() }))?;
        } else {
            writeln!(out, "ended {}", directory.display())?;
        }
    }
    if problems.is_empty() {
        return Ok(Exit::Done);
    }
    Err(Failure::new(Exit::Failed, problems.join("; ")))
}
