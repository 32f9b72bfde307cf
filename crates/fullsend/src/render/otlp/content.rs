//! Messages and tool calls, as attributes of spans. They are exported only on request, redacted and bounded as in the
//! record.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::{Value, attributes};
use crate::record::conversation::{ConversationEntry, ConversationRecord};

/// The content of a run's spans; empty where none is wanted.
#[derive(Default)]
pub(super) struct SpanContent {
    attempts: BTreeMap<u32, AttemptContent>,
    calls: BTreeMap<String, CallContent>,
}

/// Messages in the form of the conventions.
#[derive(Default)]
struct AttemptContent {
    input: Vec<Json>,
    output: Vec<Json>,
}

#[derive(Default)]
struct CallContent {
    input: String,
    output: String,
}

impl SpanContent {
    pub(super) fn new(conversations: &[ConversationRecord]) -> Self {
        let mut content = Self::default();
        for conversation in conversations {
            for entry in &conversation.entries {
                content.add(conversation.iteration, entry);
            }
        }
        content
    }

    fn add(&mut self, iteration: u32, entry: &ConversationEntry) {
        let attempt = self.attempts.entry(iteration).or_default();
        let message = |role: &str, kind: &str, text: &str| json!({ "role": role, "parts": [{ "type": kind, "content": text }] });
        match entry {
            ConversationEntry::Told { text } => attempt.input.push(message("user", "text", text)),
            ConversationEntry::Said { text } => attempt.output.push(message("assistant", "text", text)),
            ConversationEntry::Thought { text } => {
                attempt.output.push(message("assistant", "reasoning", text));
            }
            ConversationEntry::ToolCall { call, input, .. } => {
                self.calls.entry(call.clone()).or_default().input.clone_from(input);
            }
            ConversationEntry::ToolResult { call, output, .. } => {
                self.calls.entry(call.clone()).or_default().output.clone_from(output);
            }
        }
    }

    pub(super) fn of_attempt(&self, iteration: u32) -> Vec<Json> {
        let Some(AttemptContent { input, output }) = self.attempts.get(&iteration) else { return Vec::new() };
        let text =
            |messages: &[Json]| if messages.is_empty() { String::new() } else { json!(messages).to_string() };
        let input = text(input);
        let output = text(output);
        attributes([
            ("gen_ai.input.messages", Value::Text(&input)),
            ("gen_ai.output.messages", Value::Text(&output)),
        ])
    }

    pub(super) fn of_call(&self, call: &str) -> Vec<Json> {
        let Some(CallContent { input, output }) = self.calls.get(call) else { return Vec::new() };
        attributes([
            ("gen_ai.tool.call.arguments", Value::Text(input)),
            ("gen_ai.tool.call.result", Value::Text(output)),
        ])
    }
}
