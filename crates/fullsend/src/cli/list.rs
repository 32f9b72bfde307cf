//! `fullsend list`: the harnesses of all layers.

use std::io::Write;

use clap::Args;
use serde_json::json;

use super::configuration::ConfigurationOptions;
use super::exit::{Exit, Failure};
use crate::harness::reference::LocalPath;
use crate::render::diagnostics::clean_text;

#[derive(Args, Debug)]
pub struct Arguments {
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: ConfigurationOptions,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let mut opened = arguments.place.open()?;
    let mut out = std::io::stdout().lock();
    let names = opened.library.layers.names("harness");
    if names.is_empty() {
        super::write_stderr("there is no harness; `fullsend init` writes the first one\n");
    }
    for name in names {
        let found = LocalPath::parse(&format!("harness/{name}.yaml"))
            .ok()
            .and_then(|path| opened.library.layers.find(&path));
        // A file `NAME.yml` is listed as one that cannot be read: `check` says why.
        let tree = found.as_ref().and_then(|found| opened.library.tree(found).ok());
        let description = tree.as_ref().and_then(|tree| tree.get("description")?.scalar());
        let layer = found.map_or("", |found| found.layer.words());
        if arguments.json {
            let readable = tree.is_some();
            let line =
                json!({ "name": name, "layer": layer, "description": description, "readable": readable });
            writeln!(out, "{line}")?;
        } else {
            let unreadable = format!("(cannot be read: fullsend check {name})");
            let about = if tree.is_some() { description.unwrap_or_default() } else { &unreadable };
            writeln!(out, "{}", clean_text(format!("{name:24} {layer:14} {about}").trim_end()))?;
        }
    }
    Ok(Exit::Done)
}
