//! Records each complete answer with its request, one file each, redacted before it is written.

use super::{RecordedExchange, RecordingError, Redact, VERSION, history};
use crate::upstream::request::UpstreamRequest;
use crate::wire::assemble::AnswerAssembler;
use crate::wire::codec::{self, FrameReader};
use crate::wire::sse::SseDecoder;
use crate::wire::{ContentBlock, ModelAnswer, Wire};
use bytes::Bytes;
use serde_json::Value;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A longer answer is not recorded; a replay reports it as missing.
const MAX_ANSWER_BYTES: usize = 64 << 20;

pub struct Recorder {
    directory: PathBuf,
    redact: Redact,
    count: AtomicU64,
}

impl Recorder {
    pub fn create(directory: &Path, redact: Redact) -> Result<Self, RecordingError> {
        let wrong = |source| RecordingError::Directory { path: directory.to_owned(), source };
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(wrong)?;
        if std::fs::read_dir(directory).map_err(wrong)?.next().is_some() {
            return Err(RecordingError::NotEmpty { path: directory.to_owned() });
        }
        Ok(Self { directory: directory.to_owned(), redact, count: AtomicU64::new(0) })
    }

    /// Records the answer to this request.
    pub(crate) fn tap(self: &Arc<Self>, outgoing: &UpstreamRequest<'_>, is_stream: bool) -> AnswerRecorder {
        let request = (self.redact)(&String::from_utf8_lossy(outgoing.body));
        let exchange = RecordedExchange {
            v: VERSION,
            wire: outgoing.wire.name().to_owned(),
            history: history::digest(outgoing.wire, outgoing.request, &self.redact),
            request: serde_json::from_str(&request).unwrap_or_default(),
            answer: Value::Null,
        };
        let wire = outgoing.wire;
        AnswerRecorder {
            recorder: Arc::clone(self),
            wire,
            is_stream,
            exchange: Some(exchange),
            bytes: Vec::new(),
        }
    }

    fn keep(&self, exchange: &RecordedExchange) -> std::io::Result<()> {
        let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let path = self.directory.join(format!("{number:05}.json"));
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(serde_json::to_string_pretty(exchange).unwrap_or_default().as_bytes())
    }
}

/// One answer while it is relayed. Only a complete answer is recorded.
pub(crate) struct AnswerRecorder {
    recorder: Arc<Recorder>,
    wire: Wire,
    is_stream: bool,
    exchange: Option<RecordedExchange>,
    bytes: Vec<u8>,
}

impl AnswerRecorder {
    pub(crate) fn push(&mut self, portion: &Bytes) {
        if self.bytes.len() + portion.len() > MAX_ANSWER_BYTES {
            self.exchange = None;
        } else if self.exchange.is_some() {
            self.bytes.extend_from_slice(portion);
        }
    }

    /// If the file cannot be written, the run goes on; a replay reports the answer as missing.
    pub(crate) fn end(&mut self) {
        let (Some(mut exchange), Some(mut answer)) = (self.exchange.take(), self.answer()) else { return };
        redact_answer(&mut answer, &self.recorder.redact);
        exchange.answer = codec::write_answer(self.wire, &answer);
        drop(self.recorder.keep(&exchange));
    }

    /// Assembled first, because a secret may be split between the frames of a stream.
    fn answer(&self) -> Option<ModelAnswer> {
        if !self.is_stream {
            return codec::read_answer(self.wire, &self.bytes).ok();
        }
        let mut decoder = SseDecoder::default();
        let mut reader = FrameReader::new(self.wire);
        let mut fold = AnswerAssembler::default();
        decoder.push(&self.bytes).ok()?;
        while let Some(frame) = decoder.next_frame() {
            for delta in reader.read(&frame).ok()? {
                fold.push(delta).ok()?;
            }
        }
        fold.finish().ok()
    }
}

fn redact_answer(answer: &mut ModelAnswer, redact: &Redact) {
    let json = |value: &Value| serde_json::from_str(&redact(&value.to_string())).unwrap_or_default();
    for block in &mut answer.blocks {
        match block {
            ContentBlock::Text(text) | ContentBlock::Thinking { text, .. } => *text = redact(text),
            ContentBlock::ToolCall(call) => call.input = json(&call.input),
            ContentBlock::ToolResult(result) => result.parts.iter_mut().for_each(|part| *part = redact(part)),
            ContentBlock::Other(value) => *value = json(value),
        }
    }
}
