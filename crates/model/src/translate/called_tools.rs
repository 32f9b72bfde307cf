//! How the tools of a request are called in its answer. Chat Completions knows only functions, each with one name.

use crate::wire::{ContentBlock, ToolCall};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A tool as the runtime knows it.
#[derive(Debug, Clone)]
pub(super) struct CalledTool {
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    /// It takes a text instead of arguments.
    pub(super) takes_text: bool,
}

/// By the name of the function.
#[derive(Debug, Default)]
pub(crate) struct CalledTools(BTreeMap<String, CalledTool>);

impl CalledTools {
    pub(super) fn add(&mut self, function: String, tool: CalledTool) {
        self.0.insert(function, tool);
    }

    /// A call as an item of the Responses format.
    pub(super) fn item(&self, call: &ToolCall, index: usize) -> Value {
        let ToolCall { id, name, input } = call;
        let mut item = json!({"id": format!("item_{index}"), "status": "completed", "call_id": id});
        let tool = self.0.get(name);
        item["name"] = json!(tool.map_or(name, |tool| &tool.name));
        if tool.is_some_and(|tool| tool.takes_text) {
            item["type"] = json!("custom_tool_call");
            let text = input["input"].as_str().map_or_else(|| input.to_string(), str::to_owned);
            item["input"] = json!(text);
            return item;
        }
        item["type"] = json!("function_call");
        // The client must refuse arguments that are not JSON.
        let arguments = input.as_str().map_or_else(|| input.to_string(), str::to_owned);
        item["arguments"] = json!(arguments);
        if let Some(namespace) = tool.and_then(|tool| tool.namespace.as_ref()) {
            item["namespace"] = json!(namespace);
        }
        item
    }

    /// The blocks of an answer, with calls and thoughts as items of the Responses format.
    pub(super) fn items(&self, blocks: Vec<ContentBlock>) -> Vec<ContentBlock> {
        let item = |(index, block): (usize, ContentBlock)| match block {
            ContentBlock::ToolCall(call) => ContentBlock::Other(self.item(&call, index)),
            ContentBlock::Thinking { text, .. } => ContentBlock::Other(reasoning(&text, index)),
            other => other,
        };
        blocks.into_iter().enumerate().map(item).collect()
    }
}

/// Thoughts as an item of the Responses format.
pub(super) fn reasoning(text: &str, index: usize) -> Value {
    let summary = json!([{"type": "summary_text", "text": text}]);
    json!({"id": format!("item_{index}"), "type": "reasoning", "summary": summary, "encrypted_content": null})
}
