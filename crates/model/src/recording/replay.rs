//! Replays answers from a recording. A repeated request gets the next recorded answer, and the last one from then on.

use super::{RecordedExchange, RecordingError, Redact, VERSION, history};
use crate::upstream::request::UpstreamRequest;
use crate::wire::assemble::answer_deltas;
use crate::wire::codec::{self, FrameWriter};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

const MAX_FILE_BYTES: u64 = 256 << 20;
const MAX_FILES: usize = 100_000;

pub struct Replay {
    directory: PathBuf,
    redact: Redact,
    /// By the request's history, in the order of the recording.
    kept: HashMap<String, Vec<RecordedExchange>>,
    served: Mutex<HashMap<String, usize>>,
}

/// A recorded answer, streamed or whole as the request asks.
pub(crate) struct Replayed {
    pub(crate) content_type: &'static str,
    pub(crate) answer: Vec<u8>,
}

impl Replay {
    pub fn load(directory: &Path, redact: Redact) -> Result<Self, RecordingError> {
        let wrong = |source| RecordingError::Directory { path: directory.to_owned(), source };
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(directory).map_err(wrong)?.take(MAX_FILES) {
            paths.push(entry.map_err(wrong)?.path());
        }
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        paths.sort();
        if paths.is_empty() {
            return Err(RecordingError::Empty { path: directory.to_owned() });
        }
        let mut kept: HashMap<String, Vec<RecordedExchange>> = HashMap::new();
        for path in paths {
            let exchange = read(&path)?;
            kept.entry(exchange.history.clone()).or_default().push(exchange);
        }
        Ok(Self { directory: directory.to_owned(), redact, kept, served: Mutex::default() })
    }

    pub(crate) fn answer(&self, outgoing: &UpstreamRequest<'_>) -> Result<Replayed, String> {
        let history = history::digest(outgoing.wire, outgoing.request, &self.redact);
        let Some(exchanges) = self.kept.get(&history) else {
            return Err(format!(
                "the recording in {} has no answer to turn {} of this conversation ({} exchanges were recorded): \
                 the conversation differs from the recorded one; record it again",
                self.directory.display(),
                outgoing.request.turns() + 1,
                self.kept.values().map(Vec::len).sum::<usize>()
            ));
        };
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        let count = served.entry(history).or_default();
        let exchange = &exchanges[(*count).min(exchanges.len() - 1)];
        *count += 1;
        if !outgoing.request.stream {
            return Ok(Replayed {
                content_type: "application/json",
                answer: exchange.answer.to_string().into(),
            });
        }
        let answer = codec::read_answer(outgoing.wire, exchange.answer.to_string().as_bytes())
            .map_err(|error| format!("a recorded answer cannot be read: {error}"))?;
        let mut writer = FrameWriter::new(outgoing.wire);
        let frames = answer_deltas(&answer).into_iter().flat_map(|delta| writer.write(&delta));
        let answer = frames.flat_map(|frame| frame.encode()).collect();
        Ok(Replayed { content_type: "text/event-stream", answer })
    }
}

fn read(path: &Path) -> Result<RecordedExchange, RecordingError> {
    let failed = |source| RecordingError::Read { path: path.to_owned(), source };
    let bytes = std::fs::metadata(path).map_err(failed)?.len();
    if bytes > MAX_FILE_BYTES {
        return Err(RecordingError::TooLarge { path: path.to_owned(), bytes });
    }
    let text = std::fs::read(path).map_err(failed)?;
    let exchange: RecordedExchange = serde_json::from_slice(&text)
        .map_err(|source| RecordingError::Parse { path: path.to_owned(), source })?;
    if exchange.v != VERSION {
        return Err(RecordingError::Version { path: path.to_owned(), found: exchange.v });
    }
    Ok(exchange)
}
