//! `runs export`: a run as one HTML page, or in a format that other programs read.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::super::configuration::variable;
use super::super::exit::{Exit, Failure};
use super::patch::{has_workflow_command, is_read_by_ci};
use super::{Named, find, unreadable};
use crate::event::{Envelope, log};
use crate::record::conversation;
use crate::record::page::RunPage;
use crate::record::store::StoredRun;
use crate::render::otlp::{self, BatchLimit};
use crate::render::workflow_commands::neutralise_json;
use crate::render::{atif, junit, page, run_findings};
use crate::telemetry::settings;

#[derive(Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    run: Named,
    #[command(flatten)]
    formats: Formats,
}

/// Each names a file; `-` is standard output.
#[derive(Args, Debug)]
#[group(required = true, multiple = true)]
struct Formats {
    /// Write one HTML file that shows the run; it needs no network
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the data of the page as JSON; `fullsend schema page` describes it
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write JUnit XML: the run, its steps, attempts and scripts as tests
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write the findings as SARIF 2.1.0
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,
    /// Write the findings as a code quality report of GitLab
    #[arg(long, value_name = "FILE")]
    code_quality: Option<PathBuf>,
    /// Write OpenTelemetry spans in OTLP's JSON form, below TRACEPARENT if it is set
    #[arg(long, value_name = "FILE")]
    otlp: Option<PathBuf>,
    /// Write the conversation as a trajectory in the Agent Trajectory Interchange Format (ATIF 1.7)
    #[arg(long, value_name = "FILE")]
    atif: Option<PathBuf>,
}

pub fn run(runs: &Path, arguments: &Arguments) -> Result<Exit, Failure> {
    let run = find(runs, &arguments.run.run)?;
    let formats = &arguments.formats;
    if formats.html.is_some() || formats.json.is_some() {
        let page = RunPage::load(&run).map_err(|error| unreadable(&error))?;
        write(formats.html.as_deref(), || page::html(&page))?;
        write(formats.json.as_deref(), || line(&page))?;
    }
    let events = log::read(&run.log()).map_err(|error| unreadable(&error))?;
    write(formats.junit.as_deref(), || junit::document(&events))?;
    write(formats.sarif.as_deref(), || line(&run_findings::sarif_log(&events)))?;
    write(formats.code_quality.as_deref(), || line(&run_findings::code_quality(&events)))?;
    write_spans(formats.otlp.as_deref(), &run, &events)?;
    write_trajectory(formats.atif.as_deref(), &run, &events)?;
    Ok(Exit::Done)
}

fn write_trajectory(path: Option<&Path>, run: &StoredRun, events: &[Envelope]) -> Result<(), Failure> {
    if path.is_none() {
        return Ok(());
    }
    let trajectory = atif::trajectory(events, &conversation::load(&run.path)).ok_or_else(|| {
        let why = format!("the run {} has no conversation, and a trajectory has at least one step", run.id);
        Failure::new(Exit::Failed, why).help("`fullsend runs show` says how the run ended")
    })?;
    write(path, || line(&trajectory))
}

/// One request with all spans of a run, as the variables of OpenTelemetry want them.
fn write_spans(path: Option<&Path>, run: &StoredRun, events: &[Envelope]) -> Result<(), Failure> {
    if path.is_none() {
        return Ok(());
    }
    let options = settings::options(&variable)
        .map_err(|error| Failure::new(Exit::Usage, format!("cannot export spans: {error}")))?;
    let conversations = conversation::load(&run.path);
    let requests = otlp::traces(events, &conversations, &options, BatchLimit::NONE);
    write(path, || requests.iter().map(line).collect())
}

fn line(value: &impl Serialize) -> String {
    format!("{}\n", neutralise_json(&serde_json::to_string(value).unwrap_or_default()))
}

/// A run may hold what only its owner should read: the file is private, like the run.
fn write(path: Option<&Path>, text: impl FnOnce() -> String) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    let text = text();
    if path == Path::new("-") {
        let mut out = std::io::stdout().lock();
        if is_read_by_ci(&out)? && has_workflow_command(text.as_bytes()) {
            let message = "the run has text that this CI would take for a command";
            return Err(Failure::new(Exit::Security, message).help("write it to a file instead of `-`"));
        }
        out.write_all(text.as_bytes())?;
        return Ok(());
    }
    let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| {
        Failure::new(Exit::Failed, format!("cannot write {}: {error}", path.display()))
            .help("name a file in a directory that you can write")
    })
}
