//! JSON of the Messages format into the neutral form.

use crate::wire::error::{WireError, parse};
use crate::wire::fault::{self, Fault, FaultKind};
use crate::wire::{
    ContentBlock, Message, MessageRole, ModelAnswer, ModelRequest, StopReason, TokenUsage, Tool, ToolCall,
    ToolResult,
};
use serde::Deserialize;
use serde_json::Value;

pub(super) const FORMAT: &str = "Messages";

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
#[serde(default)]
struct ThinkingForm {
    thinking: ThinkingBudget,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ThinkingBudget {
    budget_tokens: u64,
}

/// The part of the answer that is set aside for thinking.
pub fn thinking_tokens(body: &[u8]) -> u64 {
    serde_json::from_slice::<ThinkingForm>(body).map_or(0, |form| form.thinking.budget_tokens)
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

/// Content: one string or a list of blocks.
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

pub fn read_request(bytes: &[u8]) -> Result<ModelRequest, WireError> {
    let form: RequestForm = parse(FORMAT, bytes)?;
    let RequestForm { model, system, messages, tools, max_tokens, stream, output_config } = form;
    let mut neutral = Vec::with_capacity(messages.len());
    for MessageForm { role, content } in messages {
        let role = match role.as_str() {
            "user" => MessageRole::User,
            "assistant" => MessageRole::Assistant,
            "system" | "developer" => MessageRole::System,
            other => {
                return Err(WireError::invalid(FORMAT, format!("a message has the unknown role {other:?}")));
            }
        };
        neutral.push(Message { role, blocks: content.into_blocks() });
    }
    let mut documents = Vec::new();
    for block in neutral.iter().flat_map(|message| &message.blocks) {
        if let ContentBlock::Other(value) = block {
            collect_texts(value, &mut documents);
        }
    }
    let system = system.into_blocks();
    let system = system.iter().filter_map(ContentBlock::as_text).map(str::to_owned).collect();
    let tools = tools
        .into_iter()
        .map(|ToolForm { name, description, input_schema }| Tool { name, description, schema: input_schema })
        .collect();
    Ok(ModelRequest {
        model,
        system,
        messages: neutral,
        documents,
        tools,
        max_tokens,
        effort: output_config.effort,
        stream,
    })
}

impl Content {
    fn into_blocks(self) -> Vec<ContentBlock> {
        match self {
            Self::Text(text) => vec![ContentBlock::Text(text)],
            Self::Blocks(blocks) => blocks.into_iter().map(read_block).collect(),
            Self::Nothing(()) => Vec::new(),
        }
    }
}

pub(super) fn read_block(value: Value) -> ContentBlock {
    let text_of = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    match value.get("type").and_then(Value::as_str) {
        Some("text") => ContentBlock::Text(text_of("text")),
        Some("thinking") => {
            ContentBlock::Thinking { text: text_of("thinking"), signature: text_of("signature") }
        }
        Some("tool_use") => ContentBlock::ToolCall(ToolCall {
            id: text_of("id"),
            name: text_of("name"),
            input: value.get("input").cloned().unwrap_or_default(),
        }),
        Some("tool_result") => ContentBlock::ToolResult(ToolResult {
            id: text_of("tool_use_id"),
            parts: result_parts(value.get("content")),
            is_error: value.get("is_error").and_then(Value::as_bool).unwrap_or(false),
        }),
        _ => ContentBlock::Other(value),
    }
}

fn result_parts(content: Option<&Value>) -> Vec<String> {
    let mut parts = Vec::new();
    match content {
        Some(Value::String(text)) => parts.push(text.clone()),
        Some(Value::Array(blocks)) => blocks.iter().for_each(|block| collect_texts(block, &mut parts)),
        _ => {}
    }
    parts
}

/// Every text that a model reads in a block: its own, and those of documents and search results within it.
fn collect_texts(block: &Value, texts: &mut Vec<String>) {
    let has_text_data = block.pointer("/source/type").is_some_and(|kind| kind == "text");
    let data = if has_text_data { block.pointer("/source/data") } else { None };
    let own = ["text", "title", "context", "source"].iter().filter_map(|name| block.get(*name));
    for text in own.chain(data).filter_map(Value::as_str) {
        texts.push(text.to_owned());
    }
    for content in [block.get("content"), block.pointer("/source/content")].into_iter().flatten() {
        match content {
            Value::String(text) => texts.push(text.clone()),
            Value::Array(blocks) => blocks.iter().for_each(|block| collect_texts(block, texts)),
            _ => {}
        }
    }
}

pub fn read_answer(bytes: &[u8]) -> Result<ModelAnswer, WireError> {
    let form: AnswerForm = parse(FORMAT, bytes)?;
    let AnswerForm { id, model, content, stop_reason, usage } = form;
    let blocks = content.into_iter().map(read_block).collect();
    Ok(ModelAnswer {
        id,
        model,
        blocks,
        stop: read_stop(stop_reason.as_deref()),
        usage: usage.into_neutral(),
    })
}

pub(super) fn read_stop(reason: Option<&str>) -> StopReason {
    match reason {
        None | Some("end_turn") => StopReason::EndTurn,
        Some("tool_use") => StopReason::ToolUse,
        Some("max_tokens") => StopReason::MaxTokens,
        Some("refusal") => StopReason::Refusal,
        Some(other) => StopReason::Other(other.to_owned()),
    }
}

impl UsageForm {
    fn into_neutral(self) -> TokenUsage {
        let written = self.cache_creation_input_tokens.unwrap_or(0);
        let hour = self.cache_creation.map_or(0, |split| split.ephemeral_1h_input_tokens);
        TokenUsage {
            input: self.input_tokens.unwrap_or(0),
            output: self.output_tokens.unwrap_or(0),
            cache_read: self.cache_read_input_tokens.unwrap_or(0),
            cache_write: written.saturating_sub(hour),
            cache_write_hour: hour,
        }
    }
}

/// The usage object of an answer or of a stream event; an unknown form counts as no report.
pub fn read_usage(value: &Value) -> TokenUsage {
    UsageForm::deserialize(value).map(UsageForm::into_neutral).unwrap_or_default()
}

/// An error answer; one that is not in the format still has its kind and the beginning of its text.
pub fn read_fault(status: u16, body: &[u8]) -> Fault {
    Fault::new(FaultKind::from_status(status), fault::words(body))
}

pub(super) fn fault_of(value: &Value) -> Fault {
    let error = value.get("error").unwrap_or(value);
    let text_of = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
    Fault::new(FaultKind::from_name(text_of("type")), text_of("message"))
}
