//! `fullsend store`: the tables of a session store.

use clap::{Args, Subcommand};

use super::exit::{Exit, Failure};
use super::session::store::StoreOptions;
use super::write_stderr;

#[derive(Args, Debug)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create the tables of a store, or migrate them; afterwards other commands need no DDL privileges
    #[command(after_help = "Example: fullsend store migrate --store postgres://owner@db.example/fullsend")]
    Migrate(Migrate),
}

#[derive(Args, Debug)]
struct Migrate {
    #[command(flatten)]
    store: StoreOptions,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let Command::Migrate(Migrate { store }) = &arguments.command;
    store.migrate()?;
    write_stderr("the session store is up to date\n");
    Ok(Exit::Done)
}
