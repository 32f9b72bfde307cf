//! `fullsend man`: manual pages, one for each command, made from the same definitions as the help.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_mangen::Man;

use super::exit::{Exit, Failure};

#[derive(Args, Debug)]
pub struct Arguments {
    /// Directory to write the pages to; it is created if it is missing
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let failed = |error: std::io::Error| {
        let message = format!("cannot write manual pages to {}: {error}", arguments.directory.display());
        Failure::new(Exit::Missing, message)
    };
    std::fs::create_dir_all(&arguments.directory).map_err(failed)?;
    let mut command = super::Arguments::command().disable_help_subcommand(true);
    command.build();
    let mut count = 0;
    for (name, page) in pages(&command, "fullsend") {
        let mut text = Vec::new();
        let titled = page.display_name(name.clone());
        Man::new(titled).source(concat!("fullsend ", env!("CARGO_PKG_VERSION"))).render(&mut text)?;
        std::fs::write(arguments.directory.join(format!("{name}.1")), text).map_err(failed)?;
        count += 1;
    }
    writeln!(std::io::stdout().lock(), "{count} pages are in {}", arguments.directory.display())?;
    Ok(Exit::Done)
}

/// A command and those below it, by the names of their pages.
fn pages(command: &clap::Command, name: &str) -> Vec<(String, clap::Command)> {
    let below = command.get_subcommands().filter(|below| !below.is_hide_set());
    let below = below.flat_map(|below| pages(below, &format!("{name}-{}", below.get_name())));
    std::iter::once((name.to_owned(), command.clone())).chain(below).collect()
}
