//! Picks the vendor format by `Wire`: the one place that knows all of them.

use super::error::WireError;
use super::fault::{self, Fault};
use super::sse::SseFrame;
use super::{Delta, ModelAnswer, ModelRequest, Wire, chat, messages, openai, responses, rewrite};
use serde_json::Value;
use std::collections::BTreeMap;

pub fn read_request(wire: Wire, body: &[u8]) -> Result<ModelRequest, WireError> {
    match wire {
        Wire::Messages => messages::read_request(body),
        Wire::Responses => responses::read_request(body),
        Wire::Chat => chat::read_request(body),
    }
}

pub fn write_request(wire: Wire, request: &ModelRequest) -> Value {
    match wire {
        Wire::Messages => messages::write_request(request),
        Wire::Responses => responses::write_request(request),
        Wire::Chat => chat::write_request(request),
    }
}

pub fn read_answer(wire: Wire, body: &[u8]) -> Result<ModelAnswer, WireError> {
    match wire {
        Wire::Messages => messages::read_answer(body),
        Wire::Responses => responses::read_answer(body),
        Wire::Chat => chat::read_answer(body),
    }
}

pub fn write_answer(wire: Wire, answer: &ModelAnswer) -> Value {
    match wire {
        Wire::Messages => messages::write_answer(answer),
        Wire::Responses => responses::write_answer(answer),
        Wire::Chat => chat::write_answer(answer),
    }
}

pub fn read_fault(wire: Wire, status: u16, body: &[u8]) -> Fault {
    match wire {
        Wire::Messages => messages::read_fault(status, body),
        Wire::Responses | Wire::Chat => openai::read_fault(status, body),
    }
}

pub fn write_fault(wire: Wire, fault: &Fault) -> Value {
    match wire {
        Wire::Messages => messages::write_fault(fault),
        Wire::Responses | Wire::Chat => openai::write_fault(fault),
    }
}

pub fn fault_status(wire: Wire, fault: &Fault) -> u16 {
    match wire {
        Wire::Messages => fault.kind.status(),
        Wire::Responses | Wire::Chat => openai::status(fault.kind),
    }
}

/// The same frame with another text. A frame without text stays as it is.
pub fn set_text(wire: Wire, frame: SseFrame, text: &str) -> SseFrame {
    match wire {
        Wire::Messages => messages::set_text(frame, text),
        Wire::Responses => responses::set_text(frame, text),
        Wire::Chat => chat::set_text(frame, text),
    }
}

/// The last frame of an answer without its denied calls; `more`: other calls passed.
pub fn without_calls(wire: Wire, frame: SseFrame, denied: &BTreeMap<usize, String>, more: bool) -> SseFrame {
    match wire {
        Wire::Responses => responses::without_calls(frame, denied),
        Wire::Messages if !more => messages::end_turn(frame),
        Wire::Chat if !more => chat::end_turn(frame),
        Wire::Messages | Wire::Chat => frame,
    }
}

/// A complete text block that replaces another block, whose first frame is `like`.
pub fn text_block(wire: Wire, like: &SseFrame, block: usize, text: &str) -> Vec<SseFrame> {
    match wire {
        Wire::Messages => messages::text_block(block, text),
        Wire::Responses => responses::text_block(like, block, text),
        Wire::Chat => chat::text_block(like, text),
    }
}

/// The body changed so that the upstream reports usage, where it would not.
pub fn ask_for_usage(wire: Wire, body: &[u8]) -> Option<Vec<u8>> {
    match wire {
        Wire::Chat => chat::ask_for_usage(body),
        Wire::Messages | Wire::Responses => None,
    }
}

/// Whether the vendor says that the conversation does not fit into the model's context.
pub fn is_too_long(status: u16, body: &[u8]) -> bool {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let code = value.pointer("/error/code").and_then(Value::as_str).unwrap_or_default();
    let said = fault::words(body).to_ascii_lowercase();
    matches!(status, 400 | 413)
        && (code == "context_length_exceeded" || TOO_LONG.iter().any(|words| said.contains(words)))
}

/// The messages of Anthropic, Bedrock, OpenAI and vLLM.
const TOO_LONG: &[&str] = &[
    "prompt is too long",
    "exceed context limit",
    "input is too long",
    "maximum context length",
    "exceeds the context window",
];

/// An answer that is shorter than this is of no use, or is refused.
pub fn least_output(wire: Wire, body: &[u8]) -> u64 {
    // Anthropic requires a limit above the thinking budget.
    let thinking = match wire {
        Wire::Messages => messages::thinking_tokens(body),
        Wire::Responses | Wire::Chat => 0,
    };
    thinking.saturating_add(LEAST_OUTPUT)
}

const LEAST_OUTPUT: u64 = 1024;

/// The body with another bound for the length of the answer.
pub fn set_max_tokens(wire: Wire, body: &[u8], most: u64) -> Vec<u8> {
    let names: &[&str] = match wire {
        Wire::Messages => &["max_tokens"],
        Wire::Responses => &["max_output_tokens"],
        Wire::Chat => &["max_completion_tokens", "max_tokens"],
    };
    rewrite::set_members(body, names, &most.to_string())
}

/// The body with another name of the model.
pub fn set_model(body: &[u8], model: &str) -> Vec<u8> {
    rewrite::set_members(body, &["model"], &Value::from(model).to_string())
}

/// A frame that is sent only because the gateway asked for usage.
pub fn is_usage_only(wire: Wire, frame: &SseFrame) -> bool {
    wire == Wire::Chat && chat::is_usage_only(frame)
}

#[derive(Debug)]
pub enum FrameWriter {
    Messages(messages::MessagesWriter),
    Responses(responses::ResponsesWriter),
    Chat(chat::ChatWriter),
}

impl FrameWriter {
    pub fn new(wire: Wire) -> Self {
        match wire {
            Wire::Messages => Self::Messages(messages::MessagesWriter::default()),
            Wire::Responses => Self::Responses(responses::ResponsesWriter::default()),
            Wire::Chat => Self::Chat(chat::ChatWriter::default()),
        }
    }

    pub fn write(&mut self, delta: &Delta) -> Vec<SseFrame> {
        match self {
            Self::Messages(writer) => writer.write(delta),
            Self::Responses(writer) => writer.write(delta),
            Self::Chat(writer) => writer.write(delta),
        }
    }
}

/// Reads the frames of one stream.
#[derive(Debug)]
pub enum FrameReader {
    Messages,
    Responses(responses::ResponsesReader),
    Chat(chat::ChatReader),
}

impl FrameReader {
    pub fn new(wire: Wire) -> Self {
        match wire {
            Wire::Messages => Self::Messages,
            Wire::Responses => Self::Responses(responses::ResponsesReader::default()),
            Wire::Chat => Self::Chat(chat::ChatReader::default()),
        }
    }

    pub fn read(&mut self, frame: &SseFrame) -> Result<Vec<Delta>, WireError> {
        match self {
            Self::Messages => messages::read_frame(frame),
            Self::Responses(reader) => reader.read(frame),
            Self::Chat(reader) => reader.read(frame),
        }
    }
}
