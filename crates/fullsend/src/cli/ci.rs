//! `fullsend ci render`: a pipeline from the harnesses.

use std::io::Write;
use std::path::Path;

use clap::{Args, Subcommand, ValueEnum};
use yaml::Diagnostic;

use super::configuration::{Configuration, ConfigurationOptions};
use super::exit::{Exit, Failure};
use crate::check;
use crate::ci::{CiSystem, Job, Pipeline};
use crate::harness::names::ForgeName;
use crate::resolve::resolve;

#[derive(Args, Debug)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print a pipeline that runs the harnesses when their `trigger` accepts an event
    #[command(
        after_help = "Example:\n  fullsend ci render github --write\n  fullsend ci render github --check"
    )]
    Render(RenderArguments),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum System {
    Github,
    Gitlab,
    Tekton,
}

#[derive(Args, Debug)]
struct RenderArguments {
    /// The system that runs the pipeline
    #[arg(value_enum, value_name = "SYSTEM")]
    system: System,
    /// Put only these harnesses into it [default: all of the repository and its organisation]
    #[arg(value_name = "HARNESS")]
    harnesses: Vec<String>,
    /// Write the file into the repository
    #[arg(long, conflicts_with = "check")]
    write: bool,
    /// Fail if the file in the repository is out of date
    #[arg(long)]
    check: bool,
    /// Also start harnesses for events from people without write access
    #[arg(long)]
    anyone: bool,
    #[command(flatten)]
    place: ConfigurationOptions,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let Command::Render(arguments) = &arguments.command;
    let system = match arguments.system {
        System::Github => CiSystem::Github,
        System::Gitlab => CiSystem::Gitlab,
        System::Tekton => CiSystem::Tekton,
    };
    let mut opened = arguments.place.open()?;
    let forge = match system {
        CiSystem::Github => ForgeName::Github,
        CiSystem::Gitlab => ForgeName::Gitlab,
        CiSystem::Tekton => arguments.place.forge.unwrap_or(ForgeName::Github),
    };
    opened.choices.forge = Some(forge);
    let jobs = jobs(&mut opened, &arguments.harnesses)?;
    let text = Pipeline { jobs, forge, allow_non_writers: arguments.anyone }.render(system);
    let path = opened.repository.join(system.path());
    if arguments.check {
        return compare(&path, system, &text);
    }
    if !arguments.write {
        write!(std::io::stdout().lock(), "{text}")?;
        return Ok(Exit::Done);
    }
    let failed = |error: std::io::Error| {
        Failure::new(Exit::Failed, format!("cannot write {}: {error}", path.display()))
    };
    std::fs::create_dir_all(path.parent().unwrap_or(&path)).map_err(failed)?;
    std::fs::write(&path, text).map_err(failed)?;
    writeln!(std::io::stdout().lock(), "wrote {}", system.path())?;
    Ok(Exit::Done)
}

fn jobs(opened: &mut Configuration, wanted: &[String]) -> Result<Vec<Job>, Failure> {
    let mut names = wanted.to_vec();
    if names.is_empty() {
        names = opened.library.layers.names("harness");
    }
    if names.is_empty() {
        return Err(Failure::new(Exit::Invalid, "no harness was found")
            .help("run `fullsend init` to create one, or name the repository with --repo"));
    }
    names.iter().map(|name| job(opened, name)).collect()
}

fn job(opened: &mut Configuration, name: &str) -> Result<Job, Failure> {
    if name.starts_with('-') {
        let message =
            format!("the harness `{name}` cannot be in a pipeline: its name would be read as an option");
        return Err(
            Failure::new(Exit::Invalid, message).help("give its file a name that starts with a letter")
        );
    }
    let mut problems = Vec::new();
    let resolved = resolve(&mut opened.library, name, &opened.choices, &mut problems);
    let checked = resolved.and_then(|resolved| check::check(&mut opened.library, resolved, &mut problems));
    let trigger = |checked: &check::Checked| {
        checked.resolved.harness.trigger.as_ref().and_then(check::trigger::problem)
    };
    problems.extend(checked.as_ref().and_then(trigger));
    match checked.filter(|_| !problems.iter().any(Diagnostic::is_error)) {
        Some(checked) => Ok(Job::new(&checked, &opened.library)),
        None => Err(Failure::new(Exit::Invalid, format!("the harness `{name}` cannot be used"))
            .help(format!("`fullsend check {name}` says why"))),
    }
}

fn compare(path: &Path, system: CiSystem, text: &str) -> Result<Exit, Failure> {
    let shown = system.path();
    let why = match std::fs::read_to_string(path) {
        Ok(found) if found == text => {
            writeln!(std::io::stdout().lock(), "{shown} is up to date")?;
            return Ok(Exit::Done);
        }
        Ok(_) => format!("{shown} does not match the harnesses"),
        Err(error) => format!("cannot read {shown}: {error}"),
    };
    let help = format!("write it with `fullsend ci render {} --write`", system.word());
    Err(Failure::new(Exit::Invalid, why).help(help))
}
