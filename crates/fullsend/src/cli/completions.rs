//! `fullsend completions`: what a shell needs to complete our commands.

use std::io::Write;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::exit::{Exit, Failure};

#[derive(Args, Debug)]
pub struct Arguments {
    /// Shell to generate for
    #[arg(value_enum)]
    shell: Shell,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut super::Arguments::command(), "fullsend", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(Exit::Done)
}
