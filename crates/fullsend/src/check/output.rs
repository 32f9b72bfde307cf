//! The output's schema: it compiles, stays in its directory, and says the same as the agent's prompt.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value as Json;
use yaml::{Diagnostic, SourceId, Span};

use super::agent::{AgentFile, SkillFile};
use super::duplicate_keys::NoDuplicateKeys;
use super::references::{self, ReferenceKind};
use crate::resolve::Resolved;
use crate::resolve::layers::{LayerKind, LayerPath};
use crate::resolve::library::Library;

/// A schema that compiled.
#[derive(Clone, Debug)]
pub struct SchemaFile {
    pub found: LayerPath,
    pub source: SourceId,
    pub json: Arc<Json>,
    pub validator: Arc<jsonschema::Validator>,
}

pub fn check(
    library: &mut Library,
    resolved: &Resolved,
    problems: &mut Vec<Diagnostic>,
) -> Option<SchemaFile> {
    let Some(schema) = resolved.harness.schema() else {
        let at = super::fields::place(resolved);
        problems.push(if resolved.require_output_schema {
            Diagnostic::error(
                "no-output-schema",
                at,
                "the organisation requires an `output_schema`, and this harness has none",
            )
        } else {
            Diagnostic::warning(
                "no-output-schema",
                at,
                "without an `output_schema` only the shape and size of the output are checked",
            )
            .help("describe the output in schemas/ and name the file in `output_schema`")
        });
        return None;
    };
    let harness = &resolved.harness;
    let found = references::remote_or_local(
        library,
        harness,
        schema,
        "output_schema",
        ReferenceKind::File,
        problems,
    )?;
    let source = library.source(&found).map_err(|problem| problems.push((*problem).clone())).ok()?;
    if let Some((json, validator)) = library.schema(&found) {
        return Some(SchemaFile { found, source, json, validator });
    }
    let text = library.text(source);
    match compile(library, &found, &text) {
        Ok((json, validator)) => {
            let json = Arc::new(json);
            let validator = Arc::new(validator);
            library.keep_schema(&found, (Arc::clone(&json), Arc::clone(&validator)));
            Some(SchemaFile { found, source, json, validator })
        }
        Err((byte, why)) => {
            let start = u32::try_from(byte).unwrap_or(0);
            problems.push(
                Diagnostic::error(
                    "schema",
                    Span { source, start, end: start },
                    format!("the output schema {why}"),
                )
                .related(schema.at, "named here"),
            );
            None
        }
    }
}

/// The schema as JSON and compiled, or where and why it is invalid.
fn compile(
    library: &Library,
    found: &LayerPath,
    text: &str,
) -> Result<(Json, jsonschema::Validator), (usize, String)> {
    let place = |error: &serde_json::Error| {
        let line_start: usize =
            text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
        text.floor_char_boundary(line_start + error.column().saturating_sub(1))
    };
    let json: Json =
        serde_json::from_str(text).map_err(|error| (place(&error), format!("is not JSON: {error}")))?;
    serde_json::from_str::<NoDuplicateKeys>(text)
        .map_err(|error| (place(&error), format!("is ambiguous: {error}")))?;
    if let Err(error) = jsonschema::draft202012::meta::validate(&json) {
        return Err((0, format!("is not a JSON Schema (2020-12): {error} at `{}`", error.instance_path())));
    }
    let neighbours = SiblingSchemas {
        directory: library.layers.host_path(found).and_then(|path| Some(path.parent()?.to_owned())),
    };
    let options = jsonschema::options().with_draft(jsonschema::Draft::Draft202012);
    let options = options.with_base_uri(BASE).with_retriever(neighbours);
    options
        .build(&json)
        .map(|validator| (json, validator))
        .map_err(|error| (0, format!("does not compile: {error}")))
}

/// References are resolved against this address, which means the schema's own directory.
const BASE: &str = "file:///schemas/schema.json";

/// Resolves `$ref` to files beside the schema, and nothing else.
struct SiblingSchemas {
    directory: Option<std::path::PathBuf>,
}

impl jsonschema::Retrieve for SiblingSchemas {
    fn retrieve(
        &self,
        uri: &jsonschema::Uri<String>,
    ) -> Result<Json, Box<dyn std::error::Error + Send + Sync>> {
        let name = uri.as_str().strip_prefix("file:///schemas/").filter(|name| !name.contains(['/', '%']));
        let (Some(name), Some(directory)) = (name, &self.directory) else {
            return Err(
                format!("`$ref` may only name files in the schema's own directory, not `{uri}`").into()
            );
        };
        let path = directory.join(name);
        let about = std::fs::symlink_metadata(&path).map_err(|error| format!("`{name}`: {error}"))?;
        if !about.is_file() || about.len() > crate::resolve::layers::MAX_BYTES {
            return Err(format!("`{name}` is not a regular file of at most 1 MiB").into());
        }
        let bytes = std::fs::read(&path)?;
        serde_json::from_slice::<NoDuplicateKeys>(&bytes).map_err(|error| format!("`{name}`: {error}"))?;
        Ok(serde_json::from_slice(&bytes)?)
    }
}

/// Required fields of the schema that neither the agent nor its skills mention: the agent cannot know of them.
pub fn unmentioned_fields(
    library: &Library,
    agent: &AgentFile,
    skills: &[SkillFile],
    schema: &SchemaFile,
) -> Option<Diagnostic> {
    let prompts: Vec<_> = std::iter::once(agent.source)
        .chain(skills.iter().map(|skill| skill.source))
        .map(|id| library.text(id))
        .collect();
    let required: HashSet<&str> =
        schema.json.get("required")?.as_array()?.iter().filter_map(Json::as_str).collect();
    let mut missing: Vec<&str> =
        required.into_iter().filter(|name| !prompts.iter().any(|text| text.contains(name))).collect();
    missing.sort_unstable();
    if missing.is_empty() {
        return None;
    }
    let message = format!(
        "the schema requires fields that neither the agent nor its skills mention: {}",
        missing.join(", ")
    );
    Some(
        Diagnostic::warning("unmentioned-field", Span::start_of(schema.source), message)
            .related(Span::start_of(agent.source), "the agent's prompt")
            .help("tell the agent what to write, or it will fail every attempt"),
    )
}

/// Prompt and schema belong together: a layer that replaces only one of them makes them disagree.
pub fn half_replaced(library: &Library, resolved: &Resolved) -> Option<Diagnostic> {
    let schema = resolved.harness.schema()?;
    let agent = &resolved.harness.agent;
    let schema_path = schema.local()?;
    let agent_found = library.find(agent.local()?, agent.at, "agent").ok()?;
    let schema_found = library.find(schema_path, schema.at, "output_schema").ok()?;
    let replaces = |found: &LayerPath, path| {
        library.layers.find_beyond(found.layer, path).is_some_and(|far| far.layer != LayerKind::Builtin)
    };
    let agent_replaced =
        replaces(&agent_found, agent.local()?) || !resolved.tree.get("agent")?.replaced.is_empty();
    let schema_key =
        if resolved.harness.output_schema.is_some() { "output_schema" } else { "validation_loop.schema" };
    let schema_replaced =
        replaces(&schema_found, schema_path) || !resolved.tree.find(schema_key)?.replaced.is_empty();
    let (at, one, other) = match (agent_replaced, schema_replaced) {
        (true, false) => (agent.at, "agent", "output schema"),
        (false, true) => (schema.at, "output schema", "agent"),
        _ => return None,
    };
    let message =
        format!("the {one} is replaced here and the {other} is not, though they describe the same output");
    Some(Diagnostic::warning("half-replaced", at, message).help("replace both, or neither"))
}
