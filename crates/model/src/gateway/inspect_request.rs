//! Asks the guard about everything in a request that the model will read: tool results once more, also after the
//! runtime's hooks; user texts, in which runtimes report the output of background commands; documents, system texts and
//! the descriptions of tools.

use super::Gateway;
use super::command_output::{CommandOutputs, PlacedText};
use super::inspect::{Inspected, Verdict};
use crate::wire::{ModelRequest, Tool, ToolCall, ToolResult};
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// Replaces a result that occurs twice and would have to be redacted in two different ways.
const TWICE: &str = "[fullsend withheld this result: the same text occurs twice and would need two different replacements. Continue the task without it.]";

/// Every text that must be replaced, with its replacement. `Err`: why the run must stop.
pub(super) fn inspect_request(
    gateway: &Gateway,
    request: &ModelRequest,
) -> Result<HashMap<String, String>, String> {
    let mut replacements = Replacements::default();
    inspect_results(gateway, request, &mut replacements)?;
    let mut inspect = |text: &str, ask: &dyn Fn(bool) -> Verdict| {
        let fresh = is_fresh(gateway, text);
        replacements.apply(text, &PlacedText::alone(text), ask(fresh))
    };
    for text in request.user_texts() {
        inspect(text, &|fresh| (gateway.inspect)(&Inspected::UserText { text, fresh }))?;
    }
    for text in request.system_texts() {
        inspect(text, &|fresh| (gateway.inspect)(&Inspected::SystemText { text, fresh }))?;
    }
    for text in &request.documents {
        inspect(text, &|fresh| (gateway.inspect)(&Inspected::Document { text, fresh }))?;
    }
    for tool in &request.tools {
        let Tool { name, description, schema } = tool;
        if let Verdict::Stop(reason) =
            (gateway.inspect)(&Inspected::ToolDefinition { tool: name, description, schema })
        {
            return Err(reason);
        }
        for text in descriptions(tool) {
            let name = tool.name.as_str();
            let ask = |fresh| (gateway.inspect)(&Inspected::ToolDescription { tool: name, text, fresh });
            inspect(text, &ask)?;
        }
    }
    Ok(replacements.texts)
}

/// The same for a request whose tokens are counted. Runtimes count a tool's output before their hooks see it, and write it as a
/// user's text. No model reads it, so only secrets matter.
pub(super) fn inspect_count(gateway: &Gateway, request: &ModelRequest) -> HashMap<String, String> {
    let results = request.tool_results().flat_map(|result| &result.parts).map(String::as_str);
    let documents = request.documents.iter().map(String::as_str);
    let described = request.tools.iter().flat_map(descriptions);
    let texts = results.chain(request.user_texts()).chain(request.system_texts());
    let mut replacements = HashMap::new();
    for text in texts.chain(documents).chain(described) {
        if let Verdict::Replace(with) = (gateway.inspect)(&Inspected::Counted { text }) {
            replacements.insert(text.to_owned(), with);
        }
    }
    replacements
}

fn inspect_results(
    gateway: &Gateway,
    request: &ModelRequest,
    replacements: &mut Replacements,
) -> Result<(), String> {
    let calls: HashMap<&str, &ToolCall> = request.tool_calls().map(|call| (call.id.as_str(), call)).collect();
    let mut outputs = CommandOutputs::new(gateway.chunk_format);
    for result in request.tool_results() {
        let call = calls.get(result.id.as_str()).copied();
        let fresh = gateway.results.is_new(result);
        let nothing = [String::new()];
        let parts = if result.parts.is_empty() { &nothing[..] } else { &result.parts[..] };
        for text in parts {
            let placed = outputs.place(call, text);
            let subject = Inspected::ToolResult {
                call_id: &result.id,
                tool: call.map(|call| call.name.as_str()),
                text: &placed.text,
                continued: placed.continued(),
                is_error: result.is_error,
                fresh,
            };
            replacements.apply(text, &placed, (gateway.inspect)(&subject))?;
        }
    }
    Ok(())
}

/// Whether no earlier request had this text.
fn is_fresh(gateway: &Gateway, text: &str) -> bool {
    gateway.results.is_new(&ToolResult { id: String::new(), parts: vec![text.to_owned()], is_error: false })
}

/// The texts of a tool that a model reads: its description, and every sentence in the schema of its arguments.
fn descriptions(tool: &Tool) -> Vec<&str> {
    let mut found = vec![tool.description.as_str()];
    collect_descriptions(&tool.schema, &mut found);
    found.retain(|text| !text.is_empty());
    found
}

fn collect_descriptions<'a>(schema: &'a Value, found: &mut Vec<&'a str>) {
    // A word such as `object` need not be scanned; a word with hidden characters must be.
    let is_sentence = |text: &str| !text.is_ascii() || text.contains(char::is_whitespace);
    match schema {
        Value::Object(fields) => fields.values().for_each(|value| collect_descriptions(value, found)),
        Value::Array(values) => values.iter().for_each(|value| collect_descriptions(value, found)),
        Value::String(text) if is_sentence(text) => found.push(text),
        _ => {}
    }
}

/// Texts are replaced by content.
#[derive(Default)]
struct Replacements {
    texts: HashMap<String, String>,
    chunks: HashSet<String>,
}

impl Replacements {
    fn apply(&mut self, original: &str, placed: &PlacedText<'_>, verdict: Verdict) -> Result<(), String> {
        let with = match verdict {
            Verdict::Pass if placed.text == original => return Ok(()),
            Verdict::Pass => placed.text.clone().into_owned(),
            Verdict::Replace(with) => with,
            Verdict::Deny(reason) => {
                format!("[fullsend withheld this result: {reason}. Continue the task without it.]")
            }
            Verdict::Stop(reason) => return Err(reason),
        };
        // If one chunk would need two different replacements, both are withheld.
        let is_chunk = placed.continued().is_some() || self.chunks.contains(original);
        let differs = self.texts.get(original).is_some_and(|other| *other != with);
        let with = if is_chunk && differs { TWICE.to_owned() } else { with };
        if is_chunk {
            self.chunks.insert(original.to_owned());
        }
        self.texts.insert(original.to_owned(), with);
        Ok(())
    }
}
