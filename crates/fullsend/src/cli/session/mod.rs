//! `fullsend session`: an agent that lasts. Each subcommand parses, makes one call of the session library, and prints. Data
//! is JSON, or lines for people where `--json` is not given; the log is always JSON, one event a line.

mod answer;
mod bundle;
mod create;
mod events;
mod requests;
pub mod run;
mod send;
mod show;
pub mod store;

use clap::{Args, Subcommand};

use super::exit::{Exit, Failure};

#[derive(Args, Debug)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Begin a session of an agent, and print its id
    Create(create::Arguments),
    /// Say something to it
    Send(send::Send),
    /// Wake it now, for one bounded run; exits as the run does, or with 10 if it waits for an answer
    Run(run::Run),
    /// Print its log, one JSON object a line; go on with what comes
    Events(events::Events),
    /// Where does it stand? Status, open questions, queued wakes, usage
    Show(show::Show),
    /// Follow what happens, in lines for people
    Watch(events::Watch),
    /// Stop what it is doing, ahead of everything that waits
    Interrupt(send::Interrupt),
    /// Allow or deny a tool call that it asked about
    Confirm(answer::Confirm),
    /// Give the result of a tool that only the outside can run
    ToolResult(answer::ToolResult),
    /// Write it as one file that another store can take in
    Export(bundle::Export),
    /// Take in such a file
    Import(bundle::Import),
    /// List sessions
    List(show::List),
    /// End it for good
    Terminate(send::Terminate),
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    match &arguments.command {
        Command::Create(arguments) => create::run(arguments),
        Command::Send(arguments) => send::send(arguments),
        Command::Run(arguments) => run::run(arguments),
        Command::Events(arguments) => events::events(arguments),
        Command::Show(arguments) => show::show(arguments),
        Command::Watch(arguments) => events::watch(arguments),
        Command::Interrupt(arguments) => send::interrupt(arguments),
        Command::Confirm(arguments) => answer::confirm(arguments),
        Command::ToolResult(arguments) => answer::tool_result(arguments),
        Command::Export(arguments) => bundle::export(arguments),
        Command::Import(arguments) => bundle::import(arguments),
        Command::List(arguments) => show::list(arguments),
        Command::Terminate(arguments) => send::terminate(arguments),
    }
}
