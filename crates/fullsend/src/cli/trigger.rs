//! `fullsend trigger test`: which harnesses an event would start.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};
use trigger::{Trigger, TriggerEvent};
use yaml::Diagnostic;

use super::configuration::{Configuration, ConfigurationOptions};
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
}

#[derive(Args, Debug)]
struct TestArguments {
    /// Test only this harness
    #[arg(value_name = "HARNESS")]
    harness: Option<String>,
    /// The file with the event: what a forge sends, or with no --kind an event as triggers see it
    #[arg(long, value_name = "FILE")]
    event: PathBuf,
    /// What the forge calls the event: `X-GitHub-Event` or `X-Gitlab-Event`
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: ConfigurationOptions,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let Command::Test(arguments) = &arguments.command;
    let event = read(arguments)?;
    let mut opened = arguments.place.open()?;
    let evaluated = evaluate(&mut opened, &event, arguments.harness.as_deref());
    if evaluated.is_empty() {
        super::write_stderr("no harness has a `trigger`\n");
    }
    let mut out = std::io::stdout().lock();
    for EvaluatedTrigger { harness, starts } in &evaluated {
        if arguments.json {
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

fn read(arguments: &TestArguments) -> Result<TriggerEvent, Failure> {
    let shown = arguments.event.display();
    let text = std::fs::read_to_string(&arguments.event)
        .map_err(|error| Failure::new(Exit::Missing, format!("cannot read {shown}: {error}")))?;
    let payload: Json = serde_json::from_str(&text)
        .map_err(|error| Failure::new(Exit::Invalid, format!("{shown} is not JSON: {error}")))?;
    let Some(kind) = &arguments.kind else { return Ok(TriggerEvent::normalized(payload)) };
    // Only GitLab's kinds have this word.
    let event = if kind.ends_with(" Hook") {
        TriggerEvent::of_gitlab(kind, &payload)
    } else {
        TriggerEvent::of_github(kind, &payload)
    };
    event.ok_or_else(|| {
        Failure::new(Exit::Invalid, format!("an event `{kind}` like that in {shown} starts nothing"))
            .help("triggers see issues, pull requests, comments and reviews, such as --kind issues or --kind \"Issue Hook\"")
    })
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
