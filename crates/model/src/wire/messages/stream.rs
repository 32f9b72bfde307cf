//! The event stream of the Messages format, frame by frame, both ways.

use super::read::{FORMAT, fault_of, read_block, read_stop, read_usage};
use super::write::{write_block, write_fault, write_stop, write_usage};
use crate::wire::error::{WireError, parse};
use crate::wire::sse::SseFrame;
use crate::wire::{ContentBlock, Delta, TokenUsage};
use serde_json::{Value, json};

/// The meaning of one frame. Frames that we do not need (`ping`, future kinds) have none.
pub fn read_frame(frame: &SseFrame) -> Result<Vec<Delta>, WireError> {
    let value: Value = parse(FORMAT, frame.data.as_bytes())?;
    let block = value.get("index").and_then(Value::as_u64).and_then(|index| usize::try_from(index).ok());
    let block = block.unwrap_or(0);
    let deltas = match value.get("type").and_then(Value::as_str) {
        Some("message_start") => {
            let message = &value["message"];
            let text_of = |key: &str| message[key].as_str().unwrap_or_default().to_owned();
            vec![Delta::Start {
                id: text_of("id"),
                model: text_of("model"),
                usage: read_usage(&message["usage"]),
            }]
        }
        Some("content_block_start") => read_block_start(block, value["content_block"].clone()),
        Some("content_block_delta") => read_block_delta(block, &value["delta"]),
        Some("content_block_stop") => vec![Delta::BlockEnd { block }],
        Some("message_delta") => vec![Delta::Finish {
            stop: read_stop(value["delta"]["stop_reason"].as_str()),
            usage: read_usage(&value["usage"]),
        }],
        Some("message_stop") => vec![Delta::End],
        Some("error") => vec![Delta::Error(fault_of(&value))],
        _ => Vec::new(),
    };
    Ok(deltas)
}

fn read_block_start(block: usize, content: Value) -> Vec<Delta> {
    match read_block(content) {
        ContentBlock::Text(text) => vec![Delta::Text { block, text }],
        ContentBlock::Thinking { text, .. } => vec![Delta::Thinking { block, text }],
        ContentBlock::ToolCall(call) => {
            let mut deltas = vec![Delta::ToolCall { block, id: call.id, name: call.name }];
            if call.input.as_object().is_some_and(|input| !input.is_empty()) {
                deltas.push(Delta::ToolInput { block, json: call.input.to_string() });
            }
            deltas
        }
        ContentBlock::Other(value) => vec![Delta::Other { block, value }],
        ContentBlock::ToolResult(_) => Vec::new(),
    }
}

fn read_block_delta(block: usize, delta: &Value) -> Vec<Delta> {
    let text_of = |key: &str| delta[key].as_str().unwrap_or_default().to_owned();
    match delta["type"].as_str() {
        Some("text_delta") => vec![Delta::Text { block, text: text_of("text") }],
        Some("thinking_delta") => vec![Delta::Thinking { block, text: text_of("thinking") }],
        Some("signature_delta") => vec![Delta::Signature { block, signature: text_of("signature") }],
        Some("input_json_delta") => vec![Delta::ToolInput { block, json: text_of("partial_json") }],
        _ => Vec::new(),
    }
}

pub fn set_text(frame: SseFrame, text: &str) -> SseFrame {
    edit(frame, |value| {
        for place in ["/delta/text", "/content_block/text"] {
            if let Some(found) = value.pointer_mut(place) {
                *found = Value::from(text);
            }
        }
    })
}

pub fn end_turn(frame: SseFrame) -> SseFrame {
    edit(frame, |value| {
        if let Some(found) = value.pointer_mut("/delta/stop_reason") {
            *found = Value::from("end_turn");
        }
    })
}

pub fn text_block(block: usize, text: &str) -> Vec<SseFrame> {
    let mut writer = MessagesWriter::default();
    let mut frames = writer.write(&Delta::Text { block, text: text.to_owned() });
    frames.extend(writer.write(&Delta::BlockEnd { block }));
    frames
}

fn edit(frame: SseFrame, change: impl FnOnce(&mut Value)) -> SseFrame {
    let Ok(mut value) = serde_json::from_str(&frame.data) else { return frame };
    change(&mut value);
    SseFrame { event: frame.event, data: value.to_string() }
}

/// Writes deltas as frames. It opens a block at the block's first delta.
#[derive(Debug, Default)]
pub struct MessagesWriter {
    open: Option<usize>,
}

impl MessagesWriter {
    pub fn write(&mut self, delta: &Delta) -> Vec<SseFrame> {
        match delta {
            Delta::Start { id, model, usage } => vec![message_start(id, model, usage)],
            Delta::Text { block, text } => self.block_delta(
                *block,
                &json!({"type": "text", "text": ""}),
                &json!({"type": "text_delta", "text": text}),
            ),
            Delta::Thinking { block, text } => self.block_delta(
                *block,
                &json!({"type": "thinking", "thinking": "", "signature": ""}),
                &json!({"type": "thinking_delta", "thinking": text}),
            ),
            Delta::Signature { block, signature } => self.block_delta(
                *block,
                &json!({"type": "thinking", "thinking": "", "signature": ""}),
                &json!({"type": "signature_delta", "signature": signature}),
            ),
            Delta::ToolCall { block, id, name } => {
                self.open(*block, &json!({"type": "tool_use", "id": id, "name": name, "input": {}}))
            }
            Delta::ToolInput { block, json } => {
                vec![block_delta(*block, &json!({"type": "input_json_delta", "partial_json": json}))]
            }
            Delta::Other { block, value } => {
                self.open(*block, &write_block(&ContentBlock::Other(value.clone())))
            }
            Delta::BlockEnd { block } => {
                self.open = None;
                vec![frame("content_block_stop", &json!({"type": "content_block_stop", "index": block}))]
            }
            Delta::Finish { stop, usage } => {
                let delta = json!({"stop_reason": write_stop(stop), "stop_sequence": null});
                let value = json!({"type": "message_delta", "delta": delta, "usage": write_usage(usage)});
                vec![frame("message_delta", &value)]
            }
            Delta::Usage(_) => Vec::new(),
            Delta::End => vec![frame("message_stop", &json!({"type": "message_stop"}))],
            Delta::Error(fault) => vec![frame("error", &write_fault(fault))],
        }
    }

    fn block_delta(&mut self, block: usize, start: &Value, delta: &Value) -> Vec<SseFrame> {
        let mut frames = self.open(block, start);
        frames.push(block_delta(block, delta));
        frames
    }

    fn open(&mut self, block: usize, start: &Value) -> Vec<SseFrame> {
        if self.open == Some(block) {
            return Vec::new();
        }
        self.open = Some(block);
        let value = json!({"type": "content_block_start", "index": block, "content_block": start});
        vec![frame("content_block_start", &value)]
    }
}

fn message_start(id: &str, model: &str, usage: &TokenUsage) -> SseFrame {
    let message = json!({
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
        "usage": write_usage(usage),
    });
    frame("message_start", &json!({"type": "message_start", "message": message}))
}

fn block_delta(block: usize, delta: &Value) -> SseFrame {
    frame("content_block_delta", &json!({"type": "content_block_delta", "index": block, "delta": delta}))
}

fn frame(event: &str, value: &Value) -> SseFrame {
    SseFrame::new(event, value.to_string())
}
