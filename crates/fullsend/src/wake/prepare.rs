//! From a session's header to a run that can start: the harness is resolved and checked again for every wake, in the
//! environment that the session was created with. Nothing is cached between wakes, so the runtime may change.

use std::any::Any;
use std::fmt;
use std::path::PathBuf;

use serde_json::Value as Json;
use session::{DIRECTIVE_SCHEMA, Directive, DirectiveError, Session, Sha256Digest};
use yaml::Diagnostic;

use super::interpret::DIRECTIVE_FILE;
use crate::check::Checked;
use crate::check::expected_document::ExpectedDocument;
use crate::event::outcome::EndCause;
use crate::preflight::{PreflightContext, preflight};
use crate::resolve::library::Library;
use crate::resolve::variables::Strictness;
use crate::resolve::{Choices, environment};

/// The configuration layers as they were when a wake was prepared.
pub struct LayerSnapshot {
    pub library: Library,
    pub choices: Choices,
    pub repository: PathBuf,
    /// Removes temporary files of the layers when it is dropped.
    pub guard: Box<dyn Any>,
}

/// Why a run cannot start, and whether the cause is temporary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrepareError {
    pub message: String,
    pub cause: EndCause,
}

impl fmt::Display for PrepareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for PrepareError {}

impl PrepareError {
    /// The files are wrong. Another attempt would fail too.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self { message: message.into(), cause: EndCause::ConfigurationInvalid }
    }

    /// Something outside the files is missing.
    pub fn missing(message: impl Into<String>) -> Self {
        Self { message: message.into(), cause: EndCause::PrerequisiteMissing }
    }

    /// A later attempt may succeed.
    pub fn transient(message: impl Into<String>) -> Self {
        Self { message: message.into(), cause: EndCause::ScriptFailed }
    }
}

/// Resolves and checks a session's harness, and adds the directive that its agent must write.
pub fn prepare(
    layers: &mut LayerSnapshot,
    session: &Session,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<Checked, PrepareError> {
    let LayerSnapshot { library, choices, repository, .. } = layers;
    let header = &session.header;
    choices.environment = session.environment().map(|environment| environment.id.clone());
    let mut problems = Vec::new();
    let context = PreflightContext {
        environment: lookup,
        strictness: Strictness::Required,
        repository,
        recording: None,
    };
    let Some(checked) = preflight(library, &header.agent, choices, &context, &mut problems) else {
        return Err(PrepareError::invalid(first_error(library, &header.agent, &problems)));
    };
    if let Some(known) = session.environment() {
        let found = environment::find(library, &known.id);
        let digest = found.and_then(|found| environment::digest(library, &found)).map(Sha256Digest);
        if digest != Some(known.digest) {
            return Err(PrepareError::invalid(format!(
                "environment `{}` changed since the session was created; restore it, or run `fullsend session \
                 accept-environment {}`",
                known.id, header.id
            )));
        }
    }
    let schema = serde_json::from_str(DIRECTIVE_SCHEMA)
        .map_err(|error| PrepareError::invalid(format!("the directive's schema is not JSON: {error}")))?;
    let expected = ExpectedDocument::new(DIRECTIVE_FILE, schema).map_err(PrepareError::invalid)?;
    Ok(checked.expecting(ExpectedDocument { from_words: directive_in_text, excuses: pauses, ..expected }))
}

/// The directive at the end of an answer in plain text. A malformed one is passed on, so that the agent gets the error.
fn directive_in_text(text: &str) -> Option<Json> {
    match Directive::from_text(text) {
        Ok(directive) => serde_json::to_value(directive).ok(),
        Err(DirectiveError::Missing) => None,
        Err(error) => Some(Json::String(error.to_string())),
    }
}

/// A wake that waits for a custom tool has not finished its work, so its output file may be missing.
fn pauses(directive: &Json) -> bool {
    let tools = directive.get("custom_tools").and_then(Json::as_array);
    tools.is_some_and(|tools| !tools.is_empty())
}

/// The first error with its file and line. `fullsend check` prints all of them.
fn first_error(library: &Library, name: &str, problems: &[Diagnostic]) -> String {
    let first = problems.iter().find(|problem| problem.is_error());
    let first = first.map_or_else(String::new, |problem| {
        format!("{}: {}", library.sources.locate(problem.at), problem.message)
    });
    format!("harness `{name}` cannot run: {first} (run `fullsend check {name}`)")
}
