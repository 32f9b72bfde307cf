//! `fullsend policy`: tests a policy with one request, shows its rules, and suggests lines that would allow the refused
//! requests of a run.

pub(super) mod advice;
mod edit;
mod show;
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
    /// Test one request: print allow or deny, and the line that decides
    #[command(
        after_help = "Example: fullsend policy test --policy policies/build.yaml GET https://example.com/"
    )]
    Test(test::Arguments),
    /// Show the network rules of a harness, and the file that each comes from
    #[command(after_help = "Example: fullsend policy show triage --effective")]
    Show(show::Arguments),
    /// Suggest the lines that would have allowed the refused requests of a run, and add them with --write
    #[command(after_help = "Example: fullsend policy suggest latest --write")]
    Suggest(suggest::Arguments),
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    match &arguments.command {
        Command::Test(arguments) => test::run(arguments),
        Command::Show(arguments) => show::run(arguments),
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
