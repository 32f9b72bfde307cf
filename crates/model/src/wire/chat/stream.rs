//! The event stream of the Chat Completions format, frame by frame, both ways. It has no blocks: the kind of each
//! delta tells them apart.

use super::read::{FORMAT, read_stop, read_usage, reasoning_text, refuse_legacy_call};
use super::write::{write_stop, write_usage};
use crate::wire::error::{WireError, parse};
use crate::wire::fault::Fault;
use crate::wire::openai::fault_kind;
use crate::wire::sse::SseFrame;
use crate::wire::{Delta, TokenUsage};
use serde_json::{Value, json};

const DONE: &str = "[DONE]";
const THINKING_BLOCK: usize = 0;
const TEXT_BLOCK: usize = 1;
const FIRST_CALL_BLOCK: usize = 2;

/// Reads one stream.
#[derive(Debug, Default)]
pub struct ChatReader {
    started: bool,
    open: Option<usize>,
}

impl ChatReader {
    pub fn read(&mut self, frame: &SseFrame) -> Result<Vec<Delta>, WireError> {
        if frame.data.trim() == DONE {
            return Ok(vec![Delta::End]);
        }
        let value: Value = parse(FORMAT, frame.data.as_bytes())?;
        if value["error"].is_object() {
            let text_of = |key: &str| value["error"][key].as_str().unwrap_or_default();
            return Ok(vec![Delta::Error(Fault::new(fault_kind(text_of("code")), text_of("message")))]);
        }
        let mut deltas = Vec::new();
        if !std::mem::replace(&mut self.started, true) {
            let text_of = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
            deltas.push(Delta::Start {
                id: text_of("id"),
                model: text_of("model"),
                usage: TokenUsage::default(),
            });
        }
        let choices = value["choices"].as_array().map_or(&[][..], Vec::as_slice);
        if choices.len() > 1 || choices.iter().any(|choice| choice["index"].as_u64().is_some_and(|at| at > 0))
        {
            return Err(WireError::invalid(FORMAT, "it has more than one choice"));
        }
        let choice = choices.first().unwrap_or(&Value::Null);
        refuse_legacy_call(&choice["delta"])?;
        self.read_portion(&choice["delta"], &mut deltas);
        let usage = read_usage(&value["usage"]);
        match choice["finish_reason"].as_str() {
            Some(reason) => {
                self.change(None, &mut deltas);
                deltas.push(Delta::Finish { stop: read_stop(Some(reason)), usage });
            }
            None if usage != TokenUsage::default() => deltas.push(Delta::Usage(usage)),
            None => {}
        }
        Ok(deltas)
    }

    fn read_portion(&mut self, portion: &Value, deltas: &mut Vec<Delta>) {
        if let Some(text) = reasoning_text(portion) {
            self.change(Some(THINKING_BLOCK), deltas);
            deltas.push(Delta::Thinking { block: THINKING_BLOCK, text: text.to_owned() });
        }
        for name in ["content", "refusal"] {
            if let Some(text) = portion[name].as_str().filter(|text| !text.is_empty()) {
                self.change(Some(TEXT_BLOCK), deltas);
                deltas.push(Delta::Text { block: TEXT_BLOCK, text: text.to_owned() });
            }
        }
        for call in portion["tool_calls"].as_array().into_iter().flatten() {
            let index = call["index"].as_u64().and_then(|index| usize::try_from(index).ok()).unwrap_or(0);
            let block = FIRST_CALL_BLOCK.saturating_add(index);
            let text_of = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            if self.open != Some(block) {
                self.change(Some(block), deltas);
                deltas.push(Delta::ToolCall {
                    block,
                    id: text_of(&call["id"]),
                    name: text_of(&call["function"]["name"]),
                });
            }
            deltas.push(Delta::ToolInput { block, json: text_of(&call["function"]["arguments"]) });
        }
    }

    fn change(&mut self, to: Option<usize>, deltas: &mut Vec<Delta>) {
        if let Some(block) = self.open.filter(|block| Some(*block) != to) {
            deltas.push(Delta::BlockEnd { block });
        }
        self.open = to;
    }
}

