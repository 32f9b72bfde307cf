//! `fullsend runs`: lists, shows, verifies and removes recorded runs.

use std::io::Write;
use std::path::{Component, Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;

use super::exit::{Exit, Failure};
use crate::event::log;
use crate::record::store::{self, StoredRun};
use crate::record::verify;
use crate::render::diagnostics::clean_text;
use crate::render::{console, report};

#[derive(Args, Debug)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// The directory of runs [default: $XDG_STATE_HOME/fullsend/runs]
    #[arg(long, value_name = "DIR", global = true)]
    output_dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the runs, oldest first
    #[command(after_help = "Example:\n  fullsend runs list --json")]
    List {
        /// Print JSON, one object per line
        #[arg(long)]
        json: bool,
    },
    /// Show one run: timeline, tools, refusals, findings, cost
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
    Logs {
        #[command(flatten)]
        run: Named,
        /// A file of the run, such as `post_script.log`
        file: Option<PathBuf>,
        /// Print the events as JSON, one object per line
        #[arg(long)]
        json: bool,
    },
    /// Remove runs
    #[command(after_help = "Example:\n  fullsend runs rm 0198c2")]
    Rm {
        #[arg(value_name = "RUN", required = true)]
        runs: Vec<String>,
    },
    /// Verify a run: the chain of events, the record and every digest
    #[command(after_help = "Example:\n  fullsend runs verify latest")]
    Verify {
        #[command(flatten)]
        run: Named,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
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
        Command::List { json } => list(&runs, *json),
        Command::Show { run, json } => show(&find(&runs, &run.run)?, *json),
        Command::Logs { run, file: Some(file), .. } => print_file(&find(&runs, &run.run)?, file),
        Command::Logs { run, file: None, json } => events(&find(&runs, &run.run)?, *json),
        Command::Rm { runs: names } => remove(&runs, names),
        Command::Verify { run, json } => check(&find(&runs, &run.run)?, *json),
    }
}

pub fn find(runs: &Path, name: &str) -> Result<StoredRun, Failure> {
    store::find(runs, name).map_err(|error| {
        Failure::new(Exit::Missing, error.to_string()).help("`fullsend runs list` lists the runs")
    })
}

fn list(runs: &Path, as_json: bool) -> Result<Exit, Failure> {
    let mut out = std::io::stdout().lock();
    let all = store::all(runs);
    if all.is_empty() {
        super::talk(&format!("{} has no runs\n", runs.display()));
    }
    for run in all {
        // One unreadable log does not hide the other runs.
        let record = run.record().map_err(|error| error.to_string());
        let (outcome, harness, started) = match &record {
            Ok(record) => {
                let word = match record.outcome {
                    Some(outcome) => outcome.as_str(),
                    None if matches!(run.is_alive(), Ok(true)) => "running",
                    None => "died",
                };
                (word, record.harness.as_str(), record.started.get(..19).unwrap_or_default())
            }
            Err(_) => ("unreadable", "", ""),
        };
        if as_json {
            let usd: Option<f64> =
                record.as_ref().ok().map(|record| record.usage.values().filter_map(|used| used.usd).sum());
            let line = json!({
                "run_id": run.id, "owner": run.owner, "harness": harness, "outcome": outcome, "started": started,
                "exit_code": record.as_ref().ok().and_then(|record| record.exit_code), "usd": usd,
                "directory": run.path, "problem": record.err(),
            });
            writeln!(out, "{line}")?;
        } else {
            writeln!(out, "{}", format!("{}  {started:19}  {outcome:18} {harness}", run.id).trim_end())?;
        }
    }
    Ok(Exit::Done)
}

fn show(run: &StoredRun, as_json: bool) -> Result<Exit, Failure> {
    let events = log::read(&run.log()).map_err(|error| unreadable(&error))?;
    let mut out = std::io::stdout().lock();
    if as_json {
        let record = serde_json::to_value(crate::record::fold(&events)).unwrap_or_default();
        writeln!(out, "{record:#}")?;
    } else {
        write!(out, "{}\n{}\n", report::report(&events), run.path.display())?;
    }
    Ok(Exit::Done)
}

fn events(run: &StoredRun, as_json: bool) -> Result<Exit, Failure> {
    let mut out = std::io::stdout().lock();
    for envelope in log::read(&run.log()).map_err(|error| unreadable(&error))? {
        if as_json {
            writeln!(out, "{}", serde_json::to_string(&envelope).unwrap_or_default())?;
        } else if let Some(line) = console::line(&envelope) {
            writeln!(out, "{} {}", envelope.time.get(11..23).unwrap_or_default(), clean_text(&line))?;
        }
    }
    Ok(Exit::Done)
}

/// Below the run's directory and through no link: the agent chose some of the names there.
fn print_file(run: &StoredRun, file: &Path) -> Result<Exit, Failure> {
    let failed = |why: String| {
        Failure::new(Exit::Missing, format!("cannot print {} of the run {}: {why}", file.display(), run.id))
            .help(format!("the files are in {}", run.path.display()))
    };
    if !file.components().all(|part| matches!(part, Component::Normal(_))) {
        return Err(failed("the path must be below the run's directory".to_owned()));
    }
    let path = run.path.join(file);
    let inside = path.canonicalize().map_err(|error| failed(error.to_string()))?;
    let root = run.path.canonicalize().map_err(|error| failed(error.to_string()))?;
    if !inside.starts_with(&root) || !inside.is_file() {
        return Err(failed("the run has no such file".to_owned()));
    }
    let bytes = std::fs::read(&inside).map_err(|error| failed(error.to_string()))?;
    let text = String::from_utf8_lossy(&bytes);
    write!(std::io::stdout().lock(), "{}", clean_text(&text))?;
    Ok(Exit::Done)
}

fn remove(runs: &Path, names: &[String]) -> Result<Exit, Failure> {
    let found: Vec<StoredRun> = names.iter().map(|name| find(runs, name)).collect::<Result<_, _>>()?;
    for run in &found {
        let failed =
            |why: String| Failure::new(Exit::Failed, format!("cannot remove the run {}: {why}", run.id));
        match run.is_alive() {
            Ok(true) => return Err(failed("it is still running".to_owned()).help("stop it first")),
            Ok(false) => run.remove().map_err(|error| failed(error.to_string()))?,
            Err(error) => return Err(failed(error.to_string())),
        }
        super::talk(&format!("removed {}\n", run.id));
    }
    Ok(Exit::Done)
}

fn check(run: &StoredRun, as_json: bool) -> Result<Exit, Failure> {
    let problems = verify::verify(run);
    let mut out = std::io::stdout().lock();
    if as_json {
        let answer = json!({ "run_id": run.id, "holds": problems.is_empty(), "problems": problems });
        writeln!(out, "{answer}")?;
    } else if problems.is_empty() {
        writeln!(out, "{}: verified: the chain of events, the record and every digest", run.id)?;
    }
    if problems.is_empty() {
        return Ok(Exit::Done);
    }
    Err(Failure::new(Exit::Failed, format!("the run {} was changed: {}", run.id, problems.join("; "))))
}

fn unreadable(error: &log::LogError) -> Failure {
    Failure::new(Exit::Failed, error.to_string()).help("`fullsend runs verify` lists what was changed")
}
