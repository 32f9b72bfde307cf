//! The neutral form into JSON of the Responses format.

use crate::wire::{
    ContentBlock, Message, MessageRole, ModelAnswer, ModelRequest, StopReason, TokenUsage, Tool, ToolCall,
    ToolResult,
};
use serde_json::{Value, json};

pub fn write_request(request: &ModelRequest) -> Value {
    let ModelRequest { model, system, messages, documents: _, tools, max_tokens, effort, stream } = request;
    let mut out = json!({
        "model": model,
        "input": messages.iter().flat_map(write_message).collect::<Vec<Value>>(),
        "stream": stream,
        "store": false,
        // Reasoning is sent back by the client: nothing is kept by the vendor.
        "include": ["reasoning.encrypted_content"],
    });
    if !system.is_empty() {
        out["instructions"] = json!(system.join("\n"));
    }
    if !tools.is_empty() {
        out["tools"] = tools.iter().map(write_tool).collect();
    }
    if let Some(most) = max_tokens {
        out["max_output_tokens"] = json!(most);
    }
    if let Some(effort) = effort {
        out["reasoning"] = json!({ "effort": effort });
    }
    out
}

fn write_tool(tool: &Tool) -> Value {
    let Tool { name, description, schema } = tool;
    json!({"type": "function", "name": name, "description": description, "parameters": schema, "strict": false})
}

fn write_message(message: &Message) -> Vec<Value> {
    let (role, kind) = match message.role {
        MessageRole::System => ("developer", "input_text"),
        MessageRole::User => ("user", "input_text"),
        MessageRole::Assistant => ("assistant", "output_text"),
    };
    let mut items: Vec<Value> = Vec::new();
    for block in &message.blocks {
        match block {
            ContentBlock::Text(text) => {
                items.push(
                    json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]}),
                );
            }
            ContentBlock::ToolResult(ToolResult { id, parts, .. }) => {
                let output: Vec<Value> =
                    parts.iter().map(|text| json!({"type": "input_text", "text": text})).collect();
                items.push(json!({"type": "function_call_output", "call_id": id, "output": output}));
            }
            other => items.extend(write_output_item(other, 0)),
        }
    }
    items
}

/// `None`: thinking that came without the vendor's item cannot be sent back.
pub(super) fn write_output_item(block: &ContentBlock, index: usize) -> Option<Value> {
    match block {
        ContentBlock::Text(text) => Some(json!({
            "id": format!("item_{index}"), "type": "message", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        })),
        ContentBlock::ToolCall(ToolCall { id, name, input: Value::String(text) }) => Some(json!({
            "id": format!("item_{index}"), "type": "custom_tool_call", "status": "completed", "call_id": id,
            "name": name, "input": text,
        })),
        ContentBlock::ToolCall(ToolCall { id, name, input }) => Some(json!({
            "id": format!("item_{index}"), "type": "function_call", "status": "completed", "call_id": id,
            "name": name, "arguments": input.to_string(),
        })),
        ContentBlock::Other(value) => Some(value.clone()),
        ContentBlock::Thinking { .. } | ContentBlock::ToolResult(_) => None,
    }
}

pub fn write_answer(answer: &ModelAnswer) -> Value {
    let ModelAnswer { id, model, blocks, stop, usage } = answer;
    let output: Vec<Value> =
        blocks.iter().enumerate().filter_map(|(index, block)| write_output_item(block, index)).collect();
    response(id, model, stop, &output, usage)
}

pub(super) fn response(
    id: &str,
    model: &str,
    stop: &StopReason,
    output: &[Value],
    usage: &TokenUsage,
) -> Value {
    let (status, details) = match stop {
        StopReason::MaxTokens => ("incomplete", json!({"reason": "max_output_tokens"})),
        _ => ("completed", Value::Null),
    };
    json!({
        "id": id, "object": "response", "status": status, "model": model, "output": output,
        "incomplete_details": details, "error": null, "usage": write_usage(usage),
    })
}

pub(super) fn write_usage(usage: &TokenUsage) -> Value {
    let TokenUsage { input, output, cache_read, cache_write, cache_write_hour } = usage;
    let all =
        [cache_read, cache_write, cache_write_hour].iter().fold(*input, |sum, n| sum.saturating_add(**n));
    json!({
        "input_tokens": all,
        "input_tokens_details": {
            "cached_tokens": cache_read,
            "cache_write_tokens": cache_write.saturating_add(*cache_write_hour),
        },
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": all.saturating_add(*output),
    })
}
