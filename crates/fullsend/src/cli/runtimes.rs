//! `fullsend runtimes`: lists the runtimes and their security features, and installs their programs.

use std::collections::BTreeMap;
use std::io::Write;

use clap::{Args, Subcommand};
use serde_json::{Map, Value as Json, json};

use super::exit::{Exit, Failure};
use crate::harness::names::RuntimeName;
use crate::runtime::contract::{self, Runtime};
use crate::runtime::install::{self, InstallError};
use crate::runtime::matrix::{self, FEATURES};
use crate::runtime::package::Version;
use crate::runtime::programs::ProgramSearch;
use crate::runtime::{self, ALL};

#[derive(Args, Debug)]
pub struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Install the program of a runtime into the cache, with npm
    #[command(after_help = "Example: fullsend runtimes install claude")]
    Install(InstallArguments),
}

#[derive(Args, Debug)]
struct InstallArguments {
    /// Runtime to install: claude, codex or acp (opencode)
    #[arg(value_parser = super::init::parse_runtime)]
    runtime: RuntimeName,
    /// Install this version instead of the tested one
    #[arg(long, value_name = "VERSION", value_parser = parse_version)]
    version: Option<Version>,
}

fn parse_version(word: &str) -> Result<Version, String> {
    let version = Version::find(word).filter(|version| version.to_string() == word);
    version.ok_or_else(|| "three numbers, such as 2.1.325".to_owned())
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let search = ProgramSearch::new(&super::configuration::variable);
    match &arguments.command {
        Some(Command::Install(what)) => install(what, &search),
        None => show(arguments.json, &search),
    }
}

fn install(what: &InstallArguments, search: &ProgramSearch) -> Result<Exit, Failure> {
    let runtime = runtime::of(what.runtime);
    let environment: BTreeMap<String, String> = super::run::environment();
    let done = install::install(runtime, what.version, search.cache.as_deref(), &environment);
    let installed = done.map_err(|error| {
        let exit = match error {
            InstallError::OwnProgram(_) | InstallError::OutOfRange { .. } => Exit::Usage,
            InstallError::Altered { .. } => Exit::Security,
            _ => Exit::Missing,
        };
        Failure::new(exit, error.to_string()).help(error.help())
    })?;
    let path = installed.program.directory.join(&installed.program.executable);
    let how = if installed.fetched { "installed" } else { "already there" };
    let trust = if installed.pinned { "the tested package" } else { "as the registry gave it, untested" };
    let version = installed.program.version;
    writeln!(std::io::stdout(), "{how}: {} {version} ({trust}) {}", what.runtime, path.display())?;
    Ok(Exit::Done)
}

fn show(json: bool, search: &ProgramSearch) -> Result<Exit, Failure> {
    let mut out = std::io::stdout().lock();
    if json {
        let all: Vec<Json> = ALL.iter().map(|runtime| describe(runtime, search)).collect();
        writeln!(out, "{:#}", Json::Array(all))?;
    } else {
        out.write_all(table(search).as_bytes())?;
    }
    Ok(Exit::Done)
}

/// Where the program was found, as text.
fn found(runtime: &'static Runtime, search: &ProgramSearch) -> String {
    match runtime.find_program(search) {
        Ok(None) => "this program".to_owned(),
        Ok(Some(program)) => {
            format!("{} {}", program.version, program.directory.join(&program.executable).display())
        }
        Err(error) => error.to_string(),
    }
}

fn describe(runtime: &'static Runtime, search: &ProgramSearch) -> Json {
    let features: Map<String, Json> = FEATURES
        .iter()
        .map(|feature| {
            let cell = matrix::cell(feature, runtime);
            let text = json!({ "carried": cell.carried, "by": cell.by, "switch": feature.switch });
            (feature.name.to_owned(), text)
        })
        .collect();
    let package = runtime.program.as_ref();
    json!({
        "name": runtime.name.word(),
        "tested": package.map(|package| package.tested.to_string()),
        "below": package.map(|package| package.below.to_string()),
        "found": found(runtime, search),
        "config_directory": runtime.config_directory,
        "hooks": contract::hook_names(runtime.hooks),
        "without_answer": matrix::without_answer(runtime),
        "liveness": matrix::liveness(runtime),
        "tools_without_hooks": runtime.tools_without_hooks(),
        "features": features,
    })
}

fn hooks(runtime: &Runtime) -> String {
    let names = contract::hook_names(runtime.hooks);
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn table(search: &ProgramSearch) -> String {
    let mut text = format!("{:36}", "");
    text.extend(ALL.iter().map(|runtime| format!("{:8}", runtime.name.word())));
    for feature in FEATURES {
        text = format!("{}\n{:36}", text.trim_end(), feature.name);
        for runtime in ALL {
            let word = if matrix::cell(feature, runtime).carried { "yes" } else { "no" };
            text.push_str(&format!("{word:8}"));
        }
    }
    text = format!("{}\n", text.trim_end());
    for runtime in ALL {
        let without = runtime.tools_without_hooks();
        text.push_str(&format!(
            "\n{}: {}\n  hooks: {}\n  a hook that does not answer: {}\n  proof: {}\n",
            runtime.name,
            found(runtime, search),
            hooks(runtime),
            matrix::without_answer(runtime),
            matrix::liveness(runtime),
        ));
        if !without.is_empty() {
            text.push_str(&format!("  judged at the gateway alone: {}\n", without.join(", ")));
        }
    }
    text
}
