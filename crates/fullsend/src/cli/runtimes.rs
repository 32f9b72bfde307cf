//! `fullsend runtimes`: who can think here, what each carries, and the installing of their programs.

use std::collections::BTreeMap;
use std::io::Write;

use clap::{Args, Subcommand};
use serde_json::{Map, Value as Json, json};

use super::exit::{Exit, Failure};
use crate::harness::names::RuntimeName;
use crate::runtime::contract::{self, Contract, Version};
use crate::runtime::install::{self, InstallError};
use crate::runtime::matrix::{self, FEATURES};
use crate::runtime::programs::{self, Places};

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
    /// Put the program of a runtime into the cache, with npm
    Install(InstallArguments),
}

#[derive(Args, Debug)]
struct InstallArguments {
    /// Whose program: claude or codex
    #[arg(value_parser = super::init::parse_runtime)]
    runtime: RuntimeName,
    /// Another version than the tested one
    #[arg(long, value_name = "VERSION", value_parser = parse_version)]
    version: Option<Version>,
}

fn parse_version(word: &str) -> Result<Version, String> {
    let version = Version::find(word).filter(|version| version.to_string() == word);
    version.ok_or_else(|| "three numbers, such as 2.1.325".to_owned())
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let places = Places::new(&super::configuration::variable);
    match &arguments.command {
        Some(Command::Install(what)) => install(what, &places),
        None => show(arguments.json, &places),
    }
}

fn install(what: &InstallArguments, places: &Places) -> Result<Exit, Failure> {
    let contract = contract::of(what.runtime);
    let environment: BTreeMap<String, String> = super::run::environment();
    let done = install::install(contract, what.version, places.cache.as_deref(), &environment);
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

fn show(json: bool, places: &Places) -> Result<Exit, Failure> {
    let mut out = std::io::stdout().lock();
    if json {
        let all: Vec<Json> = contract::ALL.iter().map(|contract| describe(contract, places)).collect();
        writeln!(out, "{:#}", Json::Array(all))?;
    } else {
        out.write_all(table(places).as_bytes())?;
    }
    Ok(Exit::Done)
}

/// The program as it is found here, in words.
fn found(contract: &'static Contract, places: &Places) -> String {
    match programs::find(contract, places) {
        Ok(None) => "this program".to_owned(),
        Ok(Some(program)) => {
            format!("{} {}", program.version, program.directory.join(&program.executable).display())
        }
        Err(error) => error.to_string(),
    }
}

fn describe(contract: &'static Contract, places: &Places) -> Json {
    let features: Map<String, Json> = FEATURES
        .iter()
        .map(|feature| {
            let cell = matrix::cell(feature, contract);
            let text = json!({ "carried": cell.carried, "by": cell.by, "switch": feature.switch });
            (feature.name.to_owned(), text)
        })
        .collect();
    let package = contract.program.as_ref();
    json!({
        "name": contract.name.word(),
        "tested": package.map(|package| package.tested.to_string()),
        "below": package.map(|package| package.below.to_string()),
        "found": found(contract, places),
        "config_directory": contract.config_directory,
        "hooks": contract.hook_names(),
        "without_answer": matrix::without_answer(contract),
        "liveness": matrix::liveness(contract),
        "tools_without_hooks": contract.tools_without_hooks(),
        "features": features,
    })
}

fn table(places: &Places) -> String {
    let mut text = format!("{:36}", "");
    text.extend(contract::ALL.iter().map(|contract| format!("{:8}", contract.name.word())));
    for feature in FEATURES {
        text = format!("{}\n{:36}", text.trim_end(), feature.name);
        for contract in contract::ALL {
            let word = if matrix::cell(feature, contract).carried { "yes" } else { "no" };
            text.push_str(&format!("{word:8}"));
        }
    }
    text = format!("{}\n", text.trim_end());
    for contract in contract::ALL {
        let without = contract.tools_without_hooks();
        text.push_str(&format!(
            "\n{}: {}\n  hooks: {}\n  a hook that does not answer: {}\n  proof: {}\n",
            contract.name,
            found(contract, places),
            contract.hook_names().join(", "),
            matrix::without_answer(contract),
            matrix::liveness(contract),
        ));
        if !without.is_empty() {
            text.push_str(&format!("  judged at the gateway alone: {}\n", without.join(", ")));
        }
    }
    text
}
