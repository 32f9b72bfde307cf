//! The neutral form of a conversation with a model. Each vendor's format is read into it and written from it, so that
//! counting, inspection, scripting and our own agent loop exist once. It keeps what those need; a request is forwarded as
//! its original bytes.

pub(crate) mod assemble;
mod chat;
pub mod codec;
pub(crate) mod error;
pub mod fault;
pub(crate) mod messages;
pub(crate) mod openai;
mod responses;
pub(crate) mod rewrite;
pub(crate) mod sse;
#[cfg(test)]
mod tests;

pub use assemble::AssembleError;
pub use error::WireError;
pub use sse::SseDecoder;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Which vendor format a connection speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Wire {
    /// Anthropic Messages.
    Messages,
    /// OpenAI Responses.
    Responses,
    /// OpenAI Chat Completions.
    Chat,
}

impl Wire {
    pub const ALL: [Self; 3] = [Self::Messages, Self::Responses, Self::Chat];

    pub fn name(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Responses => "responses",
            Self::Chat => "chat",
        }
    }

    pub fn path(self) -> &'static str {
        match self {
            Self::Messages => "/v1/messages",
            Self::Responses => "/v1/responses",
            Self::Chat => "/v1/chat/completions",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelRequest {
    pub model: String,
    /// Instructions, one text each.
    pub system: Vec<String>,
    pub messages: Vec<Message>,
    /// Texts in documents of the user that are not tool results.
    pub documents: Vec<String>,
    pub tools: Vec<Tool>,
    pub max_tokens: Option<u64>,
    pub effort: Option<String>,
    pub stream: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    pub role: MessageRole,
    pub blocks: Vec<ContentBlock>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageRole {
    /// Some clients put further instructions between the turns.
    System,
    User,
    Assistant,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ContentBlock {
    Text(String),
    /// The signature lets the vendor check its own reasoning when it is sent back.
    Thinking {
        text: String,
        signature: String,
    },
    ToolCall(ToolCall),
    ToolResult(ToolResult),
    /// A kind that we do not read: images, documents, server tools. Kept so that it can be sent back.
    Other(Value),
}

#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    pub input: Value,
}

/// A result may have several parts; each is inspected by itself.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    pub id: String,
    pub parts: Vec<String>,
    pub is_error: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    pub name: String,
    pub description: String,
    pub schema: Value,
}

/// A whole answer, however it was delivered.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelAnswer {
    pub id: String,
    pub model: String,
    pub blocks: Vec<ContentBlock>,
    pub stop: StopReason,
    pub usage: TokenUsage,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum StopReason {
    #[default]
    EndTurn,
    ToolUse,
    MaxTokens,
    Refusal,
    Other(String),
}

/// Tokens as they are billed: `input` holds neither what was read from a cache nor what was written to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct TokenUsage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    /// Written to a cache of five minutes.
    pub cache_write: u64,
    /// Written to a cache of one hour, which costs more.
    pub cache_write_hour: u64,
}

impl TokenUsage {
    pub fn total(&self) -> u64 {
        let Self { input, output, cache_read, cache_write, cache_write_hour } = *self;
        [output, cache_read, cache_write, cache_write_hour]
            .iter()
            .fold(input, |sum, n| sum.saturating_add(*n))
    }

    /// Streams report running totals, some of them more than once: the largest is the last.
    pub fn raise(&mut self, other: &Self) {
        let Self { input, output, cache_read, cache_write, cache_write_hour } = *other;
        self.input = self.input.max(input);
        self.output = self.output.max(output);
        self.cache_read = self.cache_read.max(cache_read);
        self.cache_write = self.cache_write.max(cache_write);
        self.cache_write_hour = self.cache_write_hour.max(cache_write_hour);
    }

    pub fn add(&mut self, other: &Self) {
        let Self { input, output, cache_read, cache_write, cache_write_hour } = *other;
        self.input = self.input.saturating_add(input);
        self.output = self.output.saturating_add(output);
        self.cache_read = self.cache_read.saturating_add(cache_read);
        self.cache_write = self.cache_write.saturating_add(cache_write);
        self.cache_write_hour = self.cache_write_hour.saturating_add(cache_write_hour);
    }
}

/// One step of a streamed answer. Blocks are numbered from 0 and do not interleave.
#[derive(Debug, Clone, PartialEq)]
pub enum Delta {
    Start {
        id: String,
        model: String,
        usage: TokenUsage,
    },
    Text {
        block: usize,
        text: String,
    },
    Thinking {
        block: usize,
        text: String,
    },
    Signature {
        block: usize,
        signature: String,
    },
    ToolCall {
        block: usize,
        id: String,
        name: String,
    },
    ToolInput {
        block: usize,
        json: String,
    },
    Other {
        block: usize,
        value: Value,
    },
    BlockEnd {
        block: usize,
    },
    /// Usage, in formats that report it apart from the finish.
    Usage(TokenUsage),
    Finish {
        stop: StopReason,
        usage: TokenUsage,
    },
    End,
    Error(fault::Fault),
}

impl Delta {
    /// The block that the delta belongs to, if any.
    pub fn block(&self) -> Option<usize> {
        match self {
            Self::Text { block, .. }
            | Self::Thinking { block, .. }
            | Self::Signature { block, .. }
            | Self::ToolCall { block, .. }
            | Self::ToolInput { block, .. }
            | Self::Other { block, .. }
            | Self::BlockEnd { block } => Some(*block),
            Self::Start { .. } | Self::Usage(_) | Self::Finish { .. } | Self::End | Self::Error(_) => None,
        }
    }
}

impl ContentBlock {
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl Message {
    pub fn user(text: impl Into<String>) -> Self {
        Self { role: MessageRole::User, blocks: vec![ContentBlock::Text(text.into())] }
    }

    pub fn text(&self) -> String {
        let parts: Vec<&str> = self.blocks.iter().filter_map(ContentBlock::as_text).collect();
        parts.join("\n")
    }
}

impl ModelRequest {
    /// How many turns of the model the conversation has. Neighbouring assistant messages are one turn: formats that list
    /// items one by one split a turn into several.
    pub fn turns(&self) -> usize {
        turns(&self.messages)
    }

    pub fn tool_results(&self) -> impl Iterator<Item = &ToolResult> {
        self.messages.iter().flat_map(|message| &message.blocks).filter_map(|block| match block {
            ContentBlock::ToolResult(result) => Some(result),
            _ => None,
        })
    }

    pub fn user_texts(&self) -> impl Iterator<Item = &str> {
        let messages = self.messages.iter().filter(|message| message.role == MessageRole::User);
        messages.flat_map(|message| &message.blocks).filter_map(ContentBlock::as_text)
    }

    /// Instructions before the conversation and within it.
    pub fn system_texts(&self) -> impl Iterator<Item = &str> {
        let within = self.messages.iter().filter(|message| message.role == MessageRole::System);
        let within = within.flat_map(|message| &message.blocks).filter_map(ContentBlock::as_text);
        self.system.iter().map(String::as_str).chain(within)
    }

    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.messages.iter().flat_map(|message| &message.blocks).filter_map(|block| match block {
            ContentBlock::ToolCall(call) => Some(call),
            _ => None,
        })
    }
}

pub fn turns(messages: &[Message]) -> usize {
    let mut before = None;
    let mut count = 0;
    for message in messages {
        if message.role == MessageRole::Assistant && before != Some(MessageRole::Assistant) {
            count += 1;
        }
        before = Some(message.role);
    }
    count
}
