//! The event stream of the Responses format, frame by frame, both ways. It repeats every text: in deltas,
//! then whole, then in its item, then in the response.

use super::read::{FORMAT, read_output_item, read_usage, stop_of};
use super::write::{response, write_output_item};
use crate::wire::error::{WireError, parse};
use crate::wire::fault::Fault;
use crate::wire::openai::fault_kind;
use crate::wire::sse::SseFrame;
use crate::wire::{ContentBlock, Delta, StopReason, TokenUsage, ToolCall};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};

/// Reads one stream.
#[derive(Debug, Default)]
pub struct ResponsesReader {
    opened: HashSet<usize>,
    with_input: HashSet<usize>,
    has_calls: bool,
}

impl ResponsesReader {
    pub fn read(&mut self, frame: &SseFrame) -> Result<Vec<Delta>, WireError> {
        let value: Value = parse(FORMAT, frame.data.as_bytes())?;
        let index = value["output_index"].as_u64().and_then(|index| usize::try_from(index).ok());
        let block = index.unwrap_or(0);
        let delta = || value["delta"].as_str().unwrap_or_default().to_owned();
        Ok(match value["type"].as_str().unwrap_or_default() {
            "response.created" => {
                let text_of = |key: &str| value["response"][key].as_str().unwrap_or_default().to_owned();
                vec![Delta::Start {
                    id: text_of("id"),
                    model: text_of("model"),
                    usage: TokenUsage::default(),
                }]
            }
            "response.output_item.added" => self.item_added(block, &value["item"]),
            "response.output_text.delta" | "response.refusal.delta" => {
                vec![Delta::Text { block, text: delta() }]
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                vec![Delta::Thinking { block, text: delta() }]
            }
            "response.function_call_arguments.delta" => {
                self.with_input.insert(block);
                vec![Delta::ToolInput { block, json: delta() }]
            }
            // This frame repeats the whole text, so the text that was held back must be judged before.
            "response.output_text.done" | "response.refusal.done" => vec![Delta::BlockEnd { block }],
            "response.output_item.done" => self.item_done(block, &value["item"]),
            "response.completed" | "response.incomplete" => {
                let usage = read_usage(&value["response"]["usage"]);
                let stop = stop_of(&value["response"], self.has_calls);
                vec![Delta::Finish { stop, usage }, Delta::End]
            }
            "response.failed" => vec![Delta::Error(fault_of(&value["response"]["error"]))],
            "error" => vec![Delta::Error(fault_of(if value["error"].is_object() {
                &value["error"]
            } else {
                &value
            }))],
            _ => Vec::new(),
        })
    }

    fn item_added(&mut self, block: usize, item: &Value) -> Vec<Delta> {
        match read_output_item(item) {
            ContentBlock::ToolCall(call) => {
                self.has_calls = true;
                self.opened.insert(block);
                vec![Delta::ToolCall { block, id: call.id, name: call.name }]
            }
            _ => Vec::new(),
        }
    }

    fn item_done(&mut self, block: usize, item: &Value) -> Vec<Delta> {
        match read_output_item(item) {
            ContentBlock::ToolCall(ToolCall { id, name, input }) => {
                self.has_calls = true;
                let mut deltas = Vec::new();
                if self.opened.insert(block) {
                    deltas.push(Delta::ToolCall { block, id, name });
                }
                if !self.with_input.contains(&block) {
                    deltas.push(Delta::ToolInput { block, json: input.to_string() });
                }
                deltas.push(Delta::BlockEnd { block });
                deltas
            }
            ContentBlock::Other(value) => vec![Delta::Other { block, value }, Delta::BlockEnd { block }],
            _ => vec![Delta::BlockEnd { block }],
        }
    }
}

fn fault_of(error: &Value) -> Fault {
    let text_of = |key: &str| error[key].as_str().unwrap_or_default();
    Fault::new(fault_kind(text_of("code")), text_of("message"))
}

pub fn set_text(frame: SseFrame, text: &str) -> SseFrame {
    let Ok(mut value) = serde_json::from_str::<Value>(&frame.data) else { return frame };
    value["delta"] = json!(text);
    SseFrame { event: frame.event, data: value.to_string() }
}

/// A message that replaces another item; its numbers continue from that item's first frame.
pub fn text_block(like: &SseFrame, block: usize, text: &str) -> Vec<SseFrame> {
    let first: Value = serde_json::from_str(&like.data).unwrap_or_default();
    let sequence = first["sequence_number"].as_u64().unwrap_or(0);
    let mut writer = ResponsesWriter { sequence, ..ResponsesWriter::default() };
    let mut frames = writer.write(&Delta::Text { block, text: text.to_owned() });
    frames.extend(writer.write(&Delta::BlockEnd { block }));
    frames
}

/// The last frame repeats every item; in it, messages replace the calls that did not pass.
pub fn without_calls(frame: SseFrame, denied: &BTreeMap<usize, String>) -> SseFrame {
    let Ok(mut value) = serde_json::from_str::<Value>(&frame.data) else { return frame };
    for (block, text) in denied {
        let item = value.pointer_mut(&format!("/response/output/{block}"));
        if let (Some(item), Some(message)) =
            (item, write_output_item(&ContentBlock::Text(text.clone()), *block))
        {
            *item = message;
        }
    }
    SseFrame { event: frame.event, data: value.to_string() }
}

/// Writes deltas as frames, and repeats in the last one what it wrote.
#[derive(Debug, Default)]
pub struct ResponsesWriter {
    sequence: u64,
    id: String,
    model: String,
    open: Option<OpenItem>,
    items: Vec<Value>,
}

