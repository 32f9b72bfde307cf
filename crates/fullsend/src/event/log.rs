//! `events.jsonl`: appended and flushed as things happen, each line chained to the one before, so that a line that was
//! changed, moved or removed is seen. Every other view of the run is a fold of this file.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use redact::Redactor;
use sha2::{Digest, Sha256};

use super::clock::Moment;
use super::{Envelope, RunEvent, VERSION};

/// The digest before the first line.
const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// A line longer than this is not one of ours.
const MAX_LINE: u64 = 4 << 20;

/// Where events go. Cheap to clone; every clone appends to the same log.
#[derive(Clone)]
pub struct Emitter {
    log: Arc<Mutex<Log>>,
    listener: Arc<dyn Fn(&Envelope) + Send + Sync>,
}

struct Log {
    file: File,
    seq: u64,
    head: String,
    failure: Option<std::io::Error>,
    /// Knows what must not be written, once the run does.
    redactor: Option<Arc<Redactor>>,
}

impl Emitter {
    /// Starts a new log. `listener` sees every event after it was written.
    pub fn create(
        path: &Path,
        listener: impl Fn(&Envelope) + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let file = File::options().append(true).create_new(true).open(path)?;
        // Held while this process lives: a log that can be locked is one whose runner is gone.
        rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
        let log = Log { file, seq: 0, head: GENESIS.to_owned(), failure: None, redactor: None };
        Ok(Self { log: Arc::new(Mutex::new(log)), listener: Arc::new(listener) })
    }

    /// Goes on with a log whose runner is gone. A line that it did not finish is cut off.
    pub fn resume(path: &Path, events: &[Envelope]) -> std::io::Result<Self> {
        let file = File::options().append(true).open(path)?;
        let whole: u64 = events
            .iter()
            .map(|event| serde_json::to_vec(event).map_or(0, |line| line.len() as u64 + 1))
            .sum();
        file.set_len(whole)?;
        let (seq, head) = events.last().map_or((0, GENESIS.to_owned()), |last| (last.seq, last.hash.clone()));
        let log = Log { file, seq, head, failure: None, redactor: None };
        Ok(Self { log: Arc::new(Mutex::new(log)), listener: Arc::new(|_| {}) })
    }

    /// From now on these values are written nowhere: not here, and not by those who ask `redact`.
    pub fn keep_secret(&self, redactor: Redactor) {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).redactor = Some(Arc::new(redactor));
    }

    /// A text as it may be written.
    pub fn redact(&self, text: &str) -> String {
        let redactor = self.log.lock().unwrap_or_else(PoisonError::into_inner).redactor.clone();
        redactor.map_or_else(|| text.to_owned(), |redactor| redactor.redact(text).into_owned())
    }

    /// Appends one event. A log that cannot be written is remembered: `failure` ends the run.
    pub fn emit(&self, event: RunEvent) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let event = match log.redactor.as_deref() {
            Some(redactor) => redacted(event, redactor),
            None => event,
        };
        let envelope = chain(event, log.seq + 1, log.head.clone(), Moment::now());
        let mut line = serde_json::to_vec(&envelope).unwrap_or_default();
        line.push(b'\n');
        if let Err(error) = log.file.write_all(&line) {
            log.failure.get_or_insert(error);
            return;
        }
        log.seq = envelope.seq;
        log.head.clone_from(&envelope.hash);
        // Told under the lock, so that listeners hear events in their order.
        (self.listener)(&envelope);
    }

    /// The digest of the last line.
    pub fn head(&self) -> String {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).head.clone()
    }

    /// Why the log could not be written, if it could not.
    pub fn failure(&self) -> Option<String> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).failure.as_ref().map(ToString::to_string)
    }
}

/// Values may stand in any text of an event, and nobody should have to think of it where events are made.
fn redacted(event: RunEvent, redactor: &Redactor) -> RunEvent {
    let text = serde_json::to_string(&event).unwrap_or_default();
    match redactor.redact_json(&text) {
        Cow::Borrowed(_) => event,
        Cow::Owned(clean) => serde_json::from_str(&clean).unwrap_or(event),
    }
}

fn chain(event: RunEvent, seq: u64, previous: String, now: Moment) -> Envelope {
    let mut envelope =
        Envelope { v: VERSION, seq, time: now.rfc3339(), event, previous, hash: String::new() };
    envelope.hash = digest(&envelope);
    envelope
}

