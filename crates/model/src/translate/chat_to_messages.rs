//! Answers of Chat Completions as answers of the Messages format.

use super::BrokenStream;
use crate::wire::codec::{FrameReader, FrameWriter};
use crate::wire::sse::SseDecoder;
use crate::wire::{ContentBlock, Delta, ModelAnswer, StopReason, TokenUsage, Wire};
use std::collections::BTreeMap;

/// Some servers stop a turn with calls as if it had none, or give calls no id.
pub(super) fn mended(mut answer: ModelAnswer) -> ModelAnswer {
    let mut calls = 0;
    for block in &mut answer.blocks {
        if let ContentBlock::ToolCall(call) = block {
            calls += 1;
            if call.id.is_empty() {
                call.id = call_id(&answer.id, calls);
            }
        }
    }
    answer.stop = mended_stop(answer.stop, calls);
    answer
}

fn mended_stop(stop: StopReason, calls: usize) -> StopReason {
    if stop == StopReason::EndTurn && calls > 0 { StopReason::ToolUse } else { stop }
}

fn call_id(answer: &str, number: usize) -> String {
    format!("call_{answer}_{number}")
}

/// A stream, translated as it comes. Calls are held until the end, because portions of several calls may alternate; the usage
/// comes after the end of the text, and Messages reports it with the end.
pub(super) struct MessagesStream {
    decoder: SseDecoder,
    reader: FrameReader,
    writer: FrameWriter,
    id: String,
    /// How many blocks were begun.
    blocks: usize,
    /// The kind of the block that is open.
    open: Option<BlockKind>,
    /// By the block of the reader.
    calls: BTreeMap<usize, StreamedCall>,
    stop: Option<StopReason>,
    usage: TokenUsage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockKind {
    Text,
    Thinking,
}

#[derive(Default)]
struct StreamedCall {
    id: String,
    name: String,
    json: String,
}

impl Default for MessagesStream {
    fn default() -> Self {
        Self {
            decoder: SseDecoder::default(),
            reader: FrameReader::new(Wire::Chat),
            writer: FrameWriter::new(Wire::Messages),
            id: String::new(),
            blocks: 0,
            open: None,
            calls: BTreeMap::new(),
            stop: None,
            usage: TokenUsage::default(),
        }
    }
}

impl MessagesStream {
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Vec<u8>, BrokenStream> {
        self.decoder.push(bytes)?;
        let mut out = Vec::new();
        while let Some(frame) = self.decoder.next_frame() {
            for delta in self.reader.read(&frame)? {
                self.take(delta, &mut out);
            }
        }
        Ok(out)
    }

    fn take(&mut self, delta: Delta, out: &mut Vec<u8>) {
        match delta {
            Delta::Start { id, model, usage } => {
                self.id.clone_from(&id);
                self.write(&Delta::Start { id, model, usage }, out);
            }
            Delta::Text { text, .. } => {
                let block = self.block(BlockKind::Text, out);
                self.write(&Delta::Text { block, text }, out);
            }
            Delta::Thinking { text, .. } => {
                let block = self.block(BlockKind::Thinking, out);
                self.write(&Delta::Thinking { block, text }, out);
            }
            Delta::ToolCall { block, id, name } => {
                let call = self.calls.entry(block).or_default();
                // Later portions of a call repeat neither.
                call.id.push_str(&id);
                call.name.push_str(&name);
            }
            Delta::ToolInput { block, json } => self.calls.entry(block).or_default().json.push_str(&json),
            Delta::Finish { stop, usage } => {
                self.usage.raise(&usage);
                self.stop = Some(stop);
            }
            Delta::Usage(usage) => self.usage.raise(&usage),
            Delta::End => self.end(out),
            Delta::Error(fault) => self.write(&Delta::Error(fault), out),
            // The format has neither; its blocks end where others begin.
            Delta::Signature { .. } | Delta::Other { .. } | Delta::BlockEnd { .. } => {}
        }
    }

    /// The number of the open block, which is of this kind then.
    fn block(&mut self, kind: BlockKind, out: &mut Vec<u8>) -> usize {
        if self.open != Some(kind) {
            self.close(out);
            self.open = Some(kind);
            self.blocks += 1;
        }
        self.blocks - 1
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        if self.open.take().is_some() {
            self.write(&Delta::BlockEnd { block: self.blocks - 1 }, out);
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        // A server that never said why it stopped was cut off.
        let Some(stop) = self.stop.take() else { return };
        self.close(out);
        let calls = std::mem::take(&mut self.calls);
        let stop = mended_stop(stop, calls.len());
        for (number, (_, call)) in calls.into_iter().enumerate() {
            let StreamedCall { id, name, json } = call;
            let id = if id.is_empty() { call_id(&self.id, number + 1) } else { id };
            let block = self.blocks;
            self.blocks += 1;
            self.write(&Delta::ToolCall { block, id, name }, out);
            self.write(&Delta::ToolInput { block, json }, out);
            self.write(&Delta::BlockEnd { block }, out);
        }
        let usage = self.usage;
        self.write(&Delta::Finish { stop, usage }, out);
        self.write(&Delta::End, out);
    }

    fn write(&mut self, delta: &Delta, out: &mut Vec<u8>) {
        for frame in self.writer.write(delta) {
            out.extend(frame.encode());
        }
    }
}
