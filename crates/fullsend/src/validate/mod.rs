//! Accepts or rejects an output: first by the schema, then by the validation script. The feedback lists the errors, up
//! to `MAX_VIOLATIONS` for each document, so that the agent can fix them. An `Accepted` can only be made here.

use std::path::Path;

use serde_json::Value as Json;

use crate::check::Checked;
use crate::event::Violation;
use crate::quarantine::Quarantined;

/// An output that passed every check.
#[derive(Debug)]
pub struct Accepted {
    quarantined: Quarantined,
    schema: String,
}

impl Accepted {
    pub fn quarantined(&self) -> &Quarantined {
        &self.quarantined
    }

    /// Which rules the output passed: the schema's name, or `built-in`.
    pub fn schema(&self) -> &str {
        &self.schema
    }
}

/// An output that did not.
#[derive(Debug)]
pub struct Rejected {
    pub quarantined: Quarantined,
    pub violations: Vec<Violation>,
    /// The document that the caller expects is wrong or missing.
    pub expected_is_wrong: bool,
}

/// The most violations of one document that the agent gets.
const MAX_VIOLATIONS: usize = 50;
const MAX_MESSAGE: usize = 500;

/// The schema first; the script only sees what passed it.
pub fn validate<E>(
    checked: &Checked,
    quarantined: Quarantined,
    script: impl FnOnce(&Quarantined) -> Result<Option<String>, E>,
) -> Result<Result<Accepted, Box<Rejected>>, E> {
    let directory = quarantined.directory();
    let file = checked.resolved.harness.output_file.as_str();
    // Without a schema, the output file may be missing if there is any other file, or if the caller expects a document.
    let lenient = checked.schema.is_none() && (checked.expected.is_some() || !quarantined.files().is_empty());
    let expected = checked.expected.as_ref().map(|expected| (expected, document(directory, &expected.file)));
    let excused = matches!(&expected, Some((expected, Ok(Some(document)))) if (expected.excuses)(document));
    let mut violations = match document(directory, file) {
        Ok(None) if lenient || excused => Vec::new(),
        Ok(None) => vec![violation_of_document(missing(file, quarantined.files()))],
        Ok(Some(document)) => {
            checked.schema.as_ref().map_or_else(Vec::new, |schema| check(&schema.validator, &document, ""))
        }
        Err(why) => vec![violation_of_document(why)],
    };
    let own = violations.len();
    if let Some((expected, document)) = expected {
        let file = &expected.file;
        violations.extend(match document {
            Ok(None) => vec![violation_of_document(format!("the file `{file}` is missing"))],
            Ok(Some(document)) => check(&expected.validator, &document, &format!("in `{file}`: ")),
            Err(why) => vec![violation_of_document(why)],
        });
    }
    let expected_is_wrong = violations.len() > own;
    if violations.is_empty() {
        violations.extend(script(&quarantined)?.map(violation_of_document));
    }
    if violations.is_empty() {
        let schema =
            checked.schema.as_ref().map_or_else(|| "built-in".to_owned(), |schema| schema.found.path.clone());
        return Ok(Ok(Accepted { quarantined, schema }));
    }
    Ok(Err(Rejected { quarantined, violations, expected_is_wrong }.into()))
}

/// Tells the agent the right name if it used another one.
fn missing(file: &str, there: &[String]) -> String {
    let names: Vec<String> = there.iter().take(5).map(|name| format!("`{name}`")).collect();
    match names.is_empty() {
        true => format!("the output file `{file}` is missing"),
        false => {
            format!("the output file `{file}` is missing; the output directory holds {}", names.join(", "))
        }
    }
}

fn violation_of_document(message: String) -> Violation {
    Violation { path: String::new(), message }
}

/// The output file as JSON; `None` if it does not exist.
fn document(directory: &Path, file: &str) -> Result<Option<Json>, String> {
    let bytes = match std::fs::read(directory.join(file)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("`{file}` cannot be read: {error}")),
    };
    if !file.ends_with(".json") {
        return Ok(Some(Json::String(String::from_utf8_lossy(&bytes).into_owned())));
    }
    serde_json::from_slice(&bytes).map(Some).map_err(|error| format!("`{file}` is not JSON: {error}"))
}

fn check(validator: &jsonschema::Validator, document: &Json, place: &str) -> Vec<Violation> {
    let errors = validator.iter_errors(document).take(MAX_VIOLATIONS);
    errors
        .map(|error| Violation {
            path: error.instance_path().to_string(),
            message: format!("{place}{error}").chars().take(MAX_MESSAGE).collect(),
        })
        .collect()
}

/// Checks a file against a schema without references, for `fullsend-check-output` inside the sandbox.
pub fn against(file: &str, schema: &str) -> Result<Vec<Violation>, String> {
    let text = std::fs::read_to_string(schema).map_err(|error| format!("{schema}: {error}"))?;
    let json: Json = serde_json::from_str(&text).map_err(|error| format!("{schema}: {error}"))?;
    let options = jsonschema::options().with_draft(jsonschema::Draft::Draft202012);
    let validator = options.build(&json).map_err(|error| format!("{schema} cannot be used here: {error}"))?;
    let path = Path::new(file);
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(match document(path.parent().unwrap_or(Path::new("")), &name) {
        Ok(None) => vec![violation_of_document(format!("`{file}` is missing"))],
        Ok(Some(document)) => check(&validator, &document, ""),
        Err(why) => vec![violation_of_document(why)],
    })
}

/// The feedback for the agent.
pub fn feedback(violations: &[Violation]) -> String {
    let lines = listed(violations);
    format!(
        "Your output was rejected. Problems:\n{lines}Correct the output. The output directory is empty now, so write every \
         file and return the result again."
    )
}

/// One line for each violation.
pub fn listed(violations: &[Violation]) -> String {
    let line = |violation: &Violation| match violation.path.as_str() {
        "" => format!("- {}\n", violation.message),
        path => format!("- at {path}: {}\n", violation.message),
    };
    violations.iter().map(line).collect()
}
