//! The neutral form into JSON of the Messages format.

use crate::wire::fault::Fault;
use crate::wire::{
    ContentBlock, Message, MessageRole, ModelAnswer, ModelRequest, StopReason, TokenUsage, Tool, ToolCall,
    ToolResult,
};
use serde_json::{Value, json};

/// The format requires a bound on the answer; this one is used where the caller set none.
const DEFAULT_MAX_TOKENS: u64 = 8192;

/// A request as our own agent loop sends it: system prompt and conversation are marked for the vendor's cache, because
/// each turn repeats everything before it.
pub fn write_request(request: &ModelRequest) -> Value {
    let ModelRequest { model, system, messages, documents: _, tools, max_tokens, effort, stream } = request;
    let last = messages.len().saturating_sub(1);
    let messages: Vec<Value> =
        messages.iter().enumerate().map(|(index, message)| write_message(message, index == last)).collect();
    let mut out = json!({
        "model": model,
        "max_tokens": max_tokens.unwrap_or(DEFAULT_MAX_TOKENS),
        "stream": stream,
        "messages": messages,
    });
    if !system.is_empty() {
        let text = system.join("\n");
        out["system"] = json!([{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]);
    }
    if !tools.is_empty() {
        out["tools"] = tools.iter().map(write_tool).collect();
    }
    if let Some(effort) = effort {
        out["output_config"] = json!({ "effort": effort });
    }
    out
}

fn write_tool(tool: &Tool) -> Value {
    let Tool { name, description, schema } = tool;
    json!({"name": name, "description": description, "input_schema": schema})
}

fn write_message(message: &Message, mark_for_cache: bool) -> Value {
    let Message { role, blocks } = message;
    let role = match role {
        MessageRole::System => "system",
        MessageRole::User => "user",
        MessageRole::Assistant => "assistant",
    };
    let mut blocks: Vec<Value> = blocks.iter().map(write_block).collect();
    if let (true, Some(Value::Object(last))) = (mark_for_cache, blocks.last_mut())
        && last.get("type").is_some_and(|kind| kind == "text" || kind == "tool_result")
    {
        last.insert("cache_control".to_owned(), json!({"type": "ephemeral"}));
    }
    json!({"role": role, "content": blocks})
}

pub(super) fn write_block(block: &ContentBlock) -> Value {
    match block {
        ContentBlock::Text(text) => json!({"type": "text", "text": text}),
        ContentBlock::Thinking { text, signature } => {
            json!({"type": "thinking", "thinking": text, "signature": signature})
        }
        ContentBlock::ToolCall(ToolCall { id, name, input }) => {
            json!({"type": "tool_use", "id": id, "name": name, "input": input})
        }
        ContentBlock::ToolResult(ToolResult { id, parts, is_error }) => {
            let content: Vec<Value> =
                parts.iter().map(|text| json!({"type": "text", "text": text})).collect();
            json!({"type": "tool_result", "tool_use_id": id, "content": content, "is_error": is_error})
        }
        ContentBlock::Other(value) => value.clone(),
    }
}

pub fn write_answer(answer: &ModelAnswer) -> Value {
    let ModelAnswer { id, model, blocks, stop, usage } = answer;
    json!({
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": blocks.iter().map(write_block).collect::<Vec<Value>>(),
        "stop_reason": write_stop(stop),
        "stop_sequence": null,
        "usage": write_usage(usage),
    })
}

pub(super) fn write_stop(stop: &StopReason) -> &str {
    match stop {
        StopReason::EndTurn => "end_turn",
        StopReason::ToolUse => "tool_use",
        StopReason::MaxTokens => "max_tokens",
        StopReason::Refusal => "refusal",
        StopReason::Other(other) => other,
    }
}

pub(super) fn write_usage(usage: &TokenUsage) -> Value {
    let TokenUsage { input, output, cache_read, cache_write, cache_write_hour } = usage;
    json!({
        "input_tokens": input,
        "output_tokens": output,
        "cache_read_input_tokens": cache_read,
        "cache_creation_input_tokens": cache_write.saturating_add(*cache_write_hour),
        "cache_creation": {
            "ephemeral_5m_input_tokens": cache_write,
            "ephemeral_1h_input_tokens": cache_write_hour,
        },
    })
}

pub fn write_fault(fault: &Fault) -> Value {
    json!({"type": "error", "error": {"type": fault.kind.name(), "message": fault.message}})
}
