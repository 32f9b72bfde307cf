//! A request of Chat Completions, as we write it, and what the translations into it share.

use serde::Serialize;
use serde_json::Value;

/// A service's name for the limit of an answer. A service that does not know the name ignores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputLimit {
    /// OpenAI itself; its newer models refuse the other name.
    MaxCompletionTokens,
    /// All other services: Ollama supports no other name.
    MaxTokens,
}

impl OutputLimit {
    /// `max_tokens` and `max_completion_tokens`.
    pub(super) fn fields(self, most: Option<u64>) -> (Option<u64>, Option<u64>) {
        match self {
            Self::MaxTokens => (most, None),
            Self::MaxCompletionTokens => (None, most),
        }
    }
}

#[derive(Serialize)]
pub(super) struct ChatRequest {
    pub(super) model: String,
    pub(super) messages: Vec<ChatMessage>,
    pub(super) stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tools: Vec<ChatTool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_choice: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) temperature: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) top_p: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) stop: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_effort: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) verbosity: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_format: Option<ResponseFormat>,
}

#[derive(Serialize)]
pub(super) struct StreamOptions {
    pub(super) include_usage: bool,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ResponseFormat {
    JsonSchema { json_schema: JsonSchema },
}

#[derive(Serialize)]
pub(super) struct JsonSchema {
    pub(super) name: String,
    pub(super) schema: Value,
    pub(super) strict: bool,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ChatTool {
    Function { function: ChatFunction },
}

#[derive(Serialize)]
pub(super) struct ChatFunction {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) parameters: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) strict: Option<bool>,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub(super) enum ChatMessage {
    System {
        content: String,
    },
    User {
        content: ChatContent,
    },
    Assistant {
        content: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ChatCall>,
    },
    Tool {
        tool_call_id: String,
        content: String,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum ChatContent {
    Text(String),
    Parts(Vec<ChatPart>),
}

impl ChatContent {
    /// One text is written as a text: not every server takes parts.
    pub(super) fn of(mut parts: Vec<ChatPart>) -> Self {
        match parts.as_mut_slice() {
            [ChatPart::Text { text }] => Self::Text(std::mem::take(text)),
            _ => Self::Parts(parts),
        }
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ChatPart {
    Text { text: String },
    ImageUrl { image_url: ChatImage },
    File { file: ChatFile },
}

impl ChatPart {
    pub(super) fn text(text: String) -> Self {
        Self::Text { text }
    }
}

#[derive(Serialize)]
pub(super) struct ChatImage {
    pub(super) url: String,
}

#[derive(Serialize)]
pub(super) struct ChatFile {
    pub(super) filename: String,
    pub(super) file_data: String,
}

#[derive(Serialize)]
pub(super) struct ChatCall {
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    function: CalledFunction,
}

#[derive(Serialize)]
struct CalledFunction {
    name: String,
    /// JSON in a text.
    arguments: String,
}

impl ChatCall {
    pub(super) fn new(id: String, name: String, input: &Value) -> Self {
        Self::of_text(id, name, input.to_string())
    }

    pub(super) fn of_text(id: String, name: String, arguments: String) -> Self {
        Self { id, kind: "function", function: CalledFunction { name, arguments } }
    }
}

/// A result is a text; its images are returned for the user's next message.
pub(super) fn tool_result(id: String, parts: Vec<ChatPart>, is_error: bool) -> (ChatMessage, Vec<ChatPart>) {
    let mut texts = Vec::new();
    let mut shown = Vec::new();
    for part in parts {
        match part {
            ChatPart::Text { text } => texts.push(text),
            other => shown.push(other),
        }
    }
    if !shown.is_empty() {
        texts.push("[more content of this result is in the next message]".to_owned());
        shown.insert(0, ChatPart::text(format!("More content of the result of the tool call {id}:")));
    }
    // The format has no mark for errors.
    let prefix = if is_error { "Error: " } else { "" };
    let content = format!("{prefix}{}", texts.join("\n"));
    (ChatMessage::Tool { tool_call_id: id, content }, shown)
}
