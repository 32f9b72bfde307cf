//! `fullsend check`: checks harnesses without running anything.

use std::io::{IsTerminal, Write};

use clap::{Args, ValueEnum};
use yaml::{Diagnostic, Sources, Span};

use super::configuration::{Configuration, ConfigurationOptions, variable};
use super::exit::{Exit, Failure};
use super::lock_options::LockOptions;
use super::pull_options::PullOptions;
use crate::check::{Checked, codeowners};
use crate::preflight::{PreflightContext, is_missing_on_host, preflight};
use crate::render::diagnostics::{self, Style};
use crate::render::{github, sarif};
use crate::resolve::layers::LayerKind;
use crate::resolve::variables::Strictness;
use crate::run::host::refused_files;

#[derive(Args, Debug)]
pub struct Arguments {
    /// Harnesses to check [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Check every harness of every layer
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Treat unset variables as errors, as a run does
    #[arg(long)]
    env: bool,
    #[command(flatten)]
    pull: PullOptions,
    #[command(flatten)]
    lock: LockOptions,
    /// Print in this format
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
    /// Print JSON, one object per line, as `--format json` does
    #[arg(long, conflicts_with = "format")]
    json: bool,
    #[command(flatten)]
    place: ConfigurationOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Human,
    Json,
    Sarif,
    Github,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let mut opened = arguments.place.open()?;
    opened.choices.pull = arguments.pull.mode();
    arguments.lock.choose(&mut opened.choices);
    let names = if arguments.names.is_empty() {
        opened.library.layers.names("harness")
    } else {
        arguments.names.clone()
    };
    if names.is_empty() {
        return Err(Failure::new(Exit::Invalid, "no harness was found")
            .help("run `fullsend init` to create one, or name the repository with --repo"));
    }
    let how = if arguments.env { Strictness::Required } else { Strictness::Warned };
    let mut problems = Vec::new();
    for name in &names {
        problems.append(&mut check_one(&mut opened, name, how));
    }
    problems.extend(check_owners(&mut opened));
    let problems = distinct(problems);
    let format = if arguments.json { Format::Json } else { arguments.format };
    print(&opened.library.sources, &problems, format)?;
    if format == Format::Human {
        super::write_stderr(&summary(names.len(), &problems));
    }
    Ok(verdict(&problems))
}

pub fn check_one(opened: &mut Configuration, name: &str, how: Strictness) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    let context = PreflightContext {
        environment: &variable_or_empty,
        strictness: how,
        repository: &opened.repository,
        recording: None,
    };
    let checked = preflight(&mut opened.library, name, &opened.choices, &context, &mut problems);
    problems.extend(checked.and_then(|checked| refused_by_guard(checked, opened)));
    problems
}

/// The guard scans the agent, skills and plugins before a run does anything, so `check` does the same.
fn refused_by_guard(checked: Checked, opened: &Configuration) -> Option<Diagnostic> {
    let at = checked.resolved.harness.agent.at;
    let blocked = refused_files(checked, &opened.library, &variable_or_empty)?;
    let help =
        "remove it, or let the organisation waive the finding; `fullsend scan context` shows all findings";
    Some(
        Diagnostic::error("refused-file", at, format!("the guard refuses this harness: {blocked}"))
            .help(help),
    )
}

/// A variable with an empty value counts as set.
pub fn variable_or_empty(name: &str) -> Option<String> {
    variable(name).or_else(|| std::env::var(name).ok())
}

/// Directories of the repository's layer that anyone with write access can change without review.
fn check_owners(opened: &mut Configuration) -> Option<Diagnostic> {
    opened.library.layers.get(LayerKind::Repository)?;
    let directories = codeowners::without_owner(&opened.repository);
    if directories.is_empty() {
        return None;
    }
    let at = Span::start_of(opened.library.add("CODEOWNERS", "", LayerKind::Repository));
    let message = format!(
        ".fullsend/{{{}}} has no owner in CODEOWNERS: a change there changes what the agent may do",
        directories.join(",")
    );
    Some(Diagnostic::warning("no-owner", at, message).help("add `/.fullsend/ @your-team` to CODEOWNERS"))
}

/// Harnesses share files; a problem of a shared file is reported once.
fn distinct(problems: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let mut seen = std::collections::HashSet::new();
    let mut kept: Vec<Diagnostic> = problems
        .into_iter()
        .filter(|problem| seen.insert((problem.code, problem.at, problem.message.clone())))
        .collect();
    kept.sort_by_key(|problem| (problem.severity, problem.at));
    kept
}

pub fn print(sources: &Sources, problems: &[Diagnostic], format: Format) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match format {
        Format::Human => show(sources, problems),
        Format::Json => {
            for problem in problems {
                writeln!(out, "{}", diagnostics::json(sources, problem))?;
            }
        }
        Format::Sarif => writeln!(out, "{:#}", sarif::log(sources, problems))?,
        Format::Github => {
            for problem in problems {
                writeln!(out, "{}", github::annotation(sources, problem))?;
            }
        }
    }
    Ok(())
}

/// The most problems that are printed. Errors come first.
const MAX_SHOWN: usize = 100;

/// Prints problems for people.
pub fn show(sources: &Sources, problems: &[Diagnostic]) {
    let colour = std::io::stderr().is_terminal() && variable("NO_COLOR").is_none();
    let style = if colour { Style::Coloured } else { Style::Plain };
    for problem in problems.iter().take(MAX_SHOWN) {
        super::write_stderr(&format!("{}\n\n", diagnostics::human(sources, problem, style)));
    }
    if problems.len() > MAX_SHOWN {
        super::write_stderr(&format!(
            "and {} more; `fullsend check --format json` shows all\n\n",
            problems.len() - MAX_SHOWN
        ));
    }
}

fn summary(harnesses: usize, problems: &[Diagnostic]) -> String {
    let errors = problems.iter().filter(|problem| problem.is_error()).count();
    let count = |number: usize, word: &str| format!("{number} {word}{}", if number == 1 { "" } else { "s" });
    let checked = format!("{} checked", count(harnesses, "harness").replace("harnesss", "harnesses"));
    format!("{checked}: {}, {}\n", count(errors, "error"), count(problems.len() - errors, "warning"))
}

/// Valid files on a host that lacks something, or that the guard refuses, are not the same failure as invalid files.
pub fn verdict(problems: &[Diagnostic]) -> Exit {
    let errors: Vec<&Diagnostic> = problems.iter().filter(|problem| problem.is_error()).collect();
    if errors.is_empty() {
        Exit::Done
    } else if errors.iter().all(|error| is_missing_on_host(error)) {
        Exit::Missing
    } else if errors.iter().all(|error| error.code == "refused-file") {
        Exit::Security
    } else {
        Exit::Invalid
    }
}
