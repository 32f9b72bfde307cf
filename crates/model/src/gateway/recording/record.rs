//! Keeps what passes: each whole answer with its request, one file each, redacted before it is written.

use super::{Exchange, RecordingError, Redact, VERSION, history};
use crate::gateway::upstream::Outgoing;
use crate::wire::answer::Fold;
use crate::wire::codec::{self, FrameReader};
use crate::wire::sse::Decoder;
use crate::wire::{Answer, Block, Wire};
use bytes::Bytes;
use serde_json::Value;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A longer answer is not kept; its absence shows when it is replayed.
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

    /// Hears the answer to this request.
    pub(in crate::gateway) fn tap(self: &Arc<Self>, outgoing: &Outgoing<'_>, is_stream: bool) -> Tap {
        let request = (self.redact)(&String::from_utf8_lossy(outgoing.body));
        let exchange = Exchange {
            v: VERSION,
            wire: outgoing.wire.name().to_owned(),
            history: history::digest(outgoing.wire, outgoing.request, &self.redact),
            request: serde_json::from_str(&request).unwrap_or_default(),
            answer: Value::Null,
        };
        let wire = outgoing.wire;
        Tap { recorder: Arc::clone(self), wire, is_stream, exchange: Some(exchange), bytes: Vec::new() }
    }

    fn keep(&self, exchange: &Exchange) -> std::io::Result<()> {
        let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let path = self.directory.join(format!("{number:05}.json"));
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(serde_json::to_string_pretty(exchange).unwrap_or_default().as_bytes())
    }
}

/// One answer while it passes. Only one that came to its end is kept.
pub(in crate::gateway) struct Tap {
    recorder: Arc<Recorder>,
    wire: Wire,
    is_stream: bool,
    exchange: Option<Exchange>,
    bytes: Vec<u8>,
}

impl Tap {
    pub(in crate::gateway) fn hear(&mut self, portion: &Bytes) {
        if self.bytes.len() + portion.len() > MAX_ANSWER_BYTES {
            self.exchange = None;
        } else if self.exchange.is_some() {
            self.bytes.extend_from_slice(portion);
        }
    }

    /// A recording that cannot be written is missed when it is replayed; the run goes on.
    pub(in crate::gateway) fn end(&mut self) {
        let (Some(mut exchange), Some(mut answer)) = (self.exchange.take(), self.answer()) else { return };
        redact_answer(&mut answer, &self.recorder.redact);
        exchange.answer = codec::write_answer(self.wire, &answer);
        drop(self.recorder.keep(&exchange));
    }

    /// Read whole, because a secret may be spread over the frames of a stream.
    fn answer(&self) -> Option<Answer> {
        if !self.is_stream {
            return codec::read_answer(self.wire, &self.bytes).ok();
        }
        let (mut decoder, mut reader, mut fold) =
            (Decoder::default(), FrameReader::new(self.wire), Fold::default());
        decoder.push(&self.bytes).ok()?;
        while let Some(frame) = decoder.next_frame() {
            for delta in reader.read(&frame).ok()? {
                fold.push(delta).ok()?;
            }
        }
        fold.finish().ok()
    }
}

fn redact_answer(answer: &mut Answer, redact: &Redact) {
    let json = |value: &Value| serde_json::from_str(&redact(&value.to_string())).unwrap_or_default();
    for block in &mut answer.blocks {
        match block {
            Block::Text(text) | Block::Thinking { text, .. } => *text = redact(text),
            Block::ToolCall(call) => call.input = json(&call.input),
            Block::ToolResult(result) => result.parts.iter_mut().for_each(|part| *part = redact(part)),
            Block::Other(value) => *value = json(value),
        }
    }
}
