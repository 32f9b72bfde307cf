//! `events.jsonl`: each event is appended as it happens. Each line carries the digest of the line before it, so that a
//! line that was changed, moved or removed is detected. Every other view of the run is a fold of this file.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use redact::Redactor;
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use super::clock::Moment;
use super::counted::{Admission, EventCounts};
use super::{Envelope, RunEvent, VERSION};

/// The digest before the first line.
const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The longest line that we write; a longer line is not ours.
pub const MAX_LINE_BYTES: u64 = 4 << 20;

/// An event longer than this has its long texts and lists shortened before it is written.
const MAX_EVENT_BYTES: usize = 256 << 10;
/// The longest name of a tool, and id of a call.
const MAX_NAME_BYTES: usize = 256;
/// How many bytes of a text and entries of a list stay. The limits are tried in order until the event is short enough.
const SHORTENINGS: [(usize, usize); 3] = [(4 << 10, 50), (256, 20), (64, 4)];

/// How a line ends: the digest and what closes the object.
const DIGEST_LENGTH: usize = 64;
const LINE_END: &[u8] = b"\"}";

/// Appends events to the log. Cheap to clone; every clone appends to the same log.
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
    /// Masks the run's secrets, once they are known.
    redactor: Option<Arc<Redactor>>,
    counts: EventCounts,
}

impl Log {
    /// An empty log.
    fn new(file: File) -> Self {
        Self {
            file,
            seq: 0,
            head: GENESIS.to_owned(),
            failure: None,
            redactor: None,
            counts: EventCounts::default(),
        }
    }
}

