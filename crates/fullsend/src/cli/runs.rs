//! `fullsend runs`: lists, shows, applies, verifies and removes recorded runs.

mod cancel;
mod cost;
mod export;
mod list;
mod logs;
mod open;
mod patch;
mod transcript;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;

use super::always_json::AlwaysJson;
use super::changed_files::changed_files;
use super::exit::{Exit, Failure};
use super::local_time::time_zone;
use crate::event::log;
use crate::record::dsse::PublicKey;
use crate::record::store::{self, StoredRun};
use crate::record::{provenance, statement, verify};
use crate::render::report;
use crate::render::workflow_commands::neutralise_json;

#[derive(Args, Debug)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Read runs from this directory [default: $XDG_STATE_HOME/fullsend/runs]
    #[arg(long, value_name = "DIR", global = true)]
    output_dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the runs, newest first
    #[command(after_help = "Example:\n  fullsend runs list --harness triage --outcome completed")]
    List(list::Arguments),
    /// Show one run: the agent's last message, changes, timeline, tools, refusals, findings, cost
    #[command(after_help = "Example:\n  fullsend runs show latest")]
    Show {
        #[command(flatten)]
        run: Named,
        /// Print the record as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the events of a run, or one of its files
    #[command(after_help = "Example:\n  fullsend runs logs latest post_script.log")]
    Logs(logs::Arguments),
    /// Print what the agent said and did, attempt by attempt
    #[command(after_help = "Example:\n  fullsend runs transcript latest")]
    Transcript(transcript::Arguments),
    /// Print the agent's changes in the repository as a patch
    #[command(after_help = "Example:\n  fullsend runs diff latest --stat")]
    Diff(patch::DiffArguments),
    /// Apply the agent's accepted changes to a working tree, without committing
    #[command(after_help = "Example:\n  fullsend runs apply latest")]
    Apply(patch::ApplyArguments),
    /// Open the page of a run in the browser: timeline, conversation, changes, refusals, cost
    #[command(after_help = "Example:\n  fullsend runs open latest")]
    Open(open::Arguments),
    /// Write a run as a page, or as a report that other programs read
    #[command(after_help = "Example:\n  fullsend runs export --html run.html latest")]
    Export(export::Arguments),
    /// Add up what the runs cost, by day, harness or repository
    #[command(after_help = "Example:\n  fullsend runs cost --by harness --since 7d")]
    Cost(cost::Arguments),
    /// Cancel a running run; it shuts down cleanly and completes its record
    #[command(after_help = "Example:\n  fullsend runs cancel latest")]
    Cancel {
        #[command(flatten)]
        run: Named,
    },
    /// Remove runs
    #[command(after_help = "Example:\n  fullsend runs rm 0198c2")]
    Rm {
        /// The runs: their ids, or unique prefixes of them
        #[arg(value_name = "RUN", required = true)]
        runs: Vec<String>,
    },
    /// Verify a run: the chain of events, the record, every digest and the signature
    #[command(after_help = "Example:\n  fullsend runs verify latest --key key.pub")]
    Verify {
        #[command(flatten)]
        run: Named,
        /// The public ed25519 key (PEM) that must have signed the run
        #[arg(long, value_name = "PUB")]
        key: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Write signed SLSA provenance for the accepted output of a run
    #[command(after_help = "Example:\n  fullsend runs attest latest --sign key.pem --output provenance.json")]
    Attest(AttestArguments),
}

#[derive(Args, Debug)]
struct AttestArguments {
    #[command(flatten)]
    run: Named,
    /// Sign with this ed25519 key (PKCS#8 PEM), or with `exec:COMMAND` [default: FULLSEND_SIGN_KEY]
    #[arg(long, value_name = "KEY")]
    sign: Option<String>,
    /// Write to this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    always: AlwaysJson,
}

#[derive(Args, Debug)]
struct Named {
    /// The run: its id, a unique prefix of it, or `latest`
    #[arg(value_name = "RUN", default_value = "latest")]
    run: String,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let runs = arguments.output_dir.clone().map_or_else(super::run::runs_directory, Ok)?;
    match &arguments.command {
        Command::List(arguments) => list::run(&runs, arguments),
        Command::Show { run, json } => show(&find(&runs, &run.run)?, *json),
        Command::Logs(arguments) => logs::run(&runs, arguments),
        Command::Transcript(arguments) => transcript::run(&runs, arguments),
        Command::Diff(arguments) => patch::diff(&runs, arguments),
        Command::Apply(arguments) => patch::apply(&runs, arguments),
        Command::Open(arguments) => open::run(&runs, arguments),
        Command::Export(arguments) => export::run(&runs, arguments),
        Command::Cost(arguments) => cost::run(&runs, arguments),
        Command::Cancel { run } => cancel::run(&find(&runs, &run.run)?),
        Command::Rm { runs: names } => remove(&runs, names),
        Command::Verify { run, key, json } => check(&find(&runs, &run.run)?, key.as_deref(), *json),
        Command::Attest(arguments) => attest(&find(&runs, &arguments.run.run)?, arguments),
    }
}

pub fn find(runs: &Path, name: &str) -> Result<StoredRun, Failure> {
    store::find(runs, name).map_err(|error| {
        Failure::new(Exit::Missing, error.to_string()).help("`fullsend runs list` lists the runs")
    })
}

fn show(run: &StoredRun, as_json: bool) -> Result<Exit, Failure> {
    let events = log::read(&run.log()).map_err(|error| unreadable(&error))?;
    let mut out = std::io::stdout().lock();
    if as_json {
        let record = serde_json::to_value(crate::record::fold(&events)).unwrap_or_default();
        writeln!(out, "{}", neutralise_json(&format!("{record:#}")))?;
    } else {
        write!(
            out,
            "{}\n{}\n",
            report::report(&events, &time_zone(), &changed_files(&run.path)),
            run.path.display()
        )?;
    }
    Ok(Exit::Done)
}

fn remove(runs: &Path, names: &[String]) -> Result<Exit, Failure> {
    let found: Vec<StoredRun> = names.iter().map(|name| find(runs, name)).collect::<Result<_, _>>()?;
    for run in &found {
        let failed =
            |why: String| Failure::new(Exit::Failed, format!("cannot remove the run {}: {why}", run.id));
        match run.is_alive() {
            Ok(true) => {
                return Err(failed("it is still running".to_owned()).help("`fullsend runs cancel` stops it"));
            }
            Ok(false) => run.remove().map_err(|error| failed(error.to_string()))?,
            Err(error) => return Err(failed(error.to_string())),
        }
        super::write_stderr(&format!("removed {}\n", run.id));
    }
    Ok(Exit::Done)
}

fn check(run: &StoredRun, key: Option<&Path>, as_json: bool) -> Result<Exit, Failure> {
    let key = key.map(PublicKey::load).transpose();
    let key = key.map_err(|error| Failure::new(Exit::Missing, error.to_string()))?;
    let problems = verify::verify(run, key.as_ref());
    let mut out = std::io::stdout().lock();
    if as_json {
        let signed_by = key.as_ref().filter(|_| problems.is_empty()).map(PublicKey::id);
        let answer = json!({
            "run_id": run.id, "holds": problems.is_empty(), "problems": problems, "signed_by": signed_by,
        });
        writeln!(out, "{}", neutralise_json(&answer.to_string()))?;
    } else if problems.is_empty() {
        let signature = match &key {
            Some(key) => format!("; signed by the key {}", key.id()),
            None if statement::is_signed(run) => "; it is signed: --key PUB checks by whom".to_owned(),
            None => "; it is not signed".to_owned(),
        };
        writeln!(out, "{}: verified: the chain of events, the record and every digest{signature}", run.id)?;
    }
    if problems.is_empty() {
        return Ok(Exit::Done);
    }
    Err(Failure::new(Exit::Failed, format!("the run {} was changed: {}", run.id, problems.join("; "))))
}

fn attest(run: &StoredRun, arguments: &AttestArguments) -> Result<Exit, Failure> {
    let failed = |exit, why: String| Failure::new(exit, format!("cannot attest the run {}: {why}", run.id));
    let Some(signer) = super::signing::signer(arguments.sign.as_deref(), &super::run::environment())? else {
        return Err(failed(Exit::Usage, "there is no key to sign with".to_owned())
            .help("name one with --sign KEY; `openssl genpkey -algorithm ed25519 -out key.pem` makes one"));
    };
    let problems = verify::verify(run, None);
    if !problems.is_empty() {
        return Err(failed(Exit::Failed, format!("it was changed: {}", problems.join("; "))));
    }
    let record = run.record().map_err(|error| unreadable(&error))?;
    let statement = provenance::statement(&record).map_err(|why| failed(Exit::Failed, why.to_string()))?;
    let envelope = signer.sign(statement.to_string().as_bytes());
    let envelope = envelope.map_err(|error| failed(Exit::Failed, error.to_string()))?;
    match &arguments.output {
        None => write!(std::io::stdout().lock(), "{envelope}")?,
        Some(path) => std::fs::write(path, envelope)
            .map_err(|error| failed(Exit::Failed, format!("cannot write {}: {error}", path.display())))?,
    }
    Ok(Exit::Done)
}

fn unreadable(error: &log::LogError) -> Failure {
    Failure::new(Exit::Failed, error.to_string()).help("`fullsend runs verify` lists what was changed")
}
