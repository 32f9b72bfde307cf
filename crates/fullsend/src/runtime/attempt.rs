//! One run of the agent: how it ended, its conversation and its logs.

use std::path::Path;

use serde_json::Value as Json;

use super::state::StateFile;
use crate::backend::CommandError;
use crate::guard::{Blocked, Guard};

/// One run of the agent, however it ended. Only a runtime makes one, so that nothing is quarantined without an agent.
///
/// ```compile_fail
/// use fullsend::runtime::{Attempt, Ending};
///
/// let made_up = Attempt { iteration: 1, ending: Ending::Finished, conversation: None, logs: Vec::new(), turns: 1 };
/// ```
#[derive(Clone, Debug)]
pub struct Attempt {
    pub(super) iteration: u32,
    pub(super) ending: Ending,
    pub(super) conversation: Option<Conversation>,
    /// The runtime's own logs, by name.
    pub(super) logs: Vec<StateFile>,
    pub(super) turns: u64,
}

impl Attempt {
    /// Its number in the run, from 1.
    pub fn iteration(&self) -> u32 {
        self.iteration
    }

    pub fn ending(&self) -> &Ending {
        &self.ending
    }

    /// The conversation to continue, if that is possible.
    pub fn conversation(&self) -> Option<&Conversation> {
        self.conversation.as_ref()
    }

    pub fn turns(&self) -> u64 {
        self.turns
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The agent returned its result.
    Finished,
    /// It stopped without a result.
    Stopped {
        last_words: String,
    },
    Failed {
        why: String,
    },
    Timeout,
    /// The caller cancelled the run.
    Interrupted,
}

/// A conversation in the runtime's own format, unredacted. People see a redacted copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conversation {
    /// The runtime's name for it.
    pub id: String,
    /// Below the runtime's configuration directory.
    pub files: Vec<StateFile>,
}

#[derive(Debug)]
pub enum RuntimeError {
    Start(CommandError),
    Stream(std::io::Error),
    State { what: &'static str, source: std::io::Error },
}

impl std::fmt::Display for RuntimeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Start(error) => write!(f, "the agent cannot be started: {error}"),
            Self::Stream(error) => write!(f, "the agent's output cannot be read: {error}"),
            Self::State { what, source } => write!(f, "{what}: {source}"),
        }
    }
}

impl std::error::Error for RuntimeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Start(error) => Some(error),
            Self::Stream(error) | Self::State { source: error, .. } => Some(error),
        }
    }
}

/// The ids of the calls whose results a conversation holds.
pub fn past_calls(conversation: &Conversation) -> Vec<String> {
    fn collect(value: &Json, ids: &mut Vec<String>) {
        match value {
            Json::Object(fields) => {
                let named =
                    ["tool_use_id", "call_id"].into_iter().filter_map(|key| fields.get(key)?.as_str());
                ids.extend(named.map(str::to_owned));
                fields.values().for_each(|field| collect(field, ids));
            }
            Json::Array(items) => items.iter().for_each(|item| collect(item, ids)),
            _ => {}
        }
    }
    let mut ids = Vec::new();
    for file in &conversation.files {
        let text = String::from_utf8_lossy(&file.contents);
        // One document, or one on each line.
        match serde_json::from_str(&text) {
            Ok(document) => collect(&document, &mut ids),
            Err(_) => text
                .lines()
                .filter_map(|line| serde_json::from_str(line).ok())
                .for_each(|line| collect(&line, &mut ids)),
        }
    }
    ids
}

/// The transcripts and logs of an attempt, by the names under which they are kept.
fn logs(attempt: &Attempt) -> impl Iterator<Item = (String, &StateFile)> {
    let conversation = attempt.conversation.iter().flat_map(|conversation| &conversation.files);
    let transcripts = conversation.map(|file| (format!("transcripts/{}", name_of(&file.path)), file));
    transcripts.chain(attempt.logs.iter().map(|file| (file.path.clone(), file)))
}

/// Reports what the guard finds in transcripts and logs.
pub fn review_logs(attempt: &Attempt, guard: &Guard) -> Result<(), Blocked> {
    logs(attempt).try_for_each(|(name, file)| guard.review(&file.contents, &name))
}

/// Keeps transcripts and logs, redacted, in the attempt's directory.
pub fn keep_logs(attempt: &Attempt, directory: &Path, guard: &Guard) -> std::io::Result<()> {
    for (name, file) in logs(attempt) {
        let path = directory.join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(directory))?;
        std::fs::write(path, redacted(&file.contents, guard))?;
    }
    Ok(())
}

/// Transcripts are kept in one directory; the agent chose the directories they were in.
fn name_of(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').collect();
    parts[parts.len().saturating_sub(2)..].join("-").trim_start_matches('.').to_owned()
}

/// Line by line, so that JSON lines stay JSON lines. What is broken into lines is overwritten before.
fn redacted(contents: &[u8], guard: &Guard) -> String {
    let contents = guard.mask_over_lines(contents);
    let text = String::from_utf8_lossy(&contents);
    let lines = text.lines().map(|line| {
        let json = line.starts_with(['{', '[']);
        let clean = if json { guard.redact_json(line) } else { guard.redact(line) };
        format!("{clean}\n")
    });
    lines.collect()
}
