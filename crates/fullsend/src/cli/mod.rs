//! The command line: parse, call, print. One file per command; this is the only place that reads the environment,
//! prints, and turns an outcome into an exit code.

mod check;
mod check_output;
mod completions;
mod configuration;
mod doctor;
mod enter;
pub mod exit;
mod explain;
pub mod hidden;
mod hidden_hook;
mod hook;
mod init;
mod list;
mod policy;
mod progress;
mod run;
mod runs;
mod runtimes;
mod sandbox;
mod scan;
mod scan_bench;
mod schema;
mod session;
mod signals;
mod sweep;
mod terminal;
mod version;
mod worker;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::render::diagnostics::clean_text;
use exit::{Exit, Failure};

/// Run one coding agent, from one YAML file, in one sandbox, and prove what happened.
#[derive(Debug, Parser)]
#[command(name = "fullsend", disable_version_flag = true, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run one harness: one agent in one sandbox, its output checked, everything recorded
    Run(run::Arguments),
    /// What happened? List, tell, verify and remove the runs that are kept
    Runs(runs::Arguments),
    /// Look around in the workspace that a run left, in a sandbox without a network
    Enter(enter::Arguments),
    /// Is it right? Check harnesses before anything runs
    Check(check::Arguments),
    /// Where does this value come from? Show every effective value with the file and line that set it
    Explain(explain::Arguments),
    /// What may I write? Print the JSON Schema of a kind of file
    Schema(schema::Arguments),
    /// How do I begin? Write a working .fullsend directory
    Init(init::Arguments),
    /// List the harnesses of all layers
    List(list::Arguments),
    /// Who can think? What each runtime carries, and the installing of their programs
    Runtimes(runtimes::Arguments),
    /// Is it hostile, does it leak? Scan texts, trees and addresses as a run does
    Scan(scan::Arguments),
    /// One check of a tool call for any runtime, in the neutral wire contract
    Hook(hook::Arguments),
    /// What may leave? Ask a policy about one request, or what would have allowed what a run was refused
    Policy(policy::Arguments),
    /// Run a command, or look around, in a sandbox that a policy describes
    Sandbox(sandbox::Arguments),
    /// Can this machine hold a sandbox? What each layer can enforce here, and what mends it
    Doctor(doctor::Arguments),
    /// Manage durable sessions: send messages, run wakes, answer requests, read the log
    Session(session::Arguments),
    /// Run the wakes of sessions as they become due; many workers can share a store
    Worker(worker::Arguments),
    /// Remove what runs that died left behind, and end their records
    Sweep(sweep::Arguments),
    /// Print the version
    Version(version::Arguments),
    /// Print completions for a shell
    Completions(completions::Arguments),
}

/// Runs the program and says how it ended.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return usage(&error),
    };
    let result = match arguments.command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Runs(arguments) => runs::run(&arguments),
        Command::Enter(arguments) => enter::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Schema(arguments) => schema::run(&arguments),
        Command::Init(arguments) => init::run(&arguments),
        Command::List(arguments) => list::run(&arguments),
        Command::Runtimes(arguments) => runtimes::run(&arguments),
        Command::Scan(arguments) => scan::run(&arguments),
        Command::Hook(arguments) => hook::run(&arguments),
        Command::Policy(arguments) => policy::run(&arguments),
        Command::Sandbox(arguments) => {
            return sandbox::run(&arguments).map_or_else(|failure| code(report(&failure)), ExitCode::from);
        }
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Session(arguments) => session::run(&arguments),
        Command::Worker(arguments) => worker::run(&arguments),
        Command::Sweep(arguments) => sweep::run(&arguments),
        Command::Version(arguments) => version::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments),
    };
    code(match result {
        Ok(exit) => exit,
        Err(failure) => report(&failure),
    })
}

/// Help is data and goes to stdout with success; a mistake is talk and exits with 2.
fn usage(error: &clap::Error) -> ExitCode {
    let text = error.render();
    if error.use_stderr() {
        talk(&text.to_string());
        return code(Exit::Usage);
    }
    match std::io::stdout().write_all(text.to_string().as_bytes()) {
        Ok(()) => code(Exit::Done),
        Err(error) => code(Failure::from(error).exit),
    }
}

fn report(failure: &Failure) -> Exit {
    if !failure.message.is_empty() {
        talk(&format!("fullsend: {}\n", clean_text(&failure.message)));
    }
    if let Some(help) = &failure.help {
        talk(&format!("  help: {help}\n"));
    }
    failure.exit
}

/// Says something to the person. If nobody listens there is nobody to tell.
fn talk(text: &str) {
    drop(std::io::stderr().write_all(text.as_bytes()));
}

fn code(exit: Exit) -> ExitCode {
    ExitCode::from(exit.code())
}
