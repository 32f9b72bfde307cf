//! From a session's header to a run that may begin: the harness resolved and checked anew, in the environment that the session
//! was created with, with its resources. Nothing is remembered from earlier wakes, so that the brain may be another one.

use std::any::Any;
use std::path::PathBuf;

use serde_json::Value as Json;
use session::{Directive, DirectiveError, SessionHeader, Sha256Digest};
use yaml::Diagnostic;

use crate::check::Checked;
use crate::check::expected_document::ExpectedDocument;
use crate::event::outcome::EndCause;
use crate::preflight::{PreflightContext, preflight};
use crate::resolve::library::Library;
use crate::resolve::variables::Strictness;
use crate::resolve::{Choices, environment};

use super::interpret::DIRECTIVE_FILE;

/// The layers as they are now.
pub struct LayerSnapshot {
    pub library: Library,
    pub choices: Choices,
    pub repository: PathBuf,
    /// Whatever must live as long as the layers are read.
    pub kept: Box<dyn Any>,
}

/// Why no run can begin, and whether that may pass by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrepareError {
    pub message: String,
    pub cause: EndCause,
}

impl PrepareError {
    /// The files are wrong, and stay so.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self { message: message.into(), cause: EndCause::ConfigurationInvalid }
    }

    /// Something outside is missing.
    pub fn missing(message: impl Into<String>) -> Self {
        Self { message: message.into(), cause: EndCause::PrerequisiteMissing }
    }

    /// It may be better tomorrow.
    pub fn passing(message: impl Into<String>) -> Self {
        Self { message: message.into(), cause: EndCause::ScriptFailed }
    }
}

/// The harness of a session, checked, with the directive expected from its agent.
pub fn prepare(
    ground: &mut LayerSnapshot,
    header: &SessionHeader,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<Checked, PrepareError> {
    let LayerSnapshot { library, choices, repository, .. } = ground;
    choices.environment = header.environment.as_ref().map(|environment| environment.id.clone());
    let mut problems = Vec::new();
    let context = PreflightContext {
        environment: lookup,
        strictness: Strictness::Required,
        repository,
        recording: None,
    };
    let Some(mut checked) = preflight(library, &header.agent, choices, &context, &mut problems) else {
        return Err(PrepareError::invalid(words(library, &header.agent, &problems)));
    };
    if let Some(known) = &header.environment {
        let found = environment::find(library, &known.id);
        let digest = found.and_then(|found| environment::digest(library, &found)).map(Sha256Digest);
        if digest != Some(known.digest) {
            return Err(PrepareError::invalid(format!(
                "the environment `{}` is not the one that the session was created with; create a new session, or restore it",
                known.id
            )));
        }
    }
    let schema = serde_json::from_str(session::DIRECTIVE_SCHEMA).unwrap_or_default();
    let expected = ExpectedDocument::new(DIRECTIVE_FILE, schema).map_err(PrepareError::invalid)?;
    checked.expected = Some(ExpectedDocument { from_words, excuses: pauses, ..expected });
    Ok(checked)
}

/// The tagged block at the end of an answer. One that cannot be read is handed in as it is, so that the agent hears why.
fn from_words(words: &str) -> Option<Json> {
    match Directive::from_text(words) {
        Ok(directive) => serde_json::to_value(directive).ok(),
        Err(DirectiveError::Missing) => None,
        Err(error) => Some(Json::String(error.to_string())),
    }
}

/// A wake that asks the outside has not finished its work.
fn pauses(directive: &Json) -> bool {
    directive["custom_tools"].as_array().is_some_and(|tools| !tools.is_empty())
}

/// The first error with its place; `fullsend check` tells the rest.
fn words(library: &Library, name: &str, problems: &[Diagnostic]) -> String {
    let first = problems.iter().find(|problem| problem.is_error());
    let first = first.map_or_else(String::new, |problem| {
        format!("{}: {}", library.sources.locate(problem.at), problem.message)
    });
    format!("the harness `{name}` cannot run: {first} (`fullsend check {name}`)")
}
