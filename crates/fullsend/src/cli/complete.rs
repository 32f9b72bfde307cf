//! Completion of names that only this machine knows: harnesses, runs, sessions. A shell asks through a variable of our
//! own. Names that cannot be read are silently left out.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::CompleteEnv;

use super::configuration::ConfigurationOptions;
use super::exit::Exit;
use super::session::store::known_ids;
use crate::record::store;

/// The variable by which a shell asks for completions; its value names the shell.
pub const VARIABLE: &str = "FULLSEND_COMPLETE";

/// The most runs and sessions that are offered.
const MAX_CANDIDATES: usize = 30;

/// Answers a shell, if one asks.
pub fn answer(arguments: &[OsString]) -> Option<ExitCode> {
    let here = std::env::current_dir().ok();
    let asked = CompleteEnv::with_factory(command).var(VARIABLE).bin("fullsend");
    match asked.try_complete(arguments.to_vec(), here.as_deref()) {
        Ok(false) => None,
        Ok(true) => Some(ExitCode::from(Exit::Done)),
        Err(_) => Some(ExitCode::from(Exit::Usage)),
    }
}

/// The command line, with names for the arguments that have some.
fn command() -> clap::Command {
    with_candidates(super::Arguments::command(), "")
}

fn with_candidates(command: clap::Command, path: &str) -> clap::Command {
    let command = command.mut_args(|argument| match candidates(path, &argument) {
        Some(names) => argument.add(ArgValueCandidates::new(names)),
        None => argument,
    });
    command.mut_subcommands(|below| {
        let path = format!("{path} {}", below.get_name());
        with_candidates(below, path.trim())
    })
}

/// Where the names of an argument come from.
fn candidates(path: &str, argument: &clap::Arg) -> Option<fn() -> Vec<CompletionCandidate>> {
    let value = argument.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str());
    match (path, argument.get_id().as_str(), value) {
        ("run" | "check", "names", _) | ("explain" | "policy show", "name", _) => Some(harnesses),
        (_, _, "HARNESS") => Some(harnesses),
        (_, _, "RUN") => Some(runs),
        (_, "id", "ID") if path.starts_with("session") => Some(sessions),
        _ => None,
    }
}

/// The harnesses of the repository around the current directory, and of its organisation.
pub fn harnesses() -> Vec<CompletionCandidate> {
    let place = ConfigurationOptions {
        repo: None,
        fullsend_dir: None,
        org_dir: None,
        config_ref: Some("worktree".to_owned()),
        forge: None,
    };
    let names = place.open().map(|opened| opened.library.layers.names("harness")).unwrap_or_default();
    names.into_iter().map(CompletionCandidate::new).collect()
}

/// The newest runs, with their harness, and `latest`.
pub fn runs() -> Vec<CompletionCandidate> {
    let stored = super::run::runs_directory().map(|runs| store::all(&runs)).unwrap_or_default();
    let newest = stored.iter().rev().take(MAX_CANDIDATES).map(|run| {
        let record = run.record().ok();
        let description = record.map(|record| format!("{} {}", record.harness, record.started));
        CompletionCandidate::new(&run.id).help(description.map(Into::into))
    });
    std::iter::once(CompletionCandidate::new("latest")).chain(newest).collect()
}

/// The sessions of the default store.
pub fn sessions() -> Vec<CompletionCandidate> {
    known_ids(MAX_CANDIDATES).into_iter().map(CompletionCandidate::new).collect()
}
