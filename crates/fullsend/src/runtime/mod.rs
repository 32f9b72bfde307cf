//! Who thinks. One folder per runtime behind one contract: say what it needs inside, start it there with a task, turn its
//! stream into events, and come back with an `Attempt`. Nothing here makes a sandbox or judges the output.

pub mod claude;
pub mod codex;
pub mod contract;
pub mod executable;
mod handin;
pub mod inside;
pub mod install;
pub mod matrix;
mod mcp;
pub mod native;
pub mod options;
mod process;
pub mod programs;
pub mod prompt;
mod schema;
mod skills;
pub mod state;
pub mod stream;

use std::path::Path;
use std::time::Duration;

use sandbox::{Mount, Sandbox};
use serde_json::Value as Json;

use crate::cancel::Cancel;
use crate::event::log::Emitter;
use crate::guard::{Barred, Guard};
use crate::harness::names::RuntimeName;
use crate::inputs::Cleared;
use executable::Executable;
use programs::Program;
use state::StateFile;

/// Where an agent is started: made by the bootstrap, when everything is in its place.
pub struct Scene<'a> {
    pub cleared: &'a Cleared,
    pub sandbox: &'a Sandbox,
    pub guard: &'a Guard,
    /// Whoever started the run may want it to end.
    pub cancel: &'a Cancel,
    pub program: Option<&'a Executable>,
    /// The repository's directory inside.
    pub repository: &'a str,
}

/// What the agent is asked to do, once.
#[derive(Clone, Debug)]
pub struct Task {
    pub iteration: u32,
    /// What the caller tells the agent beside its task.
    pub context: Option<String>,
    /// Why the last output was rejected.
    pub feedback: Option<String>,
    /// The conversation to continue.
    pub conversation: Option<Conversation>,
    /// What is left of the run's time.
    pub time: Duration,
}

/// A conversation in the runtime's own form, as it was; never shown to anybody. What is shown is a redacted copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conversation {
    /// The runtime's name for it.
    pub id: String,
    /// Below the runtime's configuration directory.
    pub files: Vec<StateFile>,
}

/// One run of the agent, however it ended.
#[derive(Clone, Debug)]
pub struct Attempt {
    pub iteration: u32,
    pub ending: Ending,
    pub conversation: Option<Conversation>,
    /// What the runtime wrote about itself, by name.
    pub logs: Vec<StateFile>,
    pub turns: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The agent says that it is done.
    Finished,
    /// It stopped talking without finishing.
    Stopped {
        last_words: String,
    },
    Failed {
        why: String,
    },
    Timeout,
    /// Whoever started the run ended it.
    Interrupted,
}

#[derive(Debug)]
pub enum RuntimeError {
    Start(sandbox::ExecError),
    Stream(std::io::Error),
    State { what: &'static str, source: std::io::Error },
}

impl std::fmt::Display for RuntimeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Start(error) => write!(f, "the agent could not be started: {error}"),
            Self::Stream(error) => write!(f, "the agent's stream broke: {error}"),
            Self::State { what, source } => write!(f, "{what}: {source}"),
        }
    }
}

impl std::error::Error for RuntimeError {}

/// What a runtime is fitted out from, before there is a sandbox.
pub struct Outfit<'a> {
    pub cleared: &'a Cleared,
    pub guard: &'a Guard,
    /// Of the host, to be mounted.
    pub program: Option<&'a Program>,
    /// A directory on the host whose files appear read-only inside.
    pub staging: &'a Path,
    /// The repository on the host, and where it will be.
    pub repository: &'a Path,
    pub repository_inside: &'a str,
    /// The host's environment, for `${VAR}`.
    pub value: &'a dyn Fn(&str) -> Option<String>,
}

/// What must be in the sandbox from its start, beside the agent and its skills.
pub fn mounts(outfit: &Outfit<'_>) -> std::io::Result<Vec<Mount>> {
    let mut mounts = Vec::new();
    if let Some(program) = outfit.program {
        let kind = sandbox::MountKind::ReadOnly { source: program.directory.clone() };
        mounts.push(Mount { target: inside::RUNTIME_PROGRAM.into(), kind });
    }
    mounts.extend(match outfit.cleared.checked.resolved.harness.runtime.value {
        RuntimeName::Claude => claude::settings::mounts(outfit)?,
        RuntimeName::Codex => codex::settings::mounts(outfit)?,
        RuntimeName::Native => native::settings::mounts(outfit)?,
    });
    Ok(mounts)
}

/// A directory with this one file, in place of whatever an image has there: programs read further files of the same
/// rank beside it.
fn alone(outfit: &Outfit<'_>, directory: &str, file: &str, contents: &str) -> std::io::Result<Mount> {
    let source = outfit.staging.join("managed");
    std::fs::create_dir_all(&source)?;
    std::fs::write(source.join(file), contents)?;
    Ok(Mount { target: directory.into(), kind: sandbox::MountKind::ReadOnly { source } })
}

/// Runs the agent once.
pub fn attempt(scene: &Scene<'_>, task: &Task, emit: &Emitter) -> Result<Attempt, RuntimeError> {
    match scene.cleared.checked.resolved.harness.runtime.value {
        RuntimeName::Claude => claude::launch::attempt(scene, task, emit),
        RuntimeName::Codex => codex::launch::attempt(scene, task, emit),
        RuntimeName::Native => native::launch::attempt(scene, task, emit),
    }
}

/// The calls whose results a conversation holds, by whatever name its runtime has for them.
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

/// What an attempt left to read, by the names under which it is kept.
fn logs(attempt: &Attempt) -> impl Iterator<Item = (String, &StateFile)> {
    let conversation = attempt.conversation.iter().flat_map(|conversation| &conversation.files);
    let transcripts = conversation.map(|file| (format!("transcripts/{}", name_of(&file.path)), file));
    transcripts.chain(attempt.logs.iter().map(|file| (file.path.clone(), file)))
}

/// Has the guard tell what stands in there.
pub fn review_logs(attempt: &Attempt, guard: &Guard) -> Result<(), Barred> {
    logs(attempt).try_for_each(|(name, file)| guard.review(&file.contents, &name))
}

/// Keeps it, redacted, in the attempt's directory.
pub fn keep_logs(attempt: &Attempt, directory: &Path, guard: &Guard) -> std::io::Result<()> {
    for (name, file) in logs(attempt) {
        let path = directory.join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(directory))?;
        std::fs::write(path, redacted(&file.contents, guard))?;
    }
    Ok(())
}

/// Transcripts lie side by side; the agent chose the directories they were in.
fn name_of(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').collect();
    parts[parts.len().saturating_sub(2)..].join("-").trim_start_matches('.').to_owned()
}

/// Line by line, so that JSON lines stay JSON lines.
fn redacted(contents: &[u8], guard: &Guard) -> String {
    let text = String::from_utf8_lossy(contents);
    let lines = text.lines().map(|line| {
        let json = line.starts_with(['{', '[']);
        let clean = if json { guard.redact_json(line) } else { guard.redact(line) };
        format!("{clean}\n")
    });
    lines.collect()
}
