//! `session dead`: the inputs that were given up. A person can look at them, retry them or drop them.

use std::io::Write;

use clap::{Args, Subcommand};
use session::{DeadLetterAction, Seq, SeqSet};

use super::super::always_json::AlwaysJson;
use super::super::exit::{Exit, Failure};
use super::store::{SessionOptions, failure, time_seed};
use crate::render::workflow_commands::neutralise_json;

#[derive(Args, Debug)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the dead letters of a session, one JSON object per line
    #[command(after_help = "Example: fullsend session dead list ID")]
    List(List),
    /// Show one dead letter and the error that ended it
    #[command(after_help = "Example: fullsend session dead show ID 7")]
    Show(Show),
    /// Retry dead letters: make them pending again
    #[command(after_help = "Example: fullsend session dead retry ID 7")]
    Retry(DeadLetterArguments),
    /// Drop dead letters for good
    #[command(after_help = "Example: fullsend session dead drop ID 7")]
    Drop(DeadLetterArguments),
}

#[derive(Args, Debug)]
struct List {
    #[command(flatten)]
    session: SessionOptions,
    #[command(flatten)]
    always: AlwaysJson,
}

#[derive(Args, Debug)]
struct Show {
    #[command(flatten)]
    session: SessionOptions,
    /// The sequence number of the input
    #[arg(value_name = "SEQ")]
    seq: u64,
    #[command(flatten)]
    always: AlwaysJson,
}

#[derive(Args, Debug)]
struct DeadLetterArguments {
    #[command(flatten)]
    session: SessionOptions,
    /// The sequence numbers of the inputs [default: all dead letters]
    #[arg(value_name = "SEQ")]
    seqs: Vec<u64>,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    match &arguments.command {
        Command::List(List { session, .. }) => list(session, None),
        Command::Show(Show { session, seq, .. }) => list(session, Some(Seq(*seq))),
        Command::Retry(selected) => act(selected, DeadLetterAction::Retry),
        Command::Drop(selected) => act(selected, DeadLetterAction::Drop),
    }
}

fn list(options: &SessionOptions, only: Option<Seq>) -> Result<Exit, Failure> {
    let (mut sessions, id) = options.open()?;
    let state = sessions.session(id).map_err(failure)?.state;
    if let Some(seq) = only
        && !state.dead.contains(seq)
    {
        return Err(Failure::new(Exit::Usage, format!("event {} is not a dead letter", seq.0))
            .help("`fullsend session dead list` lists the dead letters"));
    }
    let mut out = std::io::stdout().lock();
    for seq in state.dead.iter().filter(|seq| only.is_none_or(|only| only == *seq)) {
        let before = Seq(seq.0.saturating_sub(1));
        for event in sessions.events(id, before, 1).map_err(failure)? {
            let line = serde_json::to_string(&event).unwrap_or_default();
            writeln!(out, "{}", neutralise_json(&line))?;
        }
    }
    Ok(Exit::Done)
}

fn act(selected: &DeadLetterArguments, action: DeadLetterAction) -> Result<Exit, Failure> {
    let DeadLetterArguments { session: options, seqs } = selected;
    let (mut sessions, id) = options.open()?;
    let dead = sessions.session(id).map_err(failure)?.state.dead;
    let mut wanted = seqs.clone();
    wanted.sort_unstable();
    wanted.dedup();
    let inputs: SeqSet = if wanted.is_empty() { dead } else { wanted.into_iter().map(Seq).collect() };
    let mut seed = time_seed(&mut sessions)?;
    let count = inputs.len();
    sessions.dead_letters(id, action, &inputs, &mut seed).map_err(failure)?;
    let done = match action {
        DeadLetterAction::Retry => "pending again",
        DeadLetterAction::Drop => "dropped",
    };
    writeln!(std::io::stdout().lock(), "{count} {done}")?;
    Ok(Exit::Done)
}