#[derive(Debug)]
enum OpenItem {
    Text(String),
    /// Whether it is a function or takes free text is known when its input begins.
    Call {
        id: String,
        name: String,
        json: String,
        announced: bool,
    },
}

impl ResponsesWriter {
    pub fn write(&mut self, delta: &Delta) -> Vec<SseFrame> {
        match delta {
            Delta::Start { id, model, usage } => {
                self.id.clone_from(id);
                self.model.clone_from(model);
                let mut begun = response(id, model, &StopReason::EndTurn, &[], usage);
                begun["status"] = json!("in_progress");
                vec![self.frame("response.created", json!({ "response": begun }))]
            }
            Delta::Text { block, text } => self.text(*block, text),
            Delta::ToolCall { id, name, .. } => {
                let id = id.clone();
                let name = name.clone();
                self.open = Some(OpenItem::Call { id, name, json: String::new(), announced: false });
                Vec::new()
            }
            Delta::ToolInput { block, json } => self.input(*block, json),
            Delta::Other { block, value } => {
                self.items.push(value.clone());
                let body = json!({"output_index": block, "item": value});
                vec![self.frame("response.output_item.done", body)]
            }
            Delta::BlockEnd { block } => self.end(*block),
            Delta::Finish { stop, usage } => {
                let whole = response(&self.id, &self.model, stop, &self.items, usage);
                let kind =
                    if *stop == StopReason::MaxTokens { "response.incomplete" } else { "response.completed" };
                vec![self.frame(kind, json!({ "response": whole }))]
            }
            Delta::Error(fault) => {
                let error = crate::wire::openai::write_fault(fault)["error"].clone();
                let body = json!({"response": {"id": self.id, "status": "failed", "error": error}});
                vec![self.frame("response.failed", body)]
            }
            // Thinking cannot be written here without the vendor's encryption; the last response marks the end.
            Delta::Thinking { .. } | Delta::Signature { .. } | Delta::Usage(_) | Delta::End => Vec::new(),
        }
    }

    fn text(&mut self, block: usize, text: &str) -> Vec<SseFrame> {
        let item_id = format!("item_{block}");
        let mut frames = Vec::new();
        if let Some(OpenItem::Text(all)) = &mut self.open {
            all.push_str(text);
        } else {
            let item = json!({"id": item_id, "type": "message", "role": "assistant", "status": "in_progress", "content": []});
            frames
                .push(self.frame("response.output_item.added", json!({"output_index": block, "item": item})));
            let part = json!({"type": "output_text", "text": "", "annotations": []});
            let body = json!({"item_id": item_id, "output_index": block, "content_index": 0, "part": part});
            frames.push(self.frame("response.content_part.added", body));
            self.open = Some(OpenItem::Text(text.to_owned()));
        }
        let body = json!({"item_id": item_id, "output_index": block, "content_index": 0, "delta": text});
        frames.push(self.frame("response.output_text.delta", body));
        frames
    }

    fn input(&mut self, block: usize, fragment: &str) -> Vec<SseFrame> {
        let Some(OpenItem::Call { id, name, json, announced }) = &mut self.open else { return Vec::new() };
        json.push_str(fragment);
        let free = json.starts_with('"');
        let announce = !std::mem::replace(announced, true);
        let (kind, field) = if free { ("custom_tool_call", "input") } else { ("function_call", "arguments") };
        let item = json!({"id": format!("item_{block}"), "type": kind, "status": "in_progress", "call_id": id, "name": name, field: ""});
        let mut frames = Vec::new();
        if announce {
            frames
                .push(self.frame("response.output_item.added", json!({"output_index": block, "item": item})));
        }
        if !free {
            let body = json!({"item_id": format!("item_{block}"), "output_index": block, "delta": fragment});
            frames.push(self.frame("response.function_call_arguments.delta", body));
        }
        frames
    }

    fn end(&mut self, block: usize) -> Vec<SseFrame> {
        let item_id = format!("item_{block}");
        let mut frames = Vec::new();
        let whole = match self.open.take() {
            None => return Vec::new(),
            Some(OpenItem::Text(text)) => {
                let place = |body: Value| -> Value {
                    let mut body = body;
                    body["item_id"] = json!(item_id);
                    body["output_index"] = json!(block);
                    body["content_index"] = json!(0);
                    body
                };
                frames.push(self.frame("response.output_text.done", place(json!({ "text": text }))));
                let part = json!({"part": {"type": "output_text", "text": text, "annotations": []}});
                frames.push(self.frame("response.content_part.done", place(part)));
                ContentBlock::Text(text)
            }
            Some(OpenItem::Call { id, name, json, .. }) => {
                let input = crate::wire::openai::read_arguments(&json);
                if !input.is_string() {
                    let body = json!({"item_id": item_id, "output_index": block, "arguments": json});
                    frames.push(self.frame("response.function_call_arguments.done", body));
                }
                ContentBlock::ToolCall(ToolCall { id, name, input })
            }
        };
        if let Some(item) = write_output_item(&whole, block) {
            frames
                .push(self.frame("response.output_item.done", json!({"output_index": block, "item": item})));
            self.items.push(item);
        }
        frames
    }

    fn frame(&mut self, kind: &str, mut body: Value) -> SseFrame {
        body["type"] = json!(kind);
        body["sequence_number"] = json!(self.sequence);
        self.sequence += 1;
        SseFrame::new(kind, body.to_string())
    }
}