impl Emitter {
    /// Starts a new log. `listener` gets every event after it was written.
    pub fn create(
        path: &Path,
        listener: impl Fn(&Envelope) + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let file = File::options().append(true).create_new(true).open(path)?;
        // Locked while this process lives: if the log can be locked, it has no runner. `StoredRun::is_alive` takes the
        // lock for a moment to test this, so wait for it.
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)?;
        Ok(Self { log: Arc::new(Mutex::new(Log::new(file))), listener: Arc::new(listener) })
    }

    /// Writes no log, for a scan outside of a run.
    pub fn discarding() -> std::io::Result<Self> {
        let file = File::options().append(true).open("/dev/null")?;
        Ok(Self { log: Arc::new(Mutex::new(Log::new(file))), listener: Arc::new(|_| {}) })
    }

    /// Continues a log whose runner is gone. An unfinished last line is cut off.
    pub fn resume(path: &Path, events: &[Envelope]) -> std::io::Result<Self> {
        let whole: u64 = std::fs::read(path)?
            .split_inclusive(|byte| *byte == b'\n')
            .take(events.len())
            .map(|line| line.len() as u64)
            .sum();
        let file = File::options().append(true).open(path)?;
        file.set_len(whole)?;
        let (seq, head) = events.last().map_or((0, GENESIS.to_owned()), |last| (last.seq, last.hash.clone()));
        let log = Log { file, seq, head, failure: None, redactor: None, counts: EventCounts::default() };
        Ok(Self { log: Arc::new(Mutex::new(log)), listener: Arc::new(|_| {}) })
    }

    /// From now on these values are masked in every event, and in every text that is passed to `redact`.
    pub fn keep_secret(&self, redactor: Redactor) {
        self.lock().redactor = Some(Arc::new(redactor));
    }

    /// A text with the run's secrets masked.
    pub fn redact(&self, text: &str) -> String {
        let redactor = self.lock().redactor.clone();
        redactor.map_or_else(|| text.to_owned(), |redactor| redactor.redact(text).into_owned())
    }

    /// Appends one event, or counts it where there are too many of its kind. If the log cannot be written, `failure` says why
    /// and the run ends.
    pub fn emit(&self, event: RunEvent) {
        let mut log = self.lock();
        match log.counts.admit(&event) {
            Admission::Write => {}
            Admission::Count => return,
            Admission::CountAndReport(count) => return self.append(&mut log, *count),
        }
        if matches!(event, RunEvent::RunFinished { .. }) {
            for count in log.counts.unreported() {
                self.append(&mut log, count);
            }
        }
        self.append(&mut log, event);
    }

    fn append(&self, log: &mut Log, event: RunEvent) {
        let event = match log.redactor.as_deref() {
            Some(redactor) => redacted(event, redactor),
            None => event,
        };
        let (envelope, line) =
            chain(bounded(with_short_names(event)), log.seq + 1, log.head.clone(), Moment::now());
        if let Err(error) = log.file.write_all(&line) {
            log.failure.get_or_insert(error);
            return;
        }
        log.seq = envelope.seq;
        log.head.clone_from(&envelope.hash);
        log.counts.written(&envelope.event, line.len());
        // Called under the lock, so that the listener gets the events in their order.
        (self.listener)(&envelope);
    }

    /// The digest of the last line.
    pub fn head(&self) -> String {
        self.lock().head.clone()
    }

    /// Why the log could not be written, if it could not.
    pub fn failure(&self) -> Option<std::io::Error> {
        let log = self.lock();
        let error = log.failure.as_ref()?;
        Some(error.raw_os_error().map_or_else(|| error.kind().into(), std::io::Error::from_raw_os_error))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A secret may be in any text of an event. It is masked here, so that no caller can forget it.
fn redacted(event: RunEvent, redactor: &Redactor) -> RunEvent {
    let text = serde_json::to_string(&event).unwrap_or_default();
    let clean = match redactor.redact_json(&text) {
        Cow::Borrowed(same) if same == text => return event,
        clean => clean,
    };
    let overwritten = || {
        let mut bytes = text.clone().into_bytes();
        redactor.mask_in_place(&mut bytes);
        serde_json::from_slice(&bytes).ok()
    };
    // A value that is a word of our own format is no secret.
    serde_json::from_str(&clean).ok().or_else(overwritten).unwrap_or(event)
}

/// The agent or its model chooses the names and ids of calls.
fn with_short_names(mut event: RunEvent) -> RunEvent {
    match &mut event {
        RunEvent::ToolStarted { call, tool, .. } | RunEvent::ToolDenied { call, tool, .. } => {
            shorten_name(call);
            shorten_name(tool);
        }
        RunEvent::HookMissing { call, .. } | RunEvent::ToolFinished { call, .. } => shorten_name(call),
        _ => {}
    }
    event
}

/// Two names that start alike stay two names.
fn shorten_name(name: &mut String) {
    if name.len() > MAX_NAME_BYTES {
        let digest = sha256(name.as_bytes());
        name.truncate(name.floor_char_boundary(MAX_NAME_BYTES / 2));
        name.push_str("… ");
        name.push_str(&digest);
    }
}

/// Shortens long texts, so that the line can always be read back: an agent chooses some of the texts in events.
fn bounded(event: RunEvent) -> RunEvent {
    let is_small = |bytes: &[u8]| bytes.len() <= MAX_EVENT_BYTES;
    if serde_json::to_vec(&event).is_ok_and(|bytes| is_small(&bytes)) {
        return event;
    }
    let mut value = serde_json::to_value(&event).unwrap_or_default();
    for (text_bytes, items) in SHORTENINGS {
        shorten(&mut value, text_bytes, items);
        if is_small(value.to_string().as_bytes()) {
            break;
        }
    }
    let is_short = is_small(value.to_string().as_bytes());
    let name = value["type"].as_str().unwrap_or_default().to_owned();
    serde_json::from_value(value).ok().filter(|_| is_short).unwrap_or_else(|| RunEvent::ScannerFailed {
        place: "the event log".to_owned(),
        scanner: String::new(),
        reason: format!("an event `{name}` was too long to be written"),
        stopped: false,
    })
}

fn shorten(value: &mut Json, text_bytes: usize, items: usize) {
    match value {
        Json::String(text) if text.len() > text_bytes => {
            let bytes = text.len();
            text.truncate(text.floor_char_boundary(text_bytes));
            text.push_str(&format!("… (shortened from {bytes} bytes)"));
        }
        Json::Array(list) => {
            list.truncate(items);
            list.iter_mut().for_each(|value| shorten(value, text_bytes, items));
        }
        Json::Object(fields) => fields.values_mut().for_each(|value| shorten(value, text_bytes, items)),
        _ => {}
    }
}

/// The envelope of an event, and its line. The digest covers the line as it is written, with an empty digest.
fn chain(event: RunEvent, seq: u64, previous: String, now: Moment) -> (Envelope, Vec<u8>) {
    let mut envelope =
        Envelope { v: VERSION, seq, time: now.rfc3339(), event, previous, hash: String::new() };
    let mut line = serde_json::to_vec(&envelope).unwrap_or_default();
    envelope.hash = digest(&envelope.previous, &line);
    line.truncate(line.len().saturating_sub(LINE_END.len()));
    line.extend_from_slice(envelope.hash.as_bytes());
    line.extend_from_slice(LINE_END);
    line.push(b'\n');
    (envelope, line)
}

fn digest(previous: &str, bare_line: &[u8]) -> String {
    let mut hasher = Sha256::new();
    hasher.update(previous.as_bytes());
    hasher.update(bare_line);
    hex(&hasher.finalize())
}

/// The digest that a line should have. `None`: the line does not end like our lines.
fn expected_digest(previous: &str, line: &[u8]) -> Option<String> {
    let end = line.len().checked_sub(DIGEST_LENGTH + LINE_END.len())?;
    let bare = line.get(..end).filter(|start| start.ends_with(b"\"hash\":\""))?;
    Some(digest(previous, &[bare, LINE_END].concat()))
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
    NotAnEvent { line: u64, source: serde_json::Error },
    TooLong { line: u64 },
    Changed { line: u64 },
}

impl std::fmt::Display for LogError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Read { path, source } => write!(f, "cannot read {}: {source}", path.display()),
            Self::NotAnEvent { line, source } => {
                write!(f, "line {line} of the event log is not an event: {source}")
            }
            Self::TooLong { line } => {
                write!(f, "line {line} of the event log is longer than {MAX_LINE_BYTES} bytes")
            }
            Self::Changed { line } => {
                write!(f, "line {line} of the event log was changed, or a line before it is missing")
            }
        }
    }
}

