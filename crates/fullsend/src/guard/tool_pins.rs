//! The tools of MCP servers as the model is told about them. Their texts come from the servers, which can change them at
//! any time. Each tool is recorded with a digest and compared with `fullsend.lock`.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use model::gateway::Verdict;
use serde_json::{Map, Value as Json, json};

use super::Guard;
use crate::event::finding::{FindingAction, FindingFamily, FindingOrigin, FindingSeverity};
use crate::event::{FindingEvent, InputKind, RunEvent, log};

/// How every runtime names the tools of MCP servers.
const PREFIX: &str = "mcp__";
/// More tools than any model is given.
const MAX_TOOLS: usize = 1000;

/// What the lock file has, and what this run saw.
pub(super) struct ToolPins {
    locked: HashMap<String, String>,
    /// Whether another tool, or a changed one, stops the run.
    required: bool,
    seen: Mutex<HashMap<String, String>>,
}

/// Why a tool is not what was expected.
#[derive(Debug, PartialEq, Eq)]
enum Drift {
    /// The lock file has another digest.
    Changed,
    /// The lock file has other tools of this server, but not this one.
    New,
    /// It was different earlier in this run.
    ChangedInRun,
}

impl Drift {
    fn describe(&self, tool: &str) -> String {
        match self {
            Self::Changed => format!("the description of `{tool}` is not the one in fullsend.lock"),
            Self::New => format!("`{tool}` is not in fullsend.lock, which has other tools of its server"),
            Self::ChangedInRun => format!("the description of `{tool}` changed during the run"),
        }
    }
}

impl ToolPins {
    pub(super) fn new(locked: Vec<(String, String)>, required: bool) -> Self {
        Self { locked: locked.into_iter().collect(), required, seen: Mutex::default() }
    }

    /// `None` if this run saw the tool before, as it is now.
    fn see(&self, tool: &str, digest: &str) -> Option<Option<Drift>> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let earlier = seen.get(tool).map(|earlier| earlier == digest);
        if earlier == Some(true) || (earlier.is_none() && seen.len() >= MAX_TOOLS) {
            return None;
        }
        seen.insert(tool.to_owned(), digest.to_owned());
        Some(match self.locked.get(tool) {
            Some(locked) if locked != digest => Some(Drift::Changed),
            None if self.locked.keys().any(|name| server(name) == server(tool)) => Some(Drift::New),
            _ if earlier == Some(false) => Some(Drift::ChangedInRun),
            _ => None,
        })
    }
}

impl Guard {
    /// Records a tool of an MCP server, and reports one that is not as the lock file has it.
    pub(super) fn tool_at_gateway(&self, tool: &str, description: &str, schema: &Json) -> Verdict {
        if !tool.starts_with(PREFIX) {
            return Verdict::Pass;
        }
        let digest = digest(description, schema);
        let Some(drift) = self.tool_pins.see(tool, &digest) else { return Verdict::Pass };
        self.emit.emit(RunEvent::Input { kind: InputKind::Tool, name: tool.to_owned(), sha256: digest });
        let Some(drift) = drift else { return Verdict::Pass };
        let excerpt = drift.describe(tool);
        let stops = self.tool_pins.required;
        self.emit.emit(RunEvent::Finding(FindingEvent {
            place: format!("tool/{tool}"),
            origin: FindingOrigin::Tool,
            rule: "tool-description-changed".to_owned(),
            category: FindingFamily::ContextInjection,
            severity: FindingSeverity::High,
            excerpt: excerpt.clone(),
            advice: "read what the server says now; `fullsend lock --tools RUN` accepts it".to_owned(),
            action: if stops { FindingAction::Stopped } else { FindingAction::Reported },
            ..FindingEvent::default()
        }));
        if stops { Verdict::Stop(excerpt) } else { Verdict::Pass }
    }
}

/// `SERVER` of `mcp__SERVER__TOOL`.
fn server(tool: &str) -> &str {
    let rest = tool.strip_prefix(PREFIX).unwrap_or(tool);
    rest.split_once("__").map_or(rest, |(server, _)| server)
}

/// The order of the schema's fields does not count: runtimes write it in their own.
fn digest(description: &str, schema: &Json) -> String {
    let text = json!([description, sorted(schema)]).to_string();
    log::sha256(text.as_bytes())
}

fn sorted(value: &Json) -> Json {
    match value {
        Json::Object(fields) => {
            let mut fields: Vec<(String, Json)> =
                fields.iter().map(|(name, value)| (name.clone(), sorted(value))).collect();
            fields.sort_by(|one, other| one.0.cmp(&other.0));
            Json::Object(Map::from_iter(fields))
        }
        Json::Array(values) => values.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_reported_once_for_each_text_it_has() {
        let locked = vec![("mcp__calc__add".to_owned(), "one".to_owned())];
        let pins = ToolPins::new(locked, false);
        assert_eq!(pins.see("mcp__calc__add", "one"), Some(None));
        assert_eq!(pins.see("mcp__calc__add", "one"), None, "it was recorded");
        assert_eq!(pins.see("mcp__calc__add", "two"), Some(Some(Drift::Changed)));
        assert_eq!(pins.see("mcp__calc__remove", "one"), Some(Some(Drift::New)));
        assert_eq!(pins.see("mcp__other__add", "one"), Some(None), "nothing of this server is locked");
        assert_eq!(pins.see("mcp__other__add", "two"), Some(Some(Drift::ChangedInRun)));
    }

    #[test]
    fn the_order_of_fields_does_not_count() {
        let one = json!({ "a": { "x": 1, "y": [1, { "p": 1, "q": 2 }] }, "b": 2 });
        let other = json!({ "b": 2, "a": { "y": [1, { "q": 2, "p": 1 }], "x": 1 } });
        assert_eq!(digest("Adds.", &one), digest("Adds.", &other));
        assert_ne!(digest("Adds.", &one), digest("Adds", &one));
        assert_ne!(digest("Adds.", &one), digest("Adds.", &json!({ "b": 2 })));
    }
}
