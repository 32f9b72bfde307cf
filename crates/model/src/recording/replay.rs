//! Answers from a recording. The same request asked again gets the next answer that was recorded for it, and the last one
//! from then on.

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

/// An answer as it was recorded, in the form that was asked for.
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
            let exchange = read(&path).map_err(|why| RecordingError::File { path: path.clone(), why })?;
            kept.entry(exchange.history.clone()).or_default().push(exchange);
        }
        Ok(Self { directory: directory.to_owned(), redact, kept, served: Mutex::default() })
    }

    pub(crate) fn answer(&self, outgoing: &UpstreamRequest<'_>) -> Result<Replayed, String> {
        let history = history::digest(outgoing.wire, outgoing.request, &self.redact);
        let Some(exchanges) = self.kept.get(&history) else {
            return Err(format!(
                "the recording in {} has no answer to turn {} of this conversation ({} exchanges were recorded): \
                 the agent asked something else than it did then; record it again",
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

fn read(path: &Path) -> Result<RecordedExchange, String> {
    let about = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if about.len() > MAX_FILE_BYTES {
        return Err(format!("it has more than {MAX_FILE_BYTES} bytes"));
    }
    let text = std::fs::read(path).map_err(|error| error.to_string())?;
    let exchange: RecordedExchange = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    if exchange.v != VERSION {
        return Err(format!("it is of version {}, and this program reads {VERSION}", exchange.v));
    }
    Ok(exchange)
}
