//! `fullsend store`: the tables of a session store, and whether it and its object store work.

use std::io::Write;

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
    /// Open a store and try its object store: write, read and remove an object
    #[command(after_help = "Example: fullsend store check --objects s3://acme-agents/sessions")]
    Check(Check),
}

#[derive(Args, Debug)]
struct Migrate {
    #[command(flatten)]
    store: StoreOptions,
}

#[derive(Args, Debug)]
struct Check {
    #[command(flatten)]
    store: StoreOptions,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    match &arguments.command {
        Command::Migrate(Migrate { store }) => {
            store.migrate()?;
            write_stderr("the session store is up to date\n");
        }
        Command::Check(Check { store, json }) => {
            drop(store.open()?);
            let location = store.describe_location()?;
            let objects = store.probe_objects()?;
            let mut out = std::io::stdout().lock();
            if *json {
                writeln!(out, "{}", serde_json::json!({ "store": location, "objects": objects }))?;
                return Ok(Exit::Done);
            }
            writeln!(out, "store: {location} works")?;
            match objects {
                Some(address) => writeln!(out, "objects: {address} works")?,
                None => writeln!(out, "objects: in the store")?,
            }
        }
    }
    Ok(Exit::Done)
}
