//! `runs open`: writes the page of a run to a temporary file and starts a browser on it.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use clap::Args;

use super::super::configuration::variable;
use super::super::exit::{Exit, Failure};
use super::{Named, find, unreadable};
use crate::record::page::RunPage;
use crate::render::page;

/// The programs that open a file on a desktop, if `BROWSER` is not set.
const OPENERS: [&str; 3] = ["xdg-open", "wslview", "open"];

#[derive(Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    run: Named,
}

pub fn run(runs: &Path, arguments: &Arguments) -> Result<Exit, Failure> {
    let run = find(runs, &arguments.run.run)?;
    let page = RunPage::load(&run).map_err(|error| unreadable(&error))?;
    let failed = |error: std::io::Error| {
        Failure::new(Exit::Failed, format!("cannot write the page of the run {}: {error}", run.id))
            .help("`fullsend runs export --html FILE` writes it to a place of your choice")
    };
    // The browser reads it after this command has ended, so it is not removed.
    let file = tempfile::Builder::new().prefix("fullsend-run-").suffix(".html").tempfile();
    let (mut file, path) = file.and_then(|file| file.keep().map_err(|error| error.error)).map_err(failed)?;
    file.write_all(page::html(&page).as_bytes()).map_err(failed)?;
    writeln!(std::io::stdout().lock(), "{}", path.display())?;
    if !open(&path) {
        super::super::write_stderr("no browser could be started: open the file in one\n");
    }
    Ok(Exit::Done)
}

fn open(path: &Path) -> bool {
    let chosen = variable("BROWSER").filter(|name| !name.is_empty());
    let programs = chosen.iter().map(String::as_str).chain(OPENERS);
    programs.into_iter().any(|program| {
        let mut command = Command::new(program);
        command.arg(path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().is_ok()
    })
}
