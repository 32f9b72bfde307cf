//! `fullsend policy suggest`: the lines that would have allowed the refused requests of a run: named networks for the
//! harness if one fits, else the smallest rules for the policy. `--write` adds them and checks the result.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use yaml::Diagnostic;

use super::super::configuration::{Configuration, ConfigurationOptions};
use super::super::exit::{Exit, Failure};
use super::advice::{self, Advice};
use super::edit;
use crate::check::Checked;
use crate::event::Envelope;
use crate::event::log;
use crate::render::workflow_commands::{neutralise, neutralise_json};
use crate::resolve::layers::{LayerKind, LayerPath};

#[derive(Args, Debug)]
pub struct Arguments {
    /// The run: its id, a unique prefix of it, or `latest`
    #[arg(value_name = "RUN", default_value = "latest")]
    run: String,
    /// The policy to add to [default: that of the run's harness, as it is now]
    #[arg(long, value_name = "FILE", conflicts_with = "write")]
    policy: Option<PathBuf>,
    /// Add the lines to the harness and the policy, if the run's requests pass with them
    #[arg(long)]
    write: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Read runs from this directory [default: $XDG_STATE_HOME/fullsend/runs]
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    #[command(flatten)]
    place: ConfigurationOptions,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let runs = arguments.output_dir.clone().map_or_else(super::super::run::runs_directory, Ok)?;
    let run = super::super::runs::find(&runs, &arguments.run)?;
    let events = log::read(&run.log()).map_err(|error| Failure::new(Exit::Invalid, error.to_string()))?;
    if let Some(path) = &arguments.policy {
        let (refused, left_out) = advice::refused(&events);
        let mut advice = Advice { policy_file: path.display().to_string(), left_out, ..Advice::default() };
        advice.add_rules(&super::read(path)?.1, &refused);
        return print(&advice, arguments);
    }
    let mut opened = arguments.place.open()?;
    let checked = check(&mut opened, &events)?;
    let advice = advice::advise(&mut opened.library, &checked, &events);
    print(&advice, arguments)?;
    if arguments.write && !advice.is_empty() {
        write(&opened, &checked, &advice, &events, &arguments.place)?;
    }
    Ok(Exit::Done)
}

/// The harness that ran, as it is now.
fn check(opened: &mut Configuration, events: &[Envelope]) -> Result<Checked, Failure> {
    let mut problems = Vec::new();
    advice::checked(opened, events, &mut problems).ok_or_else(|| {
        problems.retain(Diagnostic::is_error);
        super::super::check::show(&opened.library.sources, &problems);
        let name = advice::harness_of(events).unwrap_or_default();
        Failure::new(Exit::Invalid, format!("the policy of the harness `{name}` cannot be read here"))
            .help("give the repository with --repo, or the policy with --policy")
    })
}

/// YAML to standard output; the names of the files and what is left out to standard error.
fn print(advice: &Advice, arguments: &Arguments) -> Result<Exit, Failure> {
    if arguments.json {
        let Advice { networks, rules, harness_file, policy_file, left_out, all_networks: _ } = advice;
        let object = json!({
            "harness": harness_file, "network": networks, "policy": policy_file, "rules": rules,
            "left_out": left_out,
        });
        writeln!(std::io::stdout().lock(), "{}", neutralise_json(&object.to_string()))?;
        return Ok(Exit::Done);
    }
    for line in &advice.left_out {
        super::super::write_stderr(&format!("nothing is suggested for {line}\n"));
    }
    if advice.is_empty() {
        super::super::write_stderr("nothing to suggest: no refused request can be allowed by a rule\n");
    }
    for (file, lines) in advice.parts() {
        super::super::write_stderr(&format!("# {file}\n"));
        // The names of programs come from inside the sandbox.
        write!(std::io::stdout().lock(), "{}", neutralise(&lines))?;
    }
    Ok(Exit::Done)
}

/// A file before and after.
struct EditedFile {
    path: PathBuf,
    old: Option<String>,
    new: String,
}

/// Adds the lines. If the harness is then not valid, or still does not allow the requests, the files stay as they were.
fn write(
    opened: &Configuration,
    checked: &Checked,
    advice: &Advice,
    events: &[Envelope],
    place: &ConfigurationOptions,
) -> Result<(), Failure> {
    let edits = edits(opened, checked, advice)?;
    for edit in &edits {
        put(&edit.path, &edit.new)?;
    }
    if let Err(failure) = check_again(place, events) {
        for edit in edits {
            match edit.old {
                Some(old) => put(&edit.path, &old)?,
                None => std::fs::remove_file(&edit.path)?,
            }
        }
        return Err(failure);
    }
    for (file, _) in advice.parts() {
        super::super::write_stderr(&format!("wrote {file}\n"));
    }
    Ok(())
}

fn edits(opened: &Configuration, checked: &Checked, advice: &Advice) -> Result<Vec<EditedFile>, Failure> {
    let mut edits = Vec::new();
    if !advice.networks.is_empty()
        && let Some(harness) = checked.resolved.files.first()
    {
        let add = |text: &str| edit::with_networks(text, &advice.networks);
        edits.push(edited(opened, harness, &advice.harness_file, add)?);
    }
    if !advice.rules.is_empty() {
        let add = |text: &str| edit::with_rules(text, &advice.rules);
        edits.push(edited(opened, &checked.policy.found, &advice.policy_file, add)?);
    }
    Ok(edits)
}

/// The file of the repository, or a copy of one that is built in, with more in it.
fn edited(
    opened: &Configuration,
    found: &LayerPath,
    shown: &str,
    add: impl FnOnce(&str) -> Option<String>,
) -> Result<EditedFile, Failure> {
    let paste = |why: &str| {
        Failure::new(Exit::Failed, format!("cannot add to {shown}: {why}"))
            .help("paste the lines above yourself")
    };
    let layers = &opened.library.layers;
    let own = layers.get(LayerKind::Repository).and_then(|layer| layer.path());
    let own = own.ok_or_else(|| paste("the repository has no .fullsend directory"))?;
    if opened.is_of_a_commit() {
        return Err(paste("the files are read from a commit; `--config-ref worktree` reads those on disk"));
    }
    let text = layers.layer(found).read(&found.path).map_err(|error| paste(&error.to_string()))?;
    let new = add(&text).ok_or_else(|| paste("it is written in a form that this command does not change"))?;
    let is_own = found.layer == LayerKind::Repository;
    Ok(EditedFile { path: own.join(&found.path), old: is_own.then(|| text.to_string()), new })
}

fn put(path: &Path, text: &str) -> Result<(), Failure> {
    let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    made.and_then(|()| std::fs::write(path, text)).map_err(|error| {
        Failure::new(Exit::Missing, format!("cannot write {}: {error}", path.display()))
            .help("paste the lines above yourself")
    })
}

/// The harness must be valid and allow the requests.
fn check_again(place: &ConfigurationOptions, events: &[Envelope]) -> Result<(), Failure> {
    let mut opened = place.open()?;
    let checked = check(&mut opened, events)?;
    let left = advice::advise(&mut opened.library, &checked, events);
    if left.is_empty() {
        return Ok(());
    }
    Err(Failure::new(Exit::Failed, "the lines do not allow what was refused; nothing was written")
        .help("the harness, the policy or the organisation's ceiling still refuses them"))
}
