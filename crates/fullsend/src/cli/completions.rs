//! `fullsend completions`: what a shell needs to complete our commands. The script asks this program, which knows the names of
//! harnesses, runs and sessions.

use std::io::Write;

use clap::Args;
use clap_complete::Shell;

use super::complete;
use super::exit::{Exit, Failure};

#[derive(Args, Debug)]
pub struct Arguments {
    /// Shell to generate for
    #[arg(value_enum)]
    shell: Shell,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let shells = clap_complete::env::Shells::builtins();
    let name = arguments.shell.to_string();
    let shell = shells
        .completer(&name)
        .ok_or_else(|| Failure::new(Exit::Usage, format!("there are no completions for {name}")))?;
    let mut script = Vec::new();
    shell.write_registration(complete::VARIABLE, "fullsend", "fullsend", "fullsend", &mut script)?;
    std::io::stdout().lock().write_all(&script)?;
    Ok(Exit::Done)
}
