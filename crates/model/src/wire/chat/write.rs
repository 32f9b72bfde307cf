//! The neutral form into JSON of the Chat Completions format.

use crate::wire::{
    ContentBlock, Message, MessageRole, ModelAnswer, ModelRequest, StopReason, TokenUsage, Tool, ToolCall,
    ToolResult,
};
use serde_json::{Value, json};

pub fn write_request(request: &ModelRequest) -> Value {
    let ModelRequest { model, system, messages, documents: _, tools, max_tokens, effort, stream } = request;
    let mut list: Vec<Value> = Vec::new();
    if !system.is_empty() {
        list.push(json!({"role": "system", "content": system.join("\n")}));
    }
    list.extend(messages.iter().flat_map(write_message));
    let mut out = json!({"model": model, "messages": list, "stream": stream});
    if *stream {
        out["stream_options"] = json!({"include_usage": true});
    }
    if !tools.is_empty() {
        out["tools"] = tools.iter().map(write_tool).collect();
    }
    if let Some(most) = max_tokens {
        out["max_completion_tokens"] = json!(most);
    }
    if let Some(effort) = effort {
        out["reasoning_effort"] = json!(effort);
    }
    out
}

/// A stream reports usage only on request. `None`: the request already asks for it.
pub fn ask_for_usage(body: &[u8]) -> Option<Vec<u8>> {
    let mut value: Value = serde_json::from_slice(body).ok()?;
    let streams = value["stream"].as_bool() == Some(true);
    if !streams || value["stream_options"]["include_usage"].as_bool() == Some(true) {
        return None;
    }
    if value.get("stream_options").is_some() {
        value["stream_options"] = json!({"include_usage": true});
        return Some(value.to_string().into_bytes());
    }
    let start = body.iter().position(|byte| *byte == b'{')?;
    let mut out = body[..=start].to_vec();
    out.extend_from_slice(br#""stream_options":{"include_usage":true},"#);
    out.extend_from_slice(&body[start + 1..]);
    Some(out)
}

fn write_tool(tool: &Tool) -> Value {
    let Tool { name, description, schema } = tool;
    json!({"type": "function", "function": {"name": name, "description": description, "parameters": schema}})
}

fn write_message(message: &Message) -> Vec<Value> {
    let role = match message.role {
        MessageRole::System => "system",
        MessageRole::User => "user",
        MessageRole::Assistant => return vec![write_assistant(&message.blocks)],
    };
    let mut out = Vec::new();
    let mut parts = Vec::new();
    for block in &message.blocks {
        match block {
            ContentBlock::Text(text) => parts.push(json!({"type": "text", "text": text})),
            ContentBlock::Other(value) => parts.push(value.clone()),
            ContentBlock::ToolResult(ToolResult { id, parts, .. }) => {
                let content: Vec<Value> =
                    parts.iter().map(|text| json!({"type": "text", "text": text})).collect();
                out.push(json!({"role": "tool", "tool_call_id": id, "content": content}));
            }
            ContentBlock::Thinking { .. } | ContentBlock::ToolCall(_) => {}
        }
    }
    if !parts.is_empty() {
        out.push(json!({"role": role, "content": parts}));
    }
    out
}

fn write_assistant(blocks: &[ContentBlock]) -> Value {
    let said: Vec<&str> = blocks.iter().filter_map(ContentBlock::as_text).collect();
    let calls: Vec<Value> = blocks
        .iter()
        .filter_map(|block| match block {
            ContentBlock::ToolCall(call) => Some(write_call(call)),
            _ => None,
        })
        .collect();
    let content = if said.is_empty() { Value::Null } else { json!(said.concat()) };
    let mut message = json!({"role": "assistant", "content": content});
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    message
}

fn write_call(call: &ToolCall) -> Value {
    let ToolCall { id, name, input } = call;
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": input.to_string()}})
}

pub fn write_answer(answer: &ModelAnswer) -> Value {
    let ModelAnswer { id, model, blocks, stop, usage } = answer;
    let choice = json!({"index": 0, "message": write_assistant(blocks), "finish_reason": write_stop(stop)});
    json!({
        "id": id, "object": "chat.completion", "created": 0, "model": model, "choices": [choice],
        "usage": write_usage(usage),
    })
}

pub(super) fn write_stop(stop: &StopReason) -> &str {
    match stop {
        StopReason::EndTurn => "stop",
        StopReason::ToolUse => "tool_calls",
        StopReason::MaxTokens => "length",
        StopReason::Refusal => "content_filter",
        StopReason::Other(other) => other,
    }
}

pub(super) fn write_usage(usage: &TokenUsage) -> Value {
    let TokenUsage { input, output, cache_read, cache_write, cache_write_hour } = usage;
    let all =
        [cache_read, cache_write, cache_write_hour].iter().fold(*input, |sum, n| sum.saturating_add(**n));
    json!({
        "prompt_tokens": all,
        "completion_tokens": output,
        "total_tokens": all.saturating_add(*output),
        "prompt_tokens_details": {
            "cached_tokens": cache_read,
            "cache_write_tokens": cache_write.saturating_add(*cache_write_hour),
        },
    })
}
