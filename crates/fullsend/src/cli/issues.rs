//! `fullsend issues`: reads an issue of any tracker in one form, and comments on it.

use std::io::Write;

use clap::{Args, Subcommand};

use super::always_json::AlwaysJson;
use super::exit::{Exit, Failure};
use super::forge_options::{Place, TextOptions, TrackerName, failed};
use super::post_comment;
use crate::render::workflow_commands::neutralise_json;

#[derive(Args, Debug)]
pub struct Arguments {
    #[command(subcommand)]
    command: IssueCommand,
}

#[derive(Debug, Subcommand)]
enum IssueCommand {
    /// Print an issue and its comments as JSON
    #[command(after_help = "Example:\n  fullsend issues get --tracker jira --project ACME --number 7")]
    Get(GetOptions),
    /// Write a comment, or update the one with the same marker
    #[command(
        after_help = "Example:\n  fullsend issues post-comment --tracker gitlab --project acme/widgets --number 7 --marker '<!-- triage -->' --result summary.md"
    )]
    PostComment(PostOptions),
}

#[derive(Args, Debug)]
struct IssueOptions {
    /// The tracker: github, gitlab or jira [default: detected from the CI, else github]
    #[arg(long, value_parser = TrackerName::parse)]
    tracker: Option<TrackerName>,
    /// The project: OWNER/NAME, or a Jira project key
    #[arg(long, alias = "repo")]
    project: String,
    /// The number of the issue
    #[arg(long)]
    number: String,
    #[command(flatten)]
    place: Place,
}

#[derive(Args, Debug)]
struct GetOptions {
    #[command(flatten)]
    issue: IssueOptions,
    #[command(flatten)]
    always: AlwaysJson,
}

#[derive(Args, Debug)]
struct PostOptions {
    #[command(flatten)]
    issue: IssueOptions,
    /// A text that identifies this comment
    #[arg(long)]
    marker: String,
    #[command(flatten)]
    result: TextOptions,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    match &arguments.command {
        IssueCommand::Get(GetOptions { issue: options, .. }) => {
            let IssueOptions { tracker, project, number, place } = options;
            let tracker = place.tracker(*tracker, project, number)?;
            let issue = tracker.issue().map_err(|error| failed(&error))?;
            let text = serde_json::to_string_pretty(&issue).unwrap_or_default();
            writeln!(std::io::stdout().lock(), "{}", neutralise_json(&text))?;
            Ok(Exit::Done)
        }
        IssueCommand::PostComment(PostOptions { issue, marker, result }) => {
            let tracker = issue.place.tracker(issue.tracker, &issue.project, &issue.number)?;
            post_comment::post(tracker.as_ref(), marker, result)
        }
    }
}