/// The digest covers the line as it is written, but for the digest itself.
fn digest(envelope: &Envelope) -> String {
    let bare = Envelope { hash: String::new(), ..envelope.clone() };
    let mut hasher = Sha256::new();
    hasher.update(envelope.previous.as_bytes());
    hasher.update(serde_json::to_vec(&bare).unwrap_or_default());
    hex(&hasher.finalize())
}

pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[derive(Debug)]
pub enum LogError {
    Read { path: PathBuf, source: std::io::Error },
    Line { line: u64, why: String },
    Broken { line: u64 },
}

impl std::fmt::Display for LogError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Read { path, source } => write!(f, "cannot read {}: {source}", path.display()),
            Self::Line { line, why } => write!(f, "line {line} of the log is not an event: {why}"),
            Self::Broken { line } => {
                write!(f, "line {line} of the log was changed, or a line before it is missing")
            }
        }
    }
}

impl std::error::Error for LogError {}

/// Reads a log back and checks its chain. A last line without its newline was cut by a crash and is left out.
pub fn read(path: &Path) -> Result<Vec<Envelope>, LogError> {
    let failed = |source| LogError::Read { path: path.to_owned(), source };
    let mut reader = BufReader::new(File::open(path).map_err(failed)?);
    let mut events: Vec<Envelope> = Vec::new();
    let mut previous = GENESIS.to_owned();
    loop {
        let line = events.len() as u64 + 1;
        let mut bytes = Vec::new();
        std::io::Read::take(&mut reader, MAX_LINE).read_until(b'\n', &mut bytes).map_err(failed)?;
        if bytes.last() != Some(&b'\n') {
            return Ok(events);
        }
        let envelope: Envelope = serde_json::from_slice(&bytes)
            .map_err(|error| LogError::Line { line, why: error.to_string() })?;
        if envelope.previous != previous || envelope.seq != line || digest(&envelope) != envelope.hash {
            return Err(LogError::Broken { line });
        }
        previous.clone_from(&envelope.hash);
        events.push(envelope);
    }
}

#[cfg(test)]
mod tests {
    use super::{Emitter, LogError, read};
    use crate::event::{RunEvent, Step};

    #[test]
    fn what_is_secret_is_not_written_in_any_encoding() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.jsonl");
        let emitter = Emitter::create(&path, |_| {}).unwrap();
        let secret = "hunter2/\"quoted\"&more";
        let known = [("KEY", secret.as_bytes())];
        emitter.keep_secret(redact::Redactor::with_known(known).unwrap().known_only());
        for text in [secret, "aHVudGVyMi8icXVvdGVkIiZtb3Jl", "hunter2%2F%22quoted%22%26more"] {
            let place = format!("before {text} after");
            emitter.emit(RunEvent::Toggle {
                field: String::new(),
                value: String::new(),
                place: place.clone(),
            });
            assert_eq!(emitter.redact(&place), "before [REDACTED:KEY] after");
        }
        let written = std::fs::read_to_string(&path).unwrap();
        assert!(!written.contains("hunter2") && !written.contains("aHVudGVy"), "{written}");
        assert_eq!(written.matches("[REDACTED:KEY]").count(), 3);
        assert_eq!(read(&path).unwrap().len(), 3, "the chain is over what was written");
    }

    #[test]
    fn a_changed_moved_or_missing_line_is_seen() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.jsonl");
        let emitter = Emitter::create(&path, |_| {}).unwrap();
        for step in [Step::PreScript, Step::Inputs, Step::Provision] {
            emitter.emit(RunEvent::StepStarted { step });
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(read(&path).unwrap().len(), 3);
        assert_eq!(read(&path).unwrap().last().unwrap().hash, emitter.head());

        let lines: Vec<&str> = text.lines().collect();
        let check = |text: String, broken: u64| {
            std::fs::write(&path, text).unwrap();
            assert!(matches!(read(&path), Err(LogError::Broken { line }) if line == broken));
        };
        check(text.replace("\"inputs\"", "\"publish\""), 2);
        check(format!("{}\n{}\n", lines[0], lines[2]), 2);
        check(format!("{}\n{}\n{}\n", lines[1], lines[0], lines[2]), 1);

        std::fs::write(&path, &text[..text.len() - 5]).unwrap();
        assert_eq!(read(&path).unwrap().len(), 2, "a line that a crash cut short is left out");
    }
}
