//! Answers of Chat Completions in the wire format of the runtime.

use super::BrokenStream;
use super::called_tools::{CalledTools, reasoning};
use crate::wire::codec::{FrameReader, FrameWriter};
use crate::wire::openai::read_arguments;
use crate::wire::sse::SseDecoder;
use crate::wire::{ContentBlock, Delta, ModelAnswer, StopReason, TokenUsage, ToolCall, Wire};
use std::collections::BTreeMap;

/// For what is held back of one answer; the gateway's own limit for a whole answer is the same.
const MAX_HELD_BYTES: usize = 32 << 20;

/// A comment, which every reader of such streams ignores.
const KEEP_ALIVE: &[u8] = b": working\n\n";

/// Some servers stop a turn with calls as if it had none, or give calls no id.
pub(super) fn with_complete_calls(mut answer: ModelAnswer) -> ModelAnswer {
    let mut calls = 0;
    for block in &mut answer.blocks {
        if let ContentBlock::ToolCall(call) = block {
            calls += 1;
            if call.id.is_empty() {
                call.id = call_id(&answer.id, calls);
            }
        }
    }
    answer.stop = stop_reason(answer.stop, calls);
    answer
}

fn stop_reason(stop: StopReason, calls: usize) -> StopReason {
    if stop == StopReason::EndTurn && calls > 0 { StopReason::ToolUse } else { stop }
}

fn call_id(answer: &str, number: usize) -> String {
    format!("call_{answer}_{number}")
}

/// A stream, translated as it comes. Calls are held until the end, because portions of several calls may alternate; the usage
/// comes after the end of the text, and the other formats report it with the end.
pub(super) struct TranslatedStream {
    to: Wire,
    tools: CalledTools,
    decoder: SseDecoder,
    reader: FrameReader,
    writer: FrameWriter,
    id: String,
    /// How many blocks were begun.
    blocks: usize,
    open: Option<OpenBlock>,
    /// By the block of the reader.
    calls: BTreeMap<usize, StreamedCall>,
    stop: Option<StopReason>,
    usage: TokenUsage,
    /// How many bytes were held back.
    held: usize,
}

enum OpenBlock {
    Text,
    /// With the thinking so far, for a format that has it only as a whole.
    Thinking(String),
}

#[derive(Default)]
struct StreamedCall {
    id: String,
    name: String,
    json: String,
}

impl TranslatedStream {
    pub(super) fn new(to: Wire, tools: CalledTools) -> Self {
        Self {
            to,
            tools,
            decoder: SseDecoder::default(),
            reader: FrameReader::new(Wire::Chat),
            writer: FrameWriter::new(to),
            id: String::new(),
            blocks: 0,
            open: None,
            calls: BTreeMap::new(),
            stop: None,
            usage: TokenUsage::default(),
            held: 0,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Vec<u8>, BrokenStream> {
        self.decoder.push(bytes)?;
        let mut out = Vec::new();
        while let Some(frame) = self.decoder.next_frame() {
            for delta in self.reader.read(&frame)? {
                self.take(delta, &mut out);
            }
        }
        if self.held > MAX_HELD_BYTES {
            return Err(BrokenStream);
        }
        // A client that waits for the next byte sees that the service still sends.
        if out.is_empty() {
            out.extend_from_slice(KEEP_ALIVE);
        }
        Ok(out)
    }

    /// The service has closed its stream. Some servers do so after the reason for the end, without `[DONE]`.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.end(&mut out);
        out
    }

    fn take(&mut self, delta: Delta, out: &mut Vec<u8>) {
        match delta {
            Delta::Start { id, model, usage } => {
                self.id.clone_from(&id);
                self.write(&Delta::Start { id, model, usage }, out);
            }
            Delta::Text { text, .. } => self.text(text, out),
            Delta::Thinking { text, .. } => self.thinking(text, out),
            Delta::ToolCall { block, id, name } => {
                let call = self.calls.entry(block).or_default();
                // Later portions of a call repeat neither.
                call.id.push_str(&id);
                call.name.push_str(&name);
                self.held += id.len() + name.len() + 1;
            }
            Delta::ToolInput { block, json } => {
                self.held += json.len();
                self.calls.entry(block).or_default().json.push_str(&json);
            }
            Delta::Finish { stop, usage } => {
                self.usage.raise(&usage);
                self.stop = Some(stop);
            }
            Delta::Usage(usage) => self.usage.raise(&usage),
            Delta::End => self.end(out),
            Delta::Error(fault) => {
                // The held text is output too, and the service bills it.
                if self.held > 0 {
                    self.text(String::new(), out);
                }
                self.write(&Delta::Error(fault), out);
            }
            // The format has neither; its blocks end where others begin.
            Delta::Signature { .. } | Delta::Other { .. } | Delta::BlockEnd { .. } => {}
        }
    }

    fn text(&mut self, text: String, out: &mut Vec<u8>) {
        if !matches!(self.open, Some(OpenBlock::Text)) {
            self.close(out);
            self.open = Some(OpenBlock::Text);
        }
        self.write(&Delta::Text { block: self.blocks, text }, out);
    }

    fn thinking(&mut self, text: String, out: &mut Vec<u8>) {
        if !matches!(self.open, Some(OpenBlock::Thinking(_))) {
            self.close(out);
            self.open = Some(OpenBlock::Thinking(String::new()));
        }
        if let Some(OpenBlock::Thinking(all)) = &mut self.open {
            self.held += text.len();
            all.push_str(&text);
        }
        if self.to != Wire::Responses {
            self.write(&Delta::Thinking { block: self.blocks, text }, out);
        }
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        let Some(open) = self.open.take() else { return };
        let block = self.blocks;
        self.blocks += 1;
        match open {
            OpenBlock::Thinking(all) if self.to == Wire::Responses => {
                self.write(&Delta::Other { block, value: reasoning(&all, block) }, out);
            }
            OpenBlock::Text | OpenBlock::Thinking(_) => self.write(&Delta::BlockEnd { block }, out),
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        // Without a stop reason, the server was cut off.
        let Some(stop) = self.stop.take() else { return };
        self.close(out);
        let calls = std::mem::take(&mut self.calls);
        let stop = stop_reason(stop, calls.len());
        for (number, call) in calls.into_values().enumerate() {
            self.call(number + 1, call, out);
        }
        let usage = self.usage;
        self.write(&Delta::Finish { stop, usage }, out);
        self.write(&Delta::End, out);
    }

    fn call(&mut self, number: usize, call: StreamedCall, out: &mut Vec<u8>) {
        let StreamedCall { id, name, json } = call;
        let id = if id.is_empty() { call_id(&self.id, number) } else { id };
        let block = self.blocks;
        self.blocks += 1;
        if self.to == Wire::Responses {
            let call = ToolCall { id, name, input: read_arguments(&json) };
            let value = self.tools.item(&call, block);
            return self.write(&Delta::Other { block, value }, out);
        }
        self.write(&Delta::ToolCall { block, id, name }, out);
        self.write(&Delta::ToolInput { block, json }, out);
        self.write(&Delta::BlockEnd { block }, out);
    }

    fn write(&mut self, delta: &Delta, out: &mut Vec<u8>) {
        for frame in self.writer.write(delta) {
            out.extend(frame.encode());
        }
    }
}
