//! JSON of the Messages format into the neutral form.

use crate::wire::fault::{Fault, FaultKind};
use crate::wire::{Answer, Block, Message, Request, Role, Stop, Tool, ToolCall, ToolResult, Usage};
use serde::Deserialize;
use serde_json::Value;
use std::fmt;

#[derive(Debug)]
pub struct ReadError(String);

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a Messages document: {}", self.0)
    }
}

impl std::error::Error for ReadError {}

impl From<serde_json::Error> for ReadError {
    fn from(error: serde_json::Error) -> Self {
        Self(error.to_string())
    }
}

#[derive(Deserialize)]
struct RequestForm {
    model: String,
    #[serde(default)]
    system: Content,
    messages: Vec<MessageForm>,
    #[serde(default)]
    tools: Vec<ToolForm>,
    max_tokens: Option<u64>,
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    output_config: OutputConfig,
}

#[derive(Deserialize, Default)]
struct OutputConfig {
    effort: Option<String>,
}

#[derive(Deserialize)]
struct MessageForm {
    role: String,
    #[serde(default)]
    content: Content,
}

#[derive(Deserialize)]
struct ToolForm {
    #[serde(default)]
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    input_schema: Value,
}

/// Either one string or a list of blocks, wherever the format has content.
#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Blocks(Vec<Value>),
    Nothing(()),
}

impl Default for Content {
    fn default() -> Self {
        Self::Nothing(())
    }
}

#[derive(Deserialize)]
struct AnswerForm {
    #[serde(default)]
    id: String,
    #[serde(default)]
    model: String,
    #[serde(default)]
    content: Vec<Value>,
    stop_reason: Option<String>,
    #[serde(default)]
    usage: UsageForm,
}

#[derive(Deserialize, Default)]
struct UsageForm {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_creation: Option<CacheCreation>,
}

#[derive(Deserialize)]
struct CacheCreation {
    #[serde(default)]
    ephemeral_1h_input_tokens: u64,
}

pub fn read_request(bytes: &[u8]) -> Result<Request, ReadError> {
    let form: RequestForm = serde_json::from_slice(bytes)?;
    let RequestForm { model, system, messages, tools, max_tokens, stream, output_config } = form;
    let mut neutral = Vec::with_capacity(messages.len());
    for MessageForm { role, content } in messages {
        let role = match role.as_str() {
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "system" | "developer" => Role::System,
            other => return Err(ReadError(format!("a message has the unknown role {other:?}"))),
        };
        neutral.push(Message { role, blocks: content.into_blocks() });
    }
    let system = Message { role: Role::System, blocks: system.into_blocks() }.text();
    let tools = tools
        .into_iter()
        .map(|ToolForm { name, description, input_schema }| Tool { name, description, schema: input_schema })
        .collect();
    Ok(Request { model, system, messages: neutral, tools, max_tokens, effort: output_config.effort, stream })
}

impl Content {
    fn into_blocks(self) -> Vec<Block> {
        match self {
            Self::Text(text) => vec![Block::Text(text)],
            Self::Blocks(blocks) => blocks.into_iter().map(read_block).collect(),
            Self::Nothing(()) => Vec::new(),
        }
    }
}

pub(super) fn read_block(value: Value) -> Block {
    let text_of = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    match value.get("type").and_then(Value::as_str) {
        Some("text") => Block::Text(text_of("text")),
        Some("thinking") => Block::Thinking { text: text_of("thinking"), signature: text_of("signature") },
        Some("tool_use") => Block::ToolCall(ToolCall {
            id: text_of("id"),
            name: text_of("name"),
            input: value.get("input").cloned().unwrap_or_default(),
        }),
        Some("tool_result") => Block::ToolResult(ToolResult {
            id: text_of("tool_use_id"),
            parts: result_parts(value.get("content")),
            is_error: value.get("is_error").and_then(Value::as_bool).unwrap_or(false),
        }),
        _ => Block::Other(value),
    }
}

fn result_parts(content: Option<&Value>) -> Vec<String> {
    match content {
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Array(blocks)) => blocks
            .iter()
            .filter_map(|block| block.get("text").and_then(Value::as_str))
            .map(str::to_owned)
            .collect(),
        _ => Vec::new(),
    }
}

pub fn read_answer(bytes: &[u8]) -> Result<Answer, ReadError> {
    let form: AnswerForm = serde_json::from_slice(bytes)?;
    let AnswerForm { id, model, content, stop_reason, usage } = form;
    let blocks = content.into_iter().map(read_block).collect();
    Ok(Answer { id, model, blocks, stop: read_stop(stop_reason.as_deref()), usage: usage.into_neutral() })
}

pub(super) fn read_stop(reason: Option<&str>) -> Stop {
    match reason {
        None | Some("end_turn") => Stop::EndTurn,
        Some("tool_use") => Stop::ToolUse,
        Some("max_tokens") => Stop::MaxTokens,
        Some("refusal") => Stop::Refusal,
        Some(other) => Stop::Other(other.to_owned()),
    }
}

impl UsageForm {
    fn into_neutral(self) -> Usage {
        let written = self.cache_creation_input_tokens.unwrap_or(0);
        let hour = self.cache_creation.map_or(0, |split| split.ephemeral_1h_input_tokens);
        Usage {
            input: self.input_tokens.unwrap_or(0),
            output: self.output_tokens.unwrap_or(0),
            cache_read: self.cache_read_input_tokens.unwrap_or(0),
            cache_write: written.saturating_sub(hour),
            cache_write_hour: hour,
        }
    }
}

/// The usage object of an answer or of a stream event; a form that we cannot read counts as nothing reported.
pub fn read_usage(value: &Value) -> Usage {
    UsageForm::deserialize(value).map(UsageForm::into_neutral).unwrap_or_default()
}

/// An error answer; one that is not in the format still has its status and the beginning of its text.
pub fn read_fault(status: u16, body: &[u8]) -> Fault {
    let text = String::from_utf8_lossy(&body[..body.len().min(400)]).into_owned();
    match serde_json::from_slice::<Value>(body) {
        Ok(value) if value.get("error").is_some() => {
            let fault = fault_of(&value);
            Fault { kind: FaultKind::from_status(status), ..fault }
        }
        _ => Fault::new(FaultKind::from_status(status), format!("HTTP {status}: {text}")),
    }
}

pub(super) fn fault_of(value: &Value) -> Fault {
    let error = value.get("error").unwrap_or(value);
    let text_of = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
    Fault::new(FaultKind::from_name(text_of("type")), text_of("message"))
}
