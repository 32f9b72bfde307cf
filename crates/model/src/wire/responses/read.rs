//! JSON of the Responses format into the neutral form.

use crate::wire::error::{WireError, parse};
use crate::wire::openai::{read_arguments, texts};
use crate::wire::{
    ContentBlock, Message, MessageRole, ModelAnswer, ModelRequest, StopReason, TokenUsage, Tool, ToolCall,
    ToolResult,
};
use serde_json::{Value, json};

pub(super) const FORMAT: &str = "Responses";

pub fn read_request(bytes: &[u8]) -> Result<ModelRequest, WireError> {
    let value: Value = parse(FORMAT, bytes)?;
    let model = value["model"]
        .as_str()
        .ok_or_else(|| WireError::invalid(FORMAT, "missing field `model`".to_owned()))?;
    if value.get("previous_response_id").is_some_and(|id| !id.is_null()) {
        return Err(WireError::invalid(
            FORMAT,
            "`previous_response_id` names a history that is not in the request".to_owned(),
        ));
    }
    let mut messages: Vec<Message> = Vec::new();
    match &value["input"] {
        Value::String(text) => messages.push(Message::user(text.clone())),
        Value::Array(items) => items.iter().try_for_each(|item| read_item(item, &mut messages))?,
        _ => return Err(WireError::invalid(FORMAT, "missing field `input`".to_owned())),
    }
    let mut tools = Vec::new();
    read_tools(&value["tools"], None, &mut tools);
    // Codex adds tools in the middle of a conversation.
    for item in value["input"].as_array().into_iter().flatten() {
        if matches!(item["type"].as_str(), Some("additional_tools" | "tool_search_output")) {
            read_tools(&item["tools"], None, &mut tools);
        }
    }
    let mut documents = Vec::new();
    collect_namespaces(&value["tools"], &mut documents);
    collect_namespaces(&value["input"], &mut documents);
    Ok(ModelRequest {
        model: model.to_owned(),
        system: texts(&value["instructions"]),
        documents,
        messages,
        tools,
        max_tokens: value["max_output_tokens"].as_u64(),
        effort: value["reasoning"]["effort"].as_str().map(str::to_owned),
        stream: value["stream"].as_bool().unwrap_or(false),
    })
}

/// Tools of a kind without a name are called by their kind; a namespace holds tools of its own.
fn read_tools(list: &Value, namespace: Option<&str>, out: &mut Vec<Tool>) {
    for tool in list.as_array().into_iter().flatten() {
        if tool["tools"].is_array() {
            read_tools(&tool["tools"], tool["name"].as_str(), out);
            continue;
        }
        let name = tool["name"].as_str().or_else(|| tool["type"].as_str()).unwrap_or_default();
        out.push(Tool {
            name: full_name(namespace, name),
            description: tool["description"].as_str().unwrap_or_default().to_owned(),
            schema: tool["parameters"].clone(),
        });
    }
}

/// The descriptions of namespaces: an MCP server writes its own.
fn collect_namespaces(list: &Value, out: &mut Vec<String>) {
    for entry in list.as_array().into_iter().flatten().filter(|entry| entry["tools"].is_array()) {
        out.extend(entry["description"].as_str().map(str::to_owned));
        collect_namespaces(&entry["tools"], out);
    }
}

/// As clients call a tool of a namespace towards hooks and people: `mcp__lab` and `ping` are `mcp__lab__ping`.
fn full_name(namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) => format!("{namespace}__{name}"),
        None => name.to_owned(),
    }
}

fn read_item(item: &Value, messages: &mut Vec<Message>) -> Result<(), WireError> {
    let (role, blocks) = match item["type"].as_str() {
        None | Some("message") => (role_of(item["role"].as_str())?, message_blocks(&item["content"])),
        Some(
            "function_call_output"
            | "custom_tool_call_output"
            | "local_shell_call_output"
            | "apply_patch_call_output",
        ) => (MessageRole::User, vec![ContentBlock::ToolResult(read_result(item))]),
        Some(_) => (MessageRole::Assistant, vec![read_output_item(item)]),
    };
    match messages.last_mut() {
        // A turn of the model is one message here; so is a row of results.
        Some(last) if last.role == role && role == MessageRole::Assistant => last.blocks.extend(blocks),
        Some(last) if last.role == role && is_result(&blocks) && is_result(&last.blocks) => {
            last.blocks.extend(blocks);
        }
        _ => messages.push(Message { role, blocks }),
    }
    Ok(())
}

fn is_result(blocks: &[ContentBlock]) -> bool {
    blocks.iter().all(|block| matches!(block, ContentBlock::ToolResult(_)))
}

