//! `session workers`: the workers that wait for due sessions of a store.

use std::io::Write;

use clap::Args;

use super::super::exit::{Exit, Failure};
use super::super::write_stderr;
use super::store::{StoreOptions, failure};
use crate::event::clock::Moment;
use crate::render::diagnostics::clean_text;
use crate::render::session::WorkerSummary;
use crate::render::workflow_commands::neutralise_json;

#[derive(Args, Debug)]
pub struct Workers {
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreOptions,
}

pub fn workers(arguments: &Workers) -> Result<Exit, Failure> {
    let workers = arguments.store.open()?.workers().map_err(failure)?;
    let mut out = std::io::stdout().lock();
    if workers.is_empty() && !arguments.json {
        write_stderr("no worker waits for sessions of this store; `fullsend worker` starts one\n");
    }
    for worker in workers.into_iter().map(WorkerSummary::from) {
        if arguments.json {
            let line = serde_json::to_string(&worker).unwrap_or_default();
            writeln!(out, "{}", neutralise_json(&line))?;
        } else {
            writeln!(out, "{}", clean_text(&line(&worker)))?;
        }
    }
    Ok(Exit::Done)
}

fn line(worker: &WorkerSummary) -> String {
    let seen = Moment::from_millis(u64::try_from(worker.seen_ms).unwrap_or(0)).rfc3339();
    let agent = worker.agent.iter().map(|agent| format!(" agent {agent}"));
    let labels = worker.labels.iter().map(|label| format!(" label {label}"));
    let only: String = agent.chain(labels).collect();
    format!("{} {seen} {} {}{only}", worker.name, worker.host, worker.repositories.join(" "))
}
