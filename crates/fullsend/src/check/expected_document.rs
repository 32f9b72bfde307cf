//! What the caller of a run wants from the agent beside the harness's own output: one document, in a file of its own,
//! with a schema of its own. Both must pass.

use std::sync::Arc;

use serde_json::Value as Json;

use super::Checked;

/// A document that the caller expects.
#[derive(Clone, Debug)]
pub struct ExpectedDocument {
    /// Its file in the output directory.
    pub file: String,
    pub json: Arc<Json>,
    pub validator: Arc<jsonschema::Validator>,
    /// How it is read from the last message of an agent that has no other way to return it.
    pub from_words: fn(&str) -> Option<Json>,
    /// Whether the harness's own output may be missing if this document passes, because the work is not done yet.
    pub excuses: fn(&Json) -> bool,
}

impl ExpectedDocument {
    /// The schema (2020-12) may refer only to itself.
    pub fn new(file: &str, schema: Json) -> Result<Self, String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if file.starts_with('.') || !file.chars().all(plain) || !file.ends_with(".json") {
            return Err(format!("`{file}` is not the plain name of a JSON file"));
        }
        let options = jsonschema::options().with_draft(jsonschema::Draft::Draft202012);
        let validator = options.build(&schema).map_err(|error| format!("the schema of `{file}`: {error}"))?;
        Ok(Self {
            file: file.to_owned(),
            json: Arc::new(schema),
            validator: Arc::new(validator),
            from_words: |_| None,
            excuses: |_| false,
        })
    }
}

/// What a runtime asks its agent to return as text or with a tool: the caller's document, where there is one, else the
/// harness's output. The other of the two is written as a file.
#[derive(Clone, Copy, Debug)]
pub struct ResultDocument<'a> {
    pub file: &'a str,
    pub schema: Option<&'a Json>,
}

impl Checked {
    pub fn result_document(&self) -> ResultDocument<'_> {
        match &self.expected {
            Some(expected) => ResultDocument { file: &expected.file, schema: Some(&expected.json) },
            None => ResultDocument {
                file: self.resolved.harness.output_file.as_str(),
                schema: self.schema.as_ref().map(|schema| &*schema.json),
            },
        }
    }
}
