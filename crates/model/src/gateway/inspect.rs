//! What the gateway asks the guard about each text and tool call. The guard decides; the gateway follows its decision.

use super::command_output::EarlierOutput;
use serde_json::Value;
use std::sync::Arc;

/// The longest text that must be inspected in one piece, in bytes: so much of a stream is held back. Read for each answer,
/// because a run learns new secret values while it runs.
pub type HoldBack = Arc<dyn Fn() -> usize + Send + Sync>;

pub type Inspect = Arc<dyn Fn(&Inspected<'_>) -> Verdict + Send + Sync>;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Inspected<'a> {
    /// One part of a tool's result, on its way to the model. `fresh`: no earlier request had it. A result without text
    /// comes as one empty part. `continued`: the text continues what a command printed in earlier results.
    ToolResult {
        call_id: &'a str,
        tool: Option<&'a str>,
        text: &'a str,
        continued: Option<EarlierOutput<'a>>,
        is_error: bool,
        fresh: bool,
    },
    /// Text in a user message, on its way to the model: the prompt, or what a runtime adds to it.
    UserText { text: &'a str, fresh: bool },
    /// Instructions to the model: the runner's and the runtime's.
    SystemText { text: &'a str, fresh: bool },
    /// The text of a document that is not a tool's result.
    Document { text: &'a str, fresh: bool },
    /// The description of a tool or of one of its arguments. MCP servers write those of their tools.
    ToolDescription { tool: &'a str, text: &'a str, fresh: bool },
    /// A tool as the model is told about it. A verdict can only stop the run.
    ToolDefinition { tool: &'a str, description: &'a str, schema: &'a Value },
    /// Any text of a request whose tokens are counted. A verdict can only replace it.
    Counted { text: &'a str },
    /// Text of the model, on its way to the agent; of a long text, the part that is held back.
    Text { text: &'a str },
    /// A long text of the model as a whole, after all its parts were inspected. It has already passed, so a verdict can only
    /// stop the run.
    Said { text: &'a str },
    /// A complete tool call of the model, before the agent sees it.
    ToolCall { call_id: &'a str, tool: &'a str, input: &'a Value },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Pass,
    /// Pass this text instead.
    Replace(String),
    /// Do not pass it; the agent reads why and continues.
    Deny(String),
    /// Stop the run.
    Stop(String),
}

pub fn pass_all() -> Inspect {
    Arc::new(|_| Verdict::Pass)
}