/// The frame that only reports usage, which a client that did not ask for it may not expect.
pub fn is_usage_only(frame: &SseFrame) -> bool {
    let Ok(value) = serde_json::from_str::<Value>(&frame.data) else { return false };
    value["usage"].is_object() && value["choices"].as_array().is_some_and(Vec::is_empty)
}

pub fn set_text(frame: SseFrame, text: &str) -> SseFrame {
    let Ok(mut value) = serde_json::from_str::<Value>(&frame.data) else { return frame };
    if let Some(content) = value.pointer_mut("/choices/0/delta/content") {
        *content = json!(text);
    }
    SseFrame { event: frame.event, data: value.to_string() }
}

/// A text delta; everything else as in `like`.
pub fn text_block(like: &SseFrame, text: &str) -> Vec<SseFrame> {
    let mut value: Value = serde_json::from_str(&like.data).unwrap_or_default();
    value["choices"] = json!([{"index": 0, "delta": {"content": text}, "finish_reason": null}]);
    vec![SseFrame::new("", value.to_string())]
}

/// The finish frame of an answer without tool calls.
pub fn end_turn(frame: SseFrame) -> SseFrame {
    let Ok(mut value) = serde_json::from_str::<Value>(&frame.data) else { return frame };
    if let Some(reason) = value.pointer_mut("/choices/0/finish_reason")
        && reason == "tool_calls"
    {
        *reason = json!("stop");
    }
    SseFrame { event: frame.event, data: value.to_string() }
}

/// Writes deltas as frames.
#[derive(Debug, Default)]
pub struct ChatWriter {
    id: String,
    model: String,
    calls: usize,
}

impl ChatWriter {
    pub fn write(&mut self, delta: &Delta) -> Vec<SseFrame> {
        match delta {
            Delta::Start { id, model, .. } => {
                self.id.clone_from(id);
                self.model.clone_from(model);
                vec![self.portion(json!({"role": "assistant", "content": ""}), Value::Null)]
            }
            Delta::Text { text, .. } => vec![self.portion(json!({ "content": text }), Value::Null)],
            Delta::Thinking { text, .. } => {
                vec![self.portion(json!({ "reasoning_content": text }), Value::Null)]
            }
            Delta::ToolCall { id, name, .. } => {
                self.calls += 1;
                let function = json!({"name": name, "arguments": ""});
                let call =
                    json!({"index": self.calls - 1, "id": id, "type": "function", "function": function});
                vec![self.portion(json!({ "tool_calls": [call] }), Value::Null)]
            }
            Delta::ToolInput { json, .. } => {
                let index = self.calls.saturating_sub(1);
                let call = json!({"index": index, "function": {"arguments": json}});
                vec![self.portion(json!({ "tool_calls": [call] }), Value::Null)]
            }
            Delta::Finish { stop, usage } => {
                let mut last = self.chunk();
                last["usage"] = write_usage(usage);
                let finish = self.portion(json!({}), json!(write_stop(stop)));
                vec![finish, SseFrame::new("", last.to_string())]
            }
            Delta::End => vec![SseFrame::new("", DONE)],
            Delta::Error(fault) => {
                vec![SseFrame::new("", crate::wire::openai::write_fault(fault).to_string())]
            }
            Delta::Signature { .. } | Delta::Other { .. } | Delta::BlockEnd { .. } | Delta::Usage(_) => {
                Vec::new()
            }
        }
    }

    fn chunk(&self) -> Value {
        json!({"id": self.id, "object": "chat.completion.chunk", "created": 0, "model": self.model, "choices": []})
    }

    #[expect(clippy::needless_pass_by_value, reason = "every caller builds both for this call alone")]
    fn portion(&self, delta: Value, finish: Value) -> SseFrame {
        let mut chunk = self.chunk();
        chunk["choices"] = json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
        SseFrame::new("", chunk.to_string())
    }
}
