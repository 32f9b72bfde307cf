//! What the gateway asks about what passes it. The guard answers; the gateway only obeys.

use super::command_output::EarlierOutput;
use serde_json::Value;
use std::sync::Arc;

/// The longest text that the inspect must see in one piece: so much of a stream waits, and never less than a little. GatewayRequest
/// for each answer, because a run learns values while it goes on.
pub type HoldBack = Arc<dyn Fn() -> usize + Send + Sync>;

pub type Inspect = Arc<dyn Fn(&Inspected<'_>) -> Verdict + Send + Sync>;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Inspected<'a> {
    /// One part of a tool's result, on its way to the model. `fresh`: no earlier request had it. A result without text
    /// comes as one empty part. `continued`: the text goes on with what a command printed in earlier results.
    ToolResult {
        call_id: &'a str,
        tool: Option<&'a str>,
        text: &'a str,
        continued: Option<EarlierOutput<'a>>,
        is_error: bool,
        fresh: bool,
    },
    /// Text in a message of the user, on its way to the model: the runner's words, or what a runtime adds to them.
    UserText { text: &'a str, fresh: bool },
    /// Text of the model, on its way to the agent; of a long one the part that is held back.
    Text { text: &'a str },
    /// A long text of the model as it came, once all of it was asked about in parts: what only the whole shows. It has
    /// passed, so that a verdict can but end the run.
    Said { text: &'a str },
    /// A complete tool call of the model, before the agent sees it.
    ToolCall { call_id: &'a str, tool: &'a str, input: &'a Value },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Pass,
    /// This text instead.
    Replace(String),
    /// This one thing does not pass; the agent reads why and goes on.
    Deny(String),
    /// The run ends here.
    Stop(String),
}

pub fn pass_all() -> Inspect {
    Arc::new(|_| Verdict::Pass)
}
