//! A request of the Responses format, as the gateway passes it. A field or item that is not here cannot be translated.

use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "fields that are read so that others are refused")]
pub(super) struct ResponsesRequest {
    pub(super) model: String,
    pub(super) input: Input,
    pub(super) instructions: Option<String>,
    #[serde(default)]
    pub(super) tools: Vec<ResponsesTool>,
    pub(super) tool_choice: Option<Value>,
    pub(super) parallel_tool_calls: Option<bool>,
    pub(super) max_output_tokens: Option<u64>,
    #[serde(default)]
    pub(super) stream: bool,
    pub(super) reasoning: Option<Reasoning>,
    pub(super) text: Option<TextOptions>,
    pub(super) temperature: Option<Value>,
    pub(super) top_p: Option<Value>,
    pub(super) truncation: Option<String>,
    // Fields that do not concern the model: storage, cache, usage, service tier.
    store: Option<IgnoredAny>,
    include: Option<IgnoredAny>,
    stream_options: Option<IgnoredAny>,
    prompt_cache_key: Option<IgnoredAny>,
    prompt_cache_retention: Option<IgnoredAny>,
    metadata: Option<IgnoredAny>,
    client_metadata: Option<IgnoredAny>,
    user: Option<IgnoredAny>,
    safety_identifier: Option<IgnoredAny>,
    service_tier: Option<IgnoredAny>,
    background: Option<IgnoredAny>,
    previous_response_id: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "a summary of thoughts is for people")]
pub(super) struct Reasoning {
    pub(super) effort: Option<String>,
    summary: Option<IgnoredAny>,
    context: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TextOptions {
    pub(super) verbosity: Option<String>,
    pub(super) format: Option<TextFormat>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum TextFormat {
    Text {},
    JsonSchema { name: String, schema: Value, strict: Option<bool> },
}

pub(super) enum Input {
    Text(String),
    Items(Vec<Item>),
}

/// Not `untagged`, which would not say what is wrong with an item.
impl<'de> Deserialize<'de> for Input {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut items = match Value::deserialize(deserializer)? {
            Value::String(text) => return Ok(Self::Text(text)),
            Value::Array(items) => items,
            _ => return Err(D::Error::custom("`input` is neither a text nor a list")),
        };
        // A message may leave out its type.
        for item in items.iter_mut().filter(|item| item.get("type").is_none()) {
            item["type"] = json!("message");
        }
        let items = items.into_iter().map(Item::deserialize).collect::<Result<_, _>>();
        items.map(Self::Items).map_err(D::Error::custom)
    }
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[expect(dead_code, reason = "fields that are read so that others are refused")]
pub(super) enum Item {
    Message {
        role: String,
        content: Content,
        id: Option<IgnoredAny>,
        status: Option<IgnoredAny>,
        phase: Option<IgnoredAny>,
    },
    FunctionCall {
        call_id: String,
        name: String,
        namespace: Option<String>,
        arguments: String,
        id: Option<IgnoredAny>,
        status: Option<IgnoredAny>,
    },
    CustomToolCall {
        call_id: String,
        name: String,
        input: String,
        id: Option<IgnoredAny>,
        status: Option<IgnoredAny>,
    },
    FunctionCallOutput {
        call_id: String,
        output: Content,
        id: Option<IgnoredAny>,
        name: Option<IgnoredAny>,
        status: Option<IgnoredAny>,
        success: Option<bool>,
    },
    CustomToolCallOutput {
        call_id: String,
        output: Content,
        id: Option<IgnoredAny>,
        name: Option<IgnoredAny>,
        status: Option<IgnoredAny>,
        success: Option<bool>,
    },
    Reasoning {
        id: Option<IgnoredAny>,
        summary: Option<IgnoredAny>,
        content: Option<IgnoredAny>,
        encrypted_content: Option<IgnoredAny>,
        status: Option<IgnoredAny>,
    },
}

pub(super) enum Content {
    Text(String),
    Parts(Vec<Part>),
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Self::Text(text)),
            parts => Vec::deserialize(parts).map(Self::Parts).map_err(D::Error::custom),
        }
    }
}

impl Content {
    pub(super) fn into_parts(self) -> Vec<Part> {
        match self {
            Self::Text(text) => vec![Part::InputText { text }],
            Self::Parts(parts) => parts,
        }
    }
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Part {
    #[serde(alias = "output_text", alias = "text", alias = "summary_text", alias = "reasoning_text")]
    InputText {
        text: String,
    },
    Refusal {
        refusal: String,
    },
    InputImage {
        image_url: String,
    },
    InputFile {
        filename: Option<String>,
        file_data: String,
    },
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[expect(dead_code, reason = "fields that are read so that others are refused")]
pub(super) enum ResponsesTool {
    Function {
        name: String,
        description: Option<String>,
        parameters: Option<Value>,
        strict: Option<bool>,
        output_schema: Option<IgnoredAny>,
        defer_loading: Option<IgnoredAny>,
    },
    Custom {
        name: String,
        description: Option<String>,
        format: Option<Value>,
        defer_loading: Option<IgnoredAny>,
    },
    Namespace {
        name: String,
        description: Option<String>,
        tools: Vec<ResponsesTool>,
    },
}
