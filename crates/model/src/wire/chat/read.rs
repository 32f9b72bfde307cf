//! JSON of the Chat Completions format into the neutral form.

use crate::wire::error::{WireError, parse};
use crate::wire::openai::{read_arguments, texts};
use crate::wire::{
    ContentBlock, Message, MessageRole, ModelAnswer, ModelRequest, StopReason, TokenUsage, Tool, ToolCall,
    ToolResult,
};
use serde_json::Value;

pub(super) const FORMAT: &str = "Chat Completions";

pub fn read_request(bytes: &[u8]) -> Result<ModelRequest, WireError> {
    let value: Value = parse(FORMAT, bytes)?;
    let missing = |name: &str| WireError::invalid(FORMAT, format!("missing field `{name}`"));
    let model = value["model"].as_str().ok_or_else(|| missing("model"))?;
    if value["n"].as_u64().is_some_and(|count| count > 1) {
        return Err(WireError::invalid(FORMAT, "more than one answer is asked for (`n`)".to_owned()));
    }
    let mut system = Vec::new();
    let mut messages: Vec<Message> = Vec::new();
    for message in value["messages"].as_array().ok_or_else(|| missing("messages"))? {
        let (role, blocks) = read_message(message)?;
        match messages.last_mut() {
            None if role == MessageRole::System => system.extend(texts(&message["content"])),
            Some(last) if last.role == role && is_result(&blocks) && is_result(&last.blocks) => {
                last.blocks.extend(blocks);
            }
            _ => messages.push(Message { role, blocks }),
        }
    }
    let tools = value["tools"].as_array().into_iter().flatten().map(read_tool).collect();
    let most = value["max_completion_tokens"].as_u64().or_else(|| value["max_tokens"].as_u64());
    Ok(ModelRequest {
        model: model.to_owned(),
        system,
        documents: Vec::new(),
        messages,
        tools,
        max_tokens: most,
        effort: value["reasoning_effort"].as_str().map(str::to_owned),
        stream: value["stream"].as_bool().unwrap_or(false),
    })
}

fn is_result(blocks: &[ContentBlock]) -> bool {
    blocks.iter().all(|block| matches!(block, ContentBlock::ToolResult(_)))
}

fn read_tool(tool: &Value) -> Tool {
    let function = if tool["custom"].is_object() { &tool["custom"] } else { &tool["function"] };
    Tool {
        name: function["name"].as_str().unwrap_or_default().to_owned(),
        description: function["description"].as_str().unwrap_or_default().to_owned(),
        schema: function["parameters"].clone(),
    }
}

fn read_message(message: &Value) -> Result<(MessageRole, Vec<ContentBlock>), WireError> {
    let content = &message["content"];
    Ok(match message["role"].as_str() {
        Some("system" | "developer") => (MessageRole::System, content_blocks(content)),
        Some("user") => (MessageRole::User, content_blocks(content)),
        Some("assistant") => {
            let mut blocks = reasoning(message);
            blocks.extend(content_blocks(content));
            blocks.extend(content_blocks(&message["refusal"]));
            blocks.extend(message["tool_calls"].as_array().into_iter().flatten().map(read_call));
            (MessageRole::Assistant, blocks)
        }
        Some("tool" | "function") => {
            let id = message["tool_call_id"].as_str().unwrap_or_default().to_owned();
            (
                MessageRole::User,
                vec![ContentBlock::ToolResult(ToolResult { id, parts: texts(content), is_error: false })],
            )
        }
        other => return Err(WireError::invalid(FORMAT, format!("a message has the unknown role {other:?}"))),
    })
}

/// What the model thought, as vLLM, Ollama, DeepSeek and OpenRouter name it.
fn reasoning(message: &Value) -> Vec<ContentBlock> {
    let text = reasoning_text(message).map(str::to_owned);
    text.map(|text| ContentBlock::Thinking { text, signature: String::new() }).into_iter().collect()
}

pub(super) fn reasoning_text(message: &Value) -> Option<&str> {
    let named = ["reasoning_content", "reasoning"].iter().find_map(|name| message[*name].as_str());
    named.filter(|text| !text.is_empty())
}

fn content_blocks(content: &Value) -> Vec<ContentBlock> {
    match content {
        Value::Array(parts) => parts
            .iter()
            .map(|part| match part["text"].as_str() {
                Some(text) => ContentBlock::Text(text.to_owned()),
                None => ContentBlock::Other(part.clone()),
            })
            .collect(),
        Value::String(text) if !text.is_empty() => vec![ContentBlock::Text(text.clone())],
        _ => Vec::new(),
    }
}

fn read_call(call: &Value) -> ContentBlock {
    ContentBlock::ToolCall(ToolCall {
        id: call["id"].as_str().unwrap_or_default().to_owned(),
        name: call["function"]["name"].as_str().unwrap_or_default().to_owned(),
        input: read_arguments(call["function"]["arguments"].as_str().unwrap_or_default()),
    })
}

pub fn read_answer(bytes: &[u8]) -> Result<ModelAnswer, WireError> {
    let value: Value = parse(FORMAT, bytes)?;
    let choices = value["choices"].as_array().map_or(&[][..], Vec::as_slice);
    let [choice] = choices else {
        return Err(WireError::invalid(FORMAT, format!("it has {} choices instead of one", choices.len())));
    };
    refuse_legacy_call(&choice["message"])?;
    let (_, blocks) = read_message(&with_role(&choice["message"]))?;
    Ok(ModelAnswer {
        id: value["id"].as_str().unwrap_or_default().to_owned(),
        model: value["model"].as_str().unwrap_or_default().to_owned(),
        stop: read_stop(choice["finish_reason"].as_str()),
        blocks,
        usage: read_usage(&value["usage"]),
    })
}

/// A call in the oldest form would pass without a verdict.
pub(super) fn refuse_legacy_call(message: &Value) -> Result<(), WireError> {
    if message["function_call"].is_null() {
        return Ok(());
    }
    Err(WireError::invalid(FORMAT, "it has a `function_call`; tool calls come in `tool_calls`"))
}

fn with_role(message: &Value) -> Value {
    let mut message = message.clone();
    if message["role"].is_null() {
        message["role"] = Value::from("assistant");
    }
    message
}

pub(super) fn read_stop(reason: Option<&str>) -> StopReason {
    match reason {
        None | Some("stop") => StopReason::EndTurn,
        Some("tool_calls" | "function_call") => StopReason::ToolUse,
        Some("length") => StopReason::MaxTokens,
        Some("content_filter") => StopReason::Refusal,
        Some(other) => StopReason::Other(other.to_owned()),
    }
}

pub(super) fn read_usage(usage: &Value) -> TokenUsage {
    let cached = usage["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap_or(0);
    let written = usage["prompt_tokens_details"]["cache_write_tokens"].as_u64().unwrap_or(0);
    let input = usage["prompt_tokens"].as_u64().unwrap_or(0);
    TokenUsage {
        input: input.saturating_sub(cached).saturating_sub(written),
        output: usage["completion_tokens"].as_u64().unwrap_or(0),
        cache_read: cached,
        cache_write: written,
        cache_write_hour: 0,
    }
}