fn role_of(role: Option<&str>) -> Result<MessageRole, WireError> {
    match role {
        Some("user") => Ok(MessageRole::User),
        Some("assistant") => Ok(MessageRole::Assistant),
        Some("system" | "developer") => Ok(MessageRole::System),
        other => Err(WireError::invalid(FORMAT, format!("a message has the unknown role {other:?}"))),
    }
}

fn message_blocks(content: &Value) -> Vec<ContentBlock> {
    match content {
        Value::Array(parts) => parts
            .iter()
            .map(|part| match part["text"].as_str() {
                Some(text) => ContentBlock::Text(text.to_owned()),
                None => ContentBlock::Other(part.clone()),
            })
            .collect(),
        other => texts(other).into_iter().map(ContentBlock::Text).collect(),
    }
}

fn read_result(item: &Value) -> ToolResult {
    let output = &item["output"];
    let mut parts = texts(output);
    // Some clients wrap the text with what is known about it.
    if parts.is_empty() && output.is_object() {
        parts = texts(&output["content"]);
    }
    ToolResult {
        id: item["call_id"].as_str().unwrap_or_default().to_owned(),
        parts,
        is_error: output["success"].as_bool() == Some(false) || item["status"] == "incomplete",
    }
}

/// An item that the model made.
pub(super) fn read_output_item(item: &Value) -> ContentBlock {
    let text_of = |key: &str| item[key].as_str().unwrap_or_default().to_owned();
    let id = item["call_id"].as_str().or_else(|| item["id"].as_str()).unwrap_or_default().to_owned();
    match item["type"].as_str() {
        Some("message") => {
            let said: Vec<&str> = item["content"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|part| part["text"].as_str().or_else(|| part["refusal"].as_str()))
                .collect();
            ContentBlock::Text(said.concat())
        }
        Some("function_call") => {
            let input = read_arguments(item["arguments"].as_str().unwrap_or_default());
            let name = full_name(item["namespace"].as_str(), &text_of("name"));
            ContentBlock::ToolCall(ToolCall { id, name, input })
        }
        Some("custom_tool_call") => {
            ContentBlock::ToolCall(ToolCall { id, name: text_of("name"), input: item["input"].clone() })
        }
        Some("local_shell_call") => ContentBlock::ToolCall(ToolCall {
            id,
            name: "local_shell".to_owned(),
            input: item["action"].clone(),
        }),
        _ => ContentBlock::Other(item.clone()),
    }
}

pub fn read_answer(bytes: &[u8]) -> Result<ModelAnswer, WireError> {
    let value: Value = parse(FORMAT, bytes)?;
    let output = value["output"]
        .as_array()
        .ok_or_else(|| WireError::invalid(FORMAT, "missing field `output`".to_owned()))?;
    let blocks: Vec<ContentBlock> = output.iter().map(read_output_item).collect();
    let stop = read_stop(&value, &blocks);
    Ok(ModelAnswer {
        id: value["id"].as_str().unwrap_or_default().to_owned(),
        model: value["model"].as_str().unwrap_or_default().to_owned(),
        blocks,
        stop,
        usage: read_usage(&value["usage"]),
    })
}

fn read_stop(response: &Value, blocks: &[ContentBlock]) -> StopReason {
    match (response["status"].as_str(), response["incomplete_details"]["reason"].as_str()) {
        (Some("incomplete"), Some("max_output_tokens") | None) => StopReason::MaxTokens,
        (Some("incomplete"), Some(other)) => StopReason::Other(other.to_owned()),
        _ => StopReason::natural(blocks),
    }
}

pub(super) fn stop_of(response: &Value, has_calls: bool) -> StopReason {
    let call = ContentBlock::ToolCall(ToolCall { id: String::new(), name: String::new(), input: json!({}) });
    read_stop(response, if has_calls { std::slice::from_ref(&call) } else { &[] })
}

/// Input counts what was read from the cache; it is billed apart.
pub(super) fn read_usage(usage: &Value) -> TokenUsage {
    let cached = usage["input_tokens_details"]["cached_tokens"].as_u64().unwrap_or(0);
    let written = usage["input_tokens_details"]["cache_write_tokens"].as_u64().unwrap_or(0);
    let input = usage["input_tokens"].as_u64().unwrap_or(0);
    TokenUsage {
        input: input.saturating_sub(cached).saturating_sub(written),
        output: usage["output_tokens"].as_u64().unwrap_or(0),
        cache_read: cached,
        cache_write: written,
        cache_write_hour: 0,
    }
}
