//! Path A: everything that goes into the sandbox is read, digested and scanned on the host before the sandbox exists.
//! A `Cleared` can only be made here.

use std::path::Path;

use scan::Origin;

use crate::check::Checked;
use crate::event::RunEvent;
use crate::event::log::{Emitter, sha256};
use crate::guard::{Barred, Guard};
use crate::resolve::library::Library;

/// A harness whose inputs were scanned.
pub struct Cleared {
    pub checked: Checked,
    /// The repository's own instructions to agents, which are advice and no more.
    pub instructions: Option<String>,
    pub agent_text: String,
}

/// Names under which repositories keep instructions for agents; the first found at the root is given to the agent.
const INSTRUCTION_FILES: &[&str] =
    &["AGENTS.md", "agents.md", "Agents.md", "CLAUDE.md", "claude.md", "Claude.md"];

/// A context file larger than this is not one.
const MAX_BYTES: u64 = 1 << 20;

#[derive(Debug)]
pub enum InputError {
    Read { path: String, source: std::io::Error },
    TooLarge { path: String },
    Barred(Barred),
}

impl std::fmt::Display for InputError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Read { path, source } => write!(f, "{path} cannot be scanned: {source}"),
            Self::TooLarge { path } => {
                write!(f, "{path} is larger than {MAX_BYTES} bytes and cannot be scanned")
            }
            Self::Barred(barred) => barred.fmt(f),
        }
    }
}

impl std::error::Error for InputError {}

/// Scans what goes in; the first critical finding under `closed` ends the run.
pub fn clear(
    checked: Checked,
    library: &Library,
    repository: &Path,
    guard: &Guard,
    emit: &Emitter,
) -> Result<Cleared, InputError> {
    let harness = &checked.resolved;
    for found in &harness.files {
        let shown = library.layers.layer(found).shown(&found.path);
        if let Ok(text) = library.layers.layer(found).read(&found.path) {
            digest("harness", &shown, text.as_bytes(), emit);
        }
    }
    let agent_text = library.text(checked.agent.source);
    look("agent", &checked.agent.found.path, agent_text.as_bytes(), guard, emit)?;
    for skill in &checked.skills {
        look("skill", &skill.found.path, library.text(skill.source).as_bytes(), guard, emit)?;
    }
    if let Ok(text) = library.layers.layer(&checked.policy.found).read(&checked.policy.found.path) {
        digest("policy", &checked.policy.found.path, text.as_bytes(), emit);
    }
    if let Some(schema) = &checked.schema {
        digest("schema", &schema.found.path, library.text(schema.source).as_bytes(), emit);
    }
    let mut instructions = None;
    for name in INSTRUCTION_FILES {
        let Some(text) = instruction_file(repository, name)? else { continue };
        look("instructions", name, text.as_bytes(), guard, emit)?;
        instructions.get_or_insert(text);
    }
    let body = agent_text[checked.agent.body.clone()].trim();
    let agent_text = match guard.planted() {
        Some(words) => format!("{body}\n\n{words}"),
        None => body.to_owned(),
    };
    Ok(Cleared { agent_text, checked, instructions })
}

/// What a caller tells the agent beside its task comes from outside as well.
pub fn clear_context(text: &str, guard: &Guard, emit: &Emitter) -> Result<(), InputError> {
    look("context", "context", text.as_bytes(), guard, emit)
}

fn instruction_file(repository: &Path, name: &str) -> Result<Option<String>, InputError> {
    let path = repository.join(name);
    let failed = |source| InputError::Read { path: name.to_owned(), source };
    match std::fs::symlink_metadata(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(error)),
        Ok(about) if !about.is_file() => Ok(None),
        Ok(about) if about.len() > MAX_BYTES => Err(InputError::TooLarge { path: name.to_owned() }),
        Ok(_) => std::fs::read(&path)
            .map_err(failed)
            .map(|bytes| Some(String::from_utf8_lossy(&bytes).into_owned())),
    }
}

fn digest(kind: &str, name: &str, bytes: &[u8], emit: &Emitter) {
    emit.emit(RunEvent::Input { kind: kind.to_owned(), name: name.to_owned(), sha256: sha256(bytes) });
}

/// Digests and scans one file, and tells what was found.
fn look(kind: &str, name: &str, bytes: &[u8], guard: &Guard, emit: &Emitter) -> Result<(), InputError> {
    digest(kind, name, bytes, emit);
    guard.inspect(bytes, Origin::Instruction, name).map_err(InputError::Barred)
}
