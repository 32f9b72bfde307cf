//! The outputs of a run for the next steps of a CI job, if the CI has a file for them (`GITHUB_OUTPUT`).

use std::io::Write as _;
use std::path::Path;

use super::configuration::variable;
use super::exit::{Exit, Failure};
use crate::event::log;
use crate::event::outcome::OutcomeKind;
use crate::record;
use crate::run::Outcome;

/// The patch beside the accepted output.
const PATCH: &str = "changes.patch";

pub fn write(outcome: &Outcome, output_file: &str) -> Result<(), Failure> {
    let Some(path) = variable("GITHUB_OUTPUT") else { return Ok(()) };
    let one_line = |text: String| text.chars().filter(|letter| !letter.is_control()).collect::<String>();
    let lines: String = values(outcome, output_file)
        .into_iter()
        .map(|(name, value)| format!("{name}={}\n", one_line(value)))
        .collect();
    let written = std::fs::File::options()
        .append(true)
        .create(true)
        .open(&path)
        .and_then(|mut file| file.write_all(lines.as_bytes()));
    written
        .map_err(|error| Failure::new(Exit::Missing, format!("cannot write GITHUB_OUTPUT ({path}): {error}")))
}

fn values(outcome: &Outcome, output_file: &str) -> Vec<(&'static str, String)> {
    let shown = |path: &Path| path.display().to_string();
    let mut values = vec![
        ("outcome", outcome.kind().as_str().to_owned()),
        ("exit_code", outcome.exit().code().to_string()),
        ("skipped", (outcome.kind() == OutcomeKind::Skipped).to_string()),
    ];
    if let Some(directory) = &outcome.directory {
        values.push(("record", shown(directory)));
        values.extend(cost(directory).map(|cost| ("cost", cost)));
    }
    if let Some(artifacts) = &outcome.artifacts {
        let output = artifacts.directory();
        values.push(("result", shown(&output.join(output_file))));
        let patch = output.parent().map(|attempt| attempt.join(PATCH)).filter(|patch| patch.is_file());
        values.extend(patch.map(|patch| ("patch", shown(&patch))));
    }
    values.extend(outcome.review_label.clone().map(|label| ("review_label", label)));
    values
}

/// In dollars. `None` if a model has no price, or none was asked.
fn cost(directory: &Path) -> Option<String> {
    let events = log::read(&directory.join("events.jsonl")).ok()?;
    let usage = record::fold(&events).usage;
    let dollars: Option<Vec<f64>> = usage.values().map(|used| used.usd).collect();
    let dollars = dollars.filter(|dollars| !dollars.is_empty())?;
    Some(format!("{:.6}", dollars.iter().sum::<f64>()))
}
