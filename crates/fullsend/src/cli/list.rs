//! `fullsend list`: the harnesses of all layers.

use std::io::Write;

use clap::Args;
use serde_json::json;

use super::exit::{Exit, Failure};
use super::open::Where;
use crate::harness::reference::LocalPath;

#[derive(Args, Debug)]
pub struct Arguments {
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Where,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let mut opened = arguments.place.open()?;
    let mut out = std::io::stdout().lock();
    for name in opened.library.layers.harness_names() {
        let found = LocalPath::parse(&format!("harness/{name}.yaml"))
            .ok()
            .and_then(|path| opened.library.layers.find(&path));
        let Some(found) = found else { continue };
        let description = opened
            .library
            .tree(&found)
            .ok()
            .and_then(|tree| tree.get("description")?.scalar().map(str::to_owned));
        let layer = found.layer.words();
        if arguments.json {
            writeln!(out, "{}", json!({ "name": name, "layer": layer, "description": description }))?;
        } else {
            writeln!(out, "{name:24} {layer:14} {}", description.unwrap_or_default())?;
        }
    }
    Ok(Exit::Done)
}
