//! `fullsend policy`: what a policy says about one request, and what it would have to say to allow what a run was
//! refused.

mod suggest;
mod test;

use std::path::Path;
use std::rc::Rc;

use clap::{Args, Subcommand};
use yaml::Sources;

use super::exit::{Exit, Failure};
use crate::resolve::layers::MAX_BYTES;

#[derive(Args, Debug)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// May this be asked? Say allow or deny, and by which line
    Test(test::Arguments),
    /// What would have allowed it? Print the least addition to the policy for what a run was refused
    Suggest(suggest::Arguments),
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    match &arguments.command {
        Command::Test(arguments) => test::run(arguments),
        Command::Suggest(arguments) => suggest::run(arguments),
    }
}

/// Reads a policy file and prints its problems.
fn read(path: &Path) -> Result<(Sources, Rc<policy::Policy>), Failure> {
    let about = std::fs::metadata(path).map_err(|error| missing(path, &error))?;
    if about.len() > MAX_BYTES {
        return Err(Failure::new(Exit::Invalid, format!("{} is too large for a policy", path.display())));
    }
    let text = std::fs::read_to_string(path).map_err(|error| missing(path, &error))?;
    let mut sources = Sources::default();
    let source = sources.add(path.display().to_string(), text.as_str());
    match policy::Policy::parse(&sources, source) {
        Ok(parsed) => Ok((sources, Rc::new(parsed.policy))),
        Err(problems) => {
            super::check::show(&sources, &problems);
            Err(Failure::new(Exit::Invalid, format!("{} is not a policy", path.display())))
        }
    }
}

fn missing(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Exit::Missing, format!("the policy {} cannot be read: {error}", path.display()))
        .help("give --policy the path of a policy file")
}
