//! A request of the Messages format, as the gateway passes it. A field or block that is not here cannot be translated.

use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "fields that are read so that others are refused")]
pub(super) struct MessagesRequest {
    pub(super) model: String,
    pub(super) messages: Vec<MessagesMessage>,
    pub(super) system: Option<Content>,
    #[serde(default)]
    pub(super) tools: Vec<MessagesTool>,
    pub(super) tool_choice: Option<ToolChoice>,
    pub(super) max_tokens: Option<u64>,
    #[serde(default)]
    pub(super) stream: bool,
    pub(super) temperature: Option<Value>,
    pub(super) top_p: Option<Value>,
    pub(super) top_k: Option<Value>,
    #[serde(default)]
    pub(super) stop_sequences: Vec<String>,
    pub(super) output_config: Option<OutputConfig>,
    pub(super) output_format: Option<OutputFormat>,
    pub(super) context_management: Option<ContextManagement>,
    pub(super) metadata: Option<IgnoredAny>,
    pub(super) cache_control: Option<IgnoredAny>,
    pub(super) service_tier: Option<IgnoredAny>,
    pub(super) speed: Option<IgnoredAny>,
    pub(super) thinking: Option<IgnoredAny>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct OutputConfig {
    pub(super) effort: Option<String>,
    pub(super) format: Option<OutputFormat>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum OutputFormat {
    JsonSchema { schema: Value },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ContextManagement {
    #[serde(default)]
    pub(super) edits: Vec<Edit>,
}

#[derive(Deserialize)]
pub(super) struct Edit {
    #[serde(rename = "type")]
    pub(super) kind: String,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum ToolChoice {
    Auto {
        #[serde(default)]
        disable_parallel_tool_use: bool,
    },
    Any {
        #[serde(default)]
        disable_parallel_tool_use: bool,
    },
    Tool {
        name: String,
        #[serde(default)]
        disable_parallel_tool_use: bool,
    },
    None {},
}

impl ToolChoice {
    pub(super) fn disables_parallel(&self) -> bool {
        match self {
            Self::Auto { disable_parallel_tool_use }
            | Self::Any { disable_parallel_tool_use }
            | Self::Tool { disable_parallel_tool_use, .. } => *disable_parallel_tool_use,
            Self::None {} => false,
        }
    }
}

/// Fields about the delivery or caching of a tool's arguments are read and left out.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "fields that are read so that others are refused")]
pub(super) struct MessagesTool {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) input_schema: Option<Value>,
    pub(super) input_examples: Option<Value>,
    pub(super) strict: Option<bool>,
    eager_input_streaming: Option<IgnoredAny>,
    /// The tool is there from the start: the format has no search for tools.
    defer_loading: Option<IgnoredAny>,
    allowed_callers: Option<IgnoredAny>,
    cache_control: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MessagesMessage {
    pub(super) role: String,
    pub(super) content: Content,
}

pub(super) enum Content {
    Text(String),
    Blocks(Vec<Block>),
}

/// Not `untagged`, which would not say what is wrong with a block.
impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Self::Text(text)),
            blocks => Vec::deserialize(blocks).map(Self::Blocks).map_err(D::Error::custom),
        }
    }
}

impl Content {
    pub(super) fn into_blocks(self) -> Vec<Block> {
        match self {
            Self::Text(text) => vec![Block::Text { text, citations: None, cache_control: None }],
            Self::Blocks(blocks) => blocks,
        }
    }
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[expect(dead_code, reason = "fields that are read so that others are refused")]
pub(super) enum Block {
    Text {
        text: String,
        citations: Option<IgnoredAny>,
        cache_control: Option<IgnoredAny>,
    },
    Image {
        source: Source,
        cache_control: Option<IgnoredAny>,
    },
    Document {
        source: Source,
        title: Option<String>,
        context: Option<String>,
        citations: Option<IgnoredAny>,
        cache_control: Option<IgnoredAny>,
    },
    SearchResult {
        source: String,
        title: String,
        content: Vec<Block>,
        citations: Option<IgnoredAny>,
        cache_control: Option<IgnoredAny>,
    },
    Thinking {
        thinking: IgnoredAny,
        signature: Option<IgnoredAny>,
        cache_control: Option<IgnoredAny>,
    },
    RedactedThinking {
        data: IgnoredAny,
    },
    ToolUse {
        id: String,
        name: String,
        input: Value,
        caller: Option<IgnoredAny>,
        cache_control: Option<IgnoredAny>,
    },
    ToolResult {
        tool_use_id: String,
        content: Option<Content>,
        is_error: Option<bool>,
        cache_control: Option<IgnoredAny>,
    },
    ToolReference {
        tool_name: IgnoredAny,
        cache_control: Option<IgnoredAny>,
    },
}

impl Block {
    /// As the format calls it.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Text { .. } => "text",
            Self::Image { .. } => "image",
            Self::Document { .. } => "document",
            Self::SearchResult { .. } => "search_result",
            Self::Thinking { .. } => "thinking",
            Self::RedactedThinking { .. } => "redacted_thinking",
            Self::ToolUse { .. } => "tool_use",
            Self::ToolResult { .. } => "tool_result",
            Self::ToolReference { .. } => "tool_reference",
        }
    }
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Source {
    Base64 { media_type: String, data: String },
    Text { data: String },
    Content { content: Box<Content> },
}
