//! `fullsend trigger`: which harnesses an event starts, and which commit it is about.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;
use trigger::{Trigger, TriggerEvent};
use yaml::Diagnostic;

use super::configuration::{Configuration, ConfigurationOptions};
use super::event_file;
use super::exit::{Exit, Failure};
use crate::render::diagnostics::clean_text;
use crate::resolve::resolve;
use crate::serve::EvaluatedTrigger;

#[derive(Args, Debug)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Test which harnesses an event starts, by their `trigger`
    #[command(after_help = "Example:\n  fullsend trigger test --event payload.json --kind issues")]
    Test(TestArguments),
    /// Print the git ref of the pull or merge request of an event; print nothing if there is none
    #[command(after_help = "Example:\n  fullsend trigger head --event payload.json --kind issue_comment")]
    Head(EventArguments),
}

#[derive(Args, Debug)]
struct EventArguments {
    /// Read the event from this file: a forge's webhook payload, or without --kind an event as docs/triggers.md describes it
    #[arg(long, value_name = "FILE")]
    event: PathBuf,
    /// The kind of the event: the value of the header `X-GitHub-Event` or `X-Gitlab-Event` [default for GitLab: what the file says]
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
}

#[derive(Args, Debug)]
struct TestArguments {
    /// Test only this harness
    #[arg(value_name = "HARNESS")]
    harness: Option<String>,
    #[command(flatten)]
    event: EventArguments,
    /// Start nothing unless the person behind the event may write to the repository; `serve` does the same
    #[arg(long)]
    by_writers: bool,
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
    /// Print the names of the harnesses that start, as one JSON array
    #[arg(long, conflicts_with = "json")]
    list: bool,
    #[command(flatten)]
    place: ConfigurationOptions,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    match &arguments.command {
        Command::Test(arguments) => test(arguments),
        Command::Head(arguments) => {
            let event = event_file::read(&arguments.event, arguments.kind.as_deref())?;
            if let Some(name) = event.and_then(|event| event.head_ref()) {
                writeln!(std::io::stdout().lock(), "{name}")?;
            }
            Ok(Exit::Done)
        }
    }
}

fn test(arguments: &TestArguments) -> Result<Exit, Failure> {
    let EventArguments { event: path, kind } = &arguments.event;
    let event = event_file::read(path, kind.as_deref())?;
    let evaluated = match &event {
        None if arguments.list => {
            super::write_stderr("triggers do not support this kind of event\n");
            Vec::new()
        }
        None => return Err(starts_nothing(path, kind.as_deref())),
        Some(event) if arguments.by_writers && !event.is_authorized() => {
            super::write_stderr("the forge does not say that the actor may write to the repository\n");
            Vec::new()
        }
        Some(event) => {
            let evaluated = evaluate(&mut arguments.place.open()?, event, arguments.harness.as_deref());
            if evaluated.is_empty() {
                super::write_stderr("no harness has a `trigger`\n");
            }
            evaluated
        }
    };
    if arguments.list { print_list(&evaluated) } else { print_each(&evaluated, arguments.json) }
}

/// The names that start. Why others do not goes to standard error.
fn print_list(evaluated: &[EvaluatedTrigger]) -> Result<Exit, Failure> {
    let mut names = Vec::new();
    for EvaluatedTrigger { harness, starts } in evaluated {
        match starts {
            Ok(true) => names.push(harness.as_str()),
            Ok(false) => {}
            Err(why) => super::write_stderr(&format!("{harness} does not start: {}\n", clean_text(why))),
        }
    }
    writeln!(std::io::stdout().lock(), "{}", json!(names))?;
    Ok(Exit::Done)
}

fn print_each(evaluated: &[EvaluatedTrigger], as_json: bool) -> Result<Exit, Failure> {
    let mut out = std::io::stdout().lock();
    for EvaluatedTrigger { harness, starts } in evaluated {
        if as_json {
            let error = starts.as_ref().err();
            let starts = starts.as_ref().is_ok_and(|starts| *starts);
            writeln!(out, "{}", json!({ "harness": harness, "starts": starts, "error": error }))?;
        } else {
            let answer = match starts {
                Ok(true) => "starts".to_owned(),
                Ok(false) => "does not start".to_owned(),
                Err(why) => format!("does not start: {why}"),
            };
            writeln!(out, "{}", clean_text(&format!("{harness:24} {answer}")))?;
        }
    }
    Ok(Exit::Done)
}

fn starts_nothing(path: &Path, kind: Option<&str>) -> Failure {
    let kind = kind.map_or_else(String::new, |kind| format!(" `{kind}`"));
    Failure::new(Exit::Invalid, format!("an event{kind} like that in {} starts nothing", path.display()))
        .help("triggers see issues, pull requests, comments and reviews, such as --kind issues or --kind \"Issue Hook\"")
}

/// What the triggers of all harnesses say, or of one. A harness without a trigger is not listed.
pub fn evaluate(
    opened: &mut Configuration,
    event: &TriggerEvent,
    only: Option<&str>,
) -> Vec<EvaluatedTrigger> {
    let names = opened.library.layers.names("harness");
    let names = names.into_iter().filter(|name| only.is_none_or(|only| only == name));
    names
        .filter_map(|harness| {
            let starts = starts(opened, &harness, event)?;
            Some(EvaluatedTrigger { harness, starts })
        })
        .collect()
}

/// `None`: the harness has no trigger.
fn starts(opened: &mut Configuration, name: &str, event: &TriggerEvent) -> Option<Result<bool, String>> {
    let mut problems = Vec::new();
    let resolved = resolve(&mut opened.library, name, &opened.choices, &mut problems);
    let Some(resolved) = resolved.filter(|_| !problems.iter().any(Diagnostic::is_error)) else {
        return Some(Err(format!("it cannot be read: `fullsend check {name}` says why")));
    };
    let text = resolved.harness.trigger?.value;
    let answer = Trigger::compile(&text).and_then(|trigger| trigger.matches(event));
    Some(answer.map_err(|error| error.to_string()))
}
