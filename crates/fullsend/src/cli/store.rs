//! `fullsend store`: the tables of a session store.

use clap::{Args, Subcommand};

use super::exit::{Exit, Failure};
use super::session::store::StoreOptions;
use super::talk;

#[derive(Args, Debug)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create the tables of a store, or bring them to this version; other commands then need no right to do so
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
    talk("the store has the tables of this version\n");
    Ok(Exit::Done)
}
