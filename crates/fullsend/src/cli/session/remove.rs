//! `rm`, `archive` and `prune`: how sessions leave a store.

use std::io::Write;

use clap::Args;
use serde_json::json;
use session::{
    ListFilter, ListedSession, PAGE_LIMIT, RemoveTerms, Seq, SessionId, SessionStatus, Sessions, Timestamp,
};

use super::super::exit::{Exit, Failure};
use super::bundle;
use super::store::{SessionOptions, StoreOptions, failure};
use super::wake::milliseconds;

#[derive(Args, Debug)]
pub struct Remove {
    #[command(flatten)]
    session: SessionOptions,
    /// Remove the session even if it is not terminated
    #[arg(long)]
    force: bool,
}

#[derive(Args, Debug)]
pub struct Archive {
    #[command(flatten)]
    export: bundle::Export,
}

#[derive(Args, Debug)]
pub struct Prune {
    /// Remove terminated sessions whose last event is older than this: a number with s, m, h or d
    #[arg(long, value_name = "TIME")]
    older_than: String,
    /// Print what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON, one object per session
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreOptions,
}

pub fn remove(arguments: &Remove) -> Result<Exit, Failure> {
    let (mut sessions, id) = arguments.session.open()?;
    let terms = if arguments.force { RemoveTerms::Any } else { RemoveTerms::Terminated };
    sessions.remove(id, terms).map_err(failure)?;
    writeln!(std::io::stdout().lock(), "removed {id}")?;
    Ok(Exit::Done)
}

/// Exports a session to a file, terminates it and removes it.
pub fn archive(arguments: &Archive) -> Result<Exit, Failure> {
    if arguments.export.is_standard_output() {
        return Err(Failure::new(Exit::Usage, "an archive needs a file").help("name it with --output FILE"));
    }
    bundle::export_frozen(&arguments.export)?;
    let (mut sessions, id) = arguments.export.session.open()?;
    sessions.remove(id, RemoveTerms::Terminated).map_err(failure)?;
    Ok(Exit::Done)
}

pub fn prune(arguments: &Prune) -> Result<Exit, Failure> {
    let age_ms = milliseconds(&arguments.older_than).and_then(|age| i64::try_from(age).ok());
    let age_ms = age_ms.ok_or_else(|| {
        Failure::new(Exit::Usage, "--older-than: this is not a length of time")
            .help("write a number with s, m, h or d, such as 90d")
    })?;
    let mut sessions = arguments.store.open()?;
    let oldest = Timestamp(sessions.now().map_err(failure)?.0.saturating_sub(age_ms));
    let mut after = None;
    loop {
        let over = ListFilter { status: Some(SessionStatus::Terminated), ..ListFilter::default() };
        let page = sessions.list_filtered(&over, after, PAGE_LIMIT).map_err(failure)?;
        let Some(last) = page.last() else { return Ok(Exit::Done) };
        after = Some(last.id());
        for listed in &page {
            prune_one(&mut sessions, listed, oldest, arguments)?;
        }
    }
}

fn prune_one(
    sessions: &mut Sessions,
    listed: &ListedSession,
    oldest: Timestamp,
    arguments: &Prune,
) -> Result<(), Failure> {
    let ListedSession::Readable(session) = listed else { return Ok(()) };
    let id: SessionId = session.header.id;
    let before = Seq(session.state.head.0.saturating_sub(1));
    let last = sessions.events(id, before, 1).map_err(failure)?;
    if last.first().is_none_or(|event| event.time_ms > oldest) {
        return Ok(());
    }
    if !arguments.dry_run {
        sessions.remove(id, RemoveTerms::Terminated).map_err(failure)?;
    }
    let mut out = std::io::stdout().lock();
    if arguments.json {
        writeln!(out, "{}", json!({ "id": id, "removed": !arguments.dry_run }))?;
    } else {
        writeln!(out, "{} {id}", if arguments.dry_run { "would remove" } else { "removed" })?;
    }
    Ok(())
}
