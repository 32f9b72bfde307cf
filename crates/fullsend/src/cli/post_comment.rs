//! `fullsend post-comment`: the comment of a run on an issue or a pull request, written once and changed afterwards.

use std::io::Write;

use clap::Args;

use super::exit::{Exit, Failure};
use super::forge_options::{Place, TextOptions, TrackerName, failed};
use crate::forge::comment::{self, Mode};

#[derive(Args, Debug)]
pub struct Arguments {
    /// The repository, as OWNER/NAME
    #[arg(long, value_name = "OWNER/NAME")]
    repo: String,
    /// The number of the issue or pull request
    #[arg(long)]
    number: String,
    /// A text that identifies this comment, such as `<!-- acme:triage -->`
    #[arg(long)]
    marker: String,
    /// The forge: github or gitlab [default: detected from the CI, else github]
    #[arg(long, value_parser = TrackerName::parse)]
    forge: Option<TrackerName>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    result: TextOptions,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let tracker = arguments.place.tracker(arguments.forge, &arguments.repo, &arguments.number)?;
    post(tracker.as_ref(), &arguments.marker, &arguments.result)
}

/// Posts and says what was done.
pub fn post(
    tracker: &dyn crate::forge::Tracker,
    marker: &str,
    result: &TextOptions,
) -> Result<Exit, Failure> {
    if marker.trim().is_empty() {
        return Err(Failure::new(Exit::Usage, "--marker is empty: every comment would match it"));
    }
    let text = result.text()?;
    let mode = result.mode();
    let steps = comment::post(tracker, marker.trim(), &text, mode).map_err(|error| failed(&error))?;
    let would = if mode == Mode::DryRun { "would " } else { "" };
    for step in steps.iter().filter(|_| !result.silent) {
        writeln!(std::io::stdout().lock(), "{would}{step}")?;
    }
    Ok(Exit::Done)
}
