//! `fullsend session`: durable sessions of an agent. Each subcommand parses its arguments, makes one call of the session
//! library, and prints the result. The log is always JSON, one event per line; other data is JSON with `--json`.

mod accept_environment;
mod answer;
pub(super) mod bundle;
pub(super) mod create;
mod dead;
pub(crate) mod default_store;
mod events;
mod fetch;
mod remove;
pub(crate) mod repository;
mod requests;
mod run;
mod send;
mod show;
pub(crate) mod store;
mod wake;
pub(crate) mod wake_options;
mod workers;

use clap::{Args, Subcommand};

use super::exit::{Exit, Failure};

#[derive(Args, Debug)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a session of an agent and print its id
    #[command(after_help = "Example: fullsend session create --agent triage")]
    Create(create::Arguments),
    /// Send a message to a session
    #[command(after_help = "Example: fullsend session send ID \"look into the flaky test\"")]
    Send(send::Send),
    /// Wake a session now, for one run, and exit with the run's exit code, or with 10 if the session waits for an answer
    #[command(after_help = "Example: fullsend session run ID")]
    Run(run::Run),
    /// Queue a wake for later, once or on a schedule, or cancel one
    #[command(after_help = "Example: fullsend session wake ID --in 2h")]
    Wake(wake::Wake),
    /// Print the log of a session, one JSON object per line
    #[command(after_help = "Example: fullsend session events ID --from 1 --follow")]
    Events(events::Events),
    /// Show the status of a session: open requests, queued wakes, usage
    #[command(after_help = "Example: fullsend session show ID")]
    Show(show::Show),
    /// Watch a session: print what happens, one line per event
    #[command(after_help = "Example: fullsend session watch ID")]
    Watch(events::Watch),
    /// Interrupt a session: stop its current run
    #[command(after_help = "Example: fullsend session interrupt ID --note \"wrong branch\"")]
    Interrupt(send::Interrupt),
    /// Confirm a tool call that a session asked about: allow or deny it
    #[command(after_help = "Example: fullsend session confirm ID REQUEST allow")]
    Confirm(answer::Confirm),
    /// Send the result of a custom tool that a session asked for
    #[command(after_help = "Example: fullsend session tool-result ID REQUEST '{\"ticket\": 42}'")]
    ToolResult(answer::ToolResultArguments),
    /// Export a session to one file
    #[command(after_help = "Example: fullsend session export ID --output session.bundle")]
    Export(bundle::Export),
    /// Import a session from a file that `export` wrote
    #[command(after_help = "Example: fullsend session import session.bundle")]
    Import(bundle::Import),
    /// Fetch the directories of a session's runs from its store
    #[command(after_help = "Example: fullsend session fetch ID")]
    Fetch(fetch::Fetch),
    /// Accept a changed environment file: run the session with its current content
    #[command(after_help = "Example: fullsend session accept-environment ID")]
    AcceptEnvironment(accept_environment::AcceptEnvironment),
    /// Show and manage dead letters: inputs that were given up
    #[command(after_help = "Example: fullsend session dead list ID")]
    Dead(dead::Arguments),
    /// Export a session to one file, terminate it and remove it from the store
    #[command(after_help = "Example: fullsend session archive ID --output session.bundle")]
    Archive(remove::Archive),
    /// Remove a terminated session from the store for good
    #[command(after_help = "Example: fullsend session rm ID")]
    Rm(remove::Remove),
    /// Remove all terminated sessions that ended long ago
    #[command(after_help = "Example: fullsend session prune --older-than 90d")]
    Prune(remove::Prune),
    /// List sessions
    #[command(after_help = "Example: fullsend session list --agent triage")]
    List(show::List),
    /// List the workers that wait for due sessions
    #[command(after_help = "Example: fullsend session workers")]
    Workers(workers::Workers),
    /// Terminate a session for good
    #[command(after_help = "Example: fullsend session terminate ID --reason \"no longer needed\"")]
    Terminate(send::Terminate),
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    match &arguments.command {
        Command::Create(arguments) => create::run(arguments),
        Command::Send(arguments) => send::send(arguments),
        Command::Run(arguments) => run::run(arguments),
        Command::Wake(arguments) => wake::wake(arguments),
        Command::Archive(arguments) => remove::archive(arguments),
        Command::Rm(arguments) => remove::remove(arguments),
        Command::Prune(arguments) => remove::prune(arguments),
        Command::Events(arguments) => events::events(arguments),
        Command::Show(arguments) => show::show(arguments),
        Command::Watch(arguments) => events::watch(arguments),
        Command::Interrupt(arguments) => send::interrupt(arguments),
        Command::Confirm(arguments) => answer::confirm(arguments),
        Command::ToolResult(arguments) => answer::tool_result(arguments),
        Command::Export(arguments) => bundle::export(arguments),
        Command::Import(arguments) => bundle::import(arguments),
        Command::Fetch(arguments) => fetch::fetch(arguments),
        Command::AcceptEnvironment(arguments) => accept_environment::accept_environment(arguments),
        Command::Dead(arguments) => dead::run(arguments),
        Command::List(arguments) => show::list(arguments),
        Command::Workers(arguments) => workers::workers(arguments),
        Command::Terminate(arguments) => send::terminate(arguments),
    }
}
