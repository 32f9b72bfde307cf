//! What the page of a run shows, read from the run's directory: events, record, conversations, patches, results and
//! configuration. Sizes are bounded; nothing is written.

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use super::configuration::SavedConfiguration;
use super::conversation::{self, ConversationRecord};
use super::store::StoredRun;
use super::{Record, files, statement, verify};
use crate::event::log::{self, LogError};
use crate::event::{Envelope, RunEvent};

/// The version of the data in a page.
pub const VERSION: u32 = 1;

/// A longer patch or result is cut.
const MAX_FILE_BYTES: usize = 512 << 10;
const MAX_RESULTS: usize = 50;

/// Everything that a page shows of one run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunPage {
    pub v: u32,
    pub run: Record,
    pub verification: Verification,
    pub events: Vec<PageEvent>,
    pub conversations: Vec<ConversationRecord>,
    pub patches: Vec<AttemptFile>,
    pub results: Vec<AttemptFile>,
    /// Absent in runs of earlier versions.
    pub configuration: Option<SavedConfiguration>,
}

/// Whether the record is valid, as `fullsend runs verify` checks it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Verification {
    pub status: VerificationStatus,
    pub problems: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VerificationStatus {
    /// The chain of events, the record and every digest are valid.
    Verified,
    /// The same, and the run is signed. Only `fullsend runs verify --key` checks by whom.
    Signed,
    /// The run still goes on.
    Running,
    Changed,
}

/// One event without the digests of the chain.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PageEvent {
    pub seq: u64,
    pub time: String,
    #[serde(flatten)]
    pub event: RunEvent,
}

impl From<Envelope> for PageEvent {
    fn from(envelope: Envelope) -> Self {
        Self { seq: envelope.seq, time: envelope.time, event: envelope.event }
    }
}

/// A file that an attempt left: a patch or a result.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AttemptFile {
    pub iteration: u32,
    /// Below the run's directory.
    pub path: String,
    pub accepted: bool,
    pub text: String,
}

impl RunPage {
    pub fn load(run: &StoredRun) -> Result<Self, LogError> {
        let events = log::read(&run.log())?;
        let record = super::fold(&events);
        Ok(Self {
            v: VERSION,
            verification: verification(run),
            conversations: conversation::load(&run.path),
            patches: patches(run),
            results: results(run),
            configuration: SavedConfiguration::load(&run.path),
            run: record,
            events: events.into_iter().map(PageEvent::from).collect(),
        })
    }
}

fn verification(run: &StoredRun) -> Verification {
    if matches!(run.is_alive(), Ok(true)) {
        return Verification { status: VerificationStatus::Running, problems: Vec::new() };
    }
    let problems = verify::verify(run, None);
    let status = match problems.is_empty() {
        true if statement::is_signed(run) => VerificationStatus::Signed,
        true => VerificationStatus::Verified,
        false => VerificationStatus::Changed,
    };
    Verification { status, problems }
}

fn patches(run: &StoredRun) -> Vec<AttemptFile> {
    let mut found = Vec::new();
    for (iteration, directory) in files::attempts(&run.path) {
        for name in ["changes.patch", "rejected.patch", "partial.patch"] {
            let accepted = name == "changes.patch";
            found.extend(read(iteration, &directory, name, accepted));
        }
    }
    found
}

/// The files that the agent returned, by attempt.
fn results(run: &StoredRun) -> Vec<AttemptFile> {
    let mut found = Vec::new();
    for (iteration, directory) in files::attempts(&run.path) {
        for folder in ["output", "rejected", "partial"] {
            let mut names = Vec::new();
            verify::files_below(&directory.join(folder), folder, &mut names);
            names.sort();
            let accepted = folder == "output";
            found.extend(names.iter().filter_map(|name| read(iteration, &directory, name, accepted)));
        }
    }
    found.truncate(MAX_RESULTS);
    found
}

/// The agent chose the contents of the file, and perhaps its name: no link is followed.
fn read(iteration: u32, directory: &Path, name: &str, accepted: bool) -> Option<AttemptFile> {
    let path = directory.join(name);
    if !std::fs::symlink_metadata(&path).is_ok_and(|about| about.is_file()) {
        return None;
    }
    let bytes = std::fs::read(path).ok()?;
    let text = match std::str::from_utf8(&bytes) {
        Ok(text) if text.len() > MAX_FILE_BYTES => {
            let start = text.floor_char_boundary(MAX_FILE_BYTES);
            format!("{}\n… (shortened from {} bytes)\n", &text[..start], text.len())
        }
        Ok(text) => text.to_owned(),
        Err(_) => format!("({} bytes that are not text)\n", bytes.len()),
    };
    Some(AttemptFile { iteration, path: format!("iteration-{iteration}/{name}"), accepted, text })
}