impl std::error::Error for LogError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read { source, .. } => Some(source),
            Self::NotAnEvent { source, .. } => Some(source),
            Self::TooLong { .. } | Self::Changed { .. } => None,
        }
    }
}

/// Reads a log and checks its chain. A last line without its newline was cut by a crash and is left out.
pub fn read(path: &Path) -> Result<Vec<Envelope>, LogError> {
    let failed = |source| LogError::Read { path: path.to_owned(), source };
    let mut reader = BufReader::new(File::open(path).map_err(failed)?);
    let mut events: Vec<Envelope> = Vec::new();
    let mut previous = GENESIS.to_owned();
    loop {
        let line = events.len() as u64 + 1;
        let mut bytes = Vec::new();
        let length =
            std::io::Read::take(&mut reader, MAX_LINE_BYTES).read_until(b'\n', &mut bytes).map_err(failed)?;
        if bytes.pop_if(|last| *last == b'\n').is_none() {
            return if length as u64 == MAX_LINE_BYTES {
                Err(LogError::TooLong { line })
            } else {
                Ok(events)
            };
        }
        let envelope: Envelope =
            serde_json::from_slice(&bytes).map_err(|source| LogError::NotAnEvent { line, source })?;
        let is_next = envelope.previous == previous && envelope.seq == line;
        if !is_next || expected_digest(&previous, &bytes).as_ref() != Some(&envelope.hash) {
            return Err(LogError::Changed { line });
        }
        previous.clone_from(&envelope.hash);
        events.push(envelope);
    }
}

#[cfg(test)]
mod tests {
    use super::{Emitter, LogError, MAX_LINE_BYTES, read};
    use crate::event::{RunEvent, Step, Violation};

