//! `fullsend sandbox list`, `show`, `logs` and `rm`.

use std::io::Write;

use clap::Args;
use serde_json::{Value as Json, json};

use super::super::always_json::AlwaysJson;
use super::super::exit::{Exit, Failure};
use super::super::sandbox_options::failed;
use crate::event::Envelope;
use crate::event::log;
use crate::lasting::client::SandboxClient;
use crate::lasting::directory::{EVENTS, LastingDirectory, LastingSandbox, LastingState};
use crate::render::diagnostics::clean_text;

#[derive(Args, Debug)]
pub struct ListArguments {
    /// List the sandboxes that have ended too
    #[arg(long)]
    all: bool,
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub struct OneArgument {
    /// The sandbox: its id, a unique prefix of its id, or its name
    #[arg(value_name = "SANDBOX")]
    sandbox: String,
    #[command(flatten)]
    always: AlwaysJson,
}

#[derive(Args, Debug)]
pub struct RemoveArguments {
    /// The sandboxes: ids, unique prefixes of ids, or names
    #[arg(value_name = "SANDBOX", required_unless_present = "all")]
    sandboxes: Vec<String>,
    /// Remove every sandbox that runs
    #[arg(long, conflicts_with = "sandboxes")]
    all: bool,
}

fn opened() -> Result<LastingDirectory, Failure> {
    let all = LastingDirectory::open(&super::root()?).map_err(|error| super::not_found(&error))?;
    for problem in all.sweep() {
        super::super::write_stderr(&format!("warning: cannot clean up {problem}\n"));
    }
    Ok(all)
}

/// What a program sees of a sandbox.
pub fn described(sandbox: &LastingSandbox) -> Json {
    let manifest = serde_json::to_value(&sandbox.manifest).unwrap_or_default();
    let mut fields = serde_json::Map::from_iter([("state".to_owned(), json!(sandbox.state.as_str()))]);
    if let Json::Object(more) = manifest {
        fields.extend(more);
    }
    Json::Object(fields)
}

pub fn list(arguments: &ListArguments) -> Result<Exit, Failure> {
    let mut out = std::io::stdout().lock();
    for sandbox in opened()?.list().map_err(|error| super::not_found(&error))? {
        if sandbox.state == LastingState::Ended && !arguments.all {
            continue;
        }
        if arguments.json {
            writeln!(out, "{}", described(&sandbox))?;
            continue;
        }
        let manifest = &sandbox.manifest;
        let name = manifest.name.as_deref().unwrap_or("-");
        let line = format!("{}  {:7}  {}  {name}", manifest.id, sandbox.state.as_str(), manifest.expires);
        writeln!(out, "{}", clean_text(&line))?;
    }
    Ok(Exit::Done)
}

pub fn show(arguments: &OneArgument) -> Result<Exit, Failure> {
    let found = opened()?.find(&arguments.sandbox).map_err(|error| super::not_found(&error))?;
    let mut shown = described(&found);
    if let (Ok(client), Json::Object(fields)) = (SandboxClient::open(&found), &mut shown) {
        let commands = client.status().map_err(|error| super::refused(&error))?;
        fields.insert("commands".to_owned(), json!(commands));
    }
    let text = serde_json::to_string_pretty(&shown).unwrap_or_default();
    writeln!(std::io::stdout(), "{text}")?;
    Ok(Exit::Done)
}

/// The events of a sandbox, with their chain checked.
pub fn events(found: &LastingSandbox) -> Result<Vec<Envelope>, Failure> {
    log::read(&found.path.join(EVENTS)).map_err(|error| failed(error.to_string()))
}

pub fn logs(arguments: &OneArgument) -> Result<Exit, Failure> {
    let found = opened()?.find(&arguments.sandbox).map_err(|error| super::not_found(&error))?;
    let mut out = std::io::stdout().lock();
    for envelope in events(&found)? {
        let line = serde_json::to_string(&envelope).unwrap_or_default();
        writeln!(out, "{line}")?;
    }
    Ok(Exit::Done)
}

pub fn remove(arguments: &RemoveArguments) -> Result<Exit, Failure> {
    let all = opened()?;
    let found = if arguments.all {
        let mut running = all.list().map_err(|error| super::not_found(&error))?;
        running.retain(|sandbox| sandbox.state == LastingState::Running);
        running
    } else {
        let each = arguments.sandboxes.iter().map(|name| all.find(name));
        each.collect::<Result<_, _>>().map_err(|error| super::not_found(&error))?
    };
    for sandbox in found {
        // One that has ended is gone already.
        if sandbox.state == LastingState::Running {
            let client = SandboxClient::open(&sandbox).map_err(|error| super::refused(&error))?;
            client.remove().map_err(|error| super::refused(&error))?;
        }
    }
    Ok(Exit::Done)
}