    #[test]
    fn secrets_are_not_written_in_any_encoding() {
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
        assert_eq!(read(&path).unwrap().len(), 3, "the chain covers the lines as written");
    }

    #[test]
    fn a_changed_moved_or_missing_line_is_detected() {
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
        let check = |text: String, changed: u64| {
            std::fs::write(&path, text).unwrap();
            assert!(matches!(read(&path), Err(LogError::Changed { line }) if line == changed));
        };
        check(text.replace("\"inputs\"", "\"publish\""), 2);
        check(text.replace("\"v\":1,\"seq\":2", "\"v\":1, \"seq\":2"), 2);
        check(format!("{}\n{}\n", lines[0], lines[2]), 2);
        check(format!("{}\n{}\n{}\n", lines[1], lines[0], lines[2]), 1);

        std::fs::write(&path, &text[..text.len() - 5]).unwrap();
        let whole = read(&path).unwrap();
        assert_eq!(whole.len(), 2, "a last line that a crash cut short is left out");
        Emitter::resume(&path, &whole).unwrap().emit(RunEvent::StepStarted { step: Step::Inputs });
        assert_eq!(read(&path).unwrap().len(), 3, "and the log continues before it");

        std::fs::write(&path, format!("{}\n{}{}\n", lines[0], &lines[1][..40], lines[2])).unwrap();
        assert!(matches!(read(&path), Err(LogError::NotAnEvent { line: 2, .. })), "torn in the middle");
    }

    #[test]
    fn names_and_ids_of_calls_are_short_and_stay_different() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("events.jsonl");
        let emitter = Emitter::create(&path, |_| {}).unwrap();
        for end in ["a", "b"] {
            let call = format!("{}{end}", "é".repeat(5_000));
            emitter.emit(RunEvent::ToolFinished { iteration: 1, call, is_error: false, bytes: 1 });
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.len() < 2_000, "{}", text.len());
        let ids: std::collections::BTreeSet<&str> =
            text.lines().filter_map(|line| line.split("\"call\":").nth(1)).collect();
        assert_eq!(ids.len(), 2, "{text}");
    }

    /// Arguments, lines, and other parts of a value in one event.
    #[test]
    fn a_value_over_several_texts_is_masked() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("events.jsonl");
        let emitter = Emitter::create(&path, |_| {}).unwrap();
        emitter.keep_secret(
            redact::Redactor::with_known([("KEY", "Kw9-correct/horse+Zq7")]).unwrap().known_only(),
        );
        emitter.emit(RunEvent::ToolDenied {
            call: "1".to_owned(),
            tool: "Kw9-corr\nect/ho\nrse+Zq7".to_owned(),
            reason: "Kw9-c\\u006frrect/horse+Zq7".to_owned(),
        });
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(
            text.contains("tool_denied") && !text.contains("rect") && !text.contains("rse+Zq7"),
            "{text}"
        );
    }

    #[test]
    fn event_with_long_texts_can_be_read_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.jsonl");
        let emitter = Emitter::create(&path, |_| {}).unwrap();
        let long = || "\u{1}x".repeat(3 << 20);
        emitter.emit(RunEvent::ToolDenied { call: long(), tool: long(), reason: long() });
        let violations = (0..100_000).map(|_| Violation { path: "/a".to_owned(), message: "b".to_owned() });
        emitter.emit(RunEvent::OutputRejected { iteration: 1, violations: violations.collect() });
        emitter.emit(RunEvent::StepStarted { step: Step::Inputs });
        let events = read(&path).unwrap();
        assert_eq!(events.len(), 3);
        let RunEvent::ToolDenied { reason, .. } = &events[0].event else { panic!("{:?}", events[0]) };
        assert!(reason.ends_with("… (shortened from 6291456 bytes)"), "{}", reason.len());

        std::fs::write(&path, "x".repeat(usize::try_from(MAX_LINE_BYTES).unwrap() + 1)).unwrap();
        assert!(matches!(read(&path), Err(LogError::TooLong { line: 1 })));
    }
}
