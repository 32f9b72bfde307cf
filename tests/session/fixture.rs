//! What the tests of sessions share: a directory that goes away, a clock that is turned by hand, short words for events.

use session::{
    Directive, EventId, LeaseTerms, Payload, RequestId, RunReport, Seq, SessionEvent, SessionHeader,
    SessionId, SessionInput, SessionUsage, Sha256Digest, TimeSeed, Timestamp, ToolRequestRef, WakeCommit,
    WakeEnding, WakeId,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;

static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A directory that is removed when the test is over. In memory where possible: the tests commit thousands of times.
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        Self::below(&base)
    }

    pub(crate) fn below(base: &Path) -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = base.join(format!("fullsend-session-{}-{number}", process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.0.join("sessions.db")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

/// A clock that only the test turns, and randomness that repeats.
pub(crate) struct Clock {
    pub(crate) now_ms: i64,
    seed: u64,
}

impl Clock {
    pub(crate) fn new(seed: u64) -> Self {
        Self { now_ms: 1_800_000_000_000, seed: seed << 32 }
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp(self.now_ms)
    }

    pub(crate) fn pass_ms(&mut self, milliseconds: i64) {
        self.now_ms += milliseconds;
    }

    pub(crate) fn seed(&mut self) -> TimeSeed {
        self.seed += 1;
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&self.seed.to_be_bytes());
        TimeSeed::new(self.now(), seed)
    }

    pub(crate) fn header(&mut self, agent: &str) -> SessionHeader {
        SessionHeader::new(SessionId::generate(&mut self.seed()), agent, self.now())
    }

    pub(crate) fn input(&mut self, payload: Payload) -> SessionInput {
        SessionInput { id: EventId::generate(&mut self.seed()), payload }
    }

    pub(crate) fn event(&mut self, seq: Seq, wake_id: Option<WakeId>, payload: Payload) -> SessionEvent {
        SessionEvent {
            version: 1,
            seq,
            id: EventId::generate(&mut self.seed()),
            time_ms: self.now(),
            wake_id,
            by: None,
            payload,
        }
    }

    pub(crate) fn question(&mut self, expires_ms: Option<Timestamp>) -> ToolRequestRef {
        let input_digest = Sha256Digest::of_json(&json!({"n": 1}));
        ToolRequestRef { request_id: RequestId::generate(&mut self.seed()), input_digest, expires_ms }
    }
}

pub(crate) fn message(text: &str) -> Payload {
    Payload::UserMessage { message: text.to_owned() }
}

pub(crate) fn interrupt() -> Payload {
    Payload::UserInterrupt { note: None }
}

pub(crate) fn result(question: &ToolRequestRef) -> Payload {
    let ToolRequestRef { request_id, input_digest, .. } = *question;
    Payload::UserCustomToolResult { request_id, input_digest, output: json!("done"), is_error: false }
}

pub(crate) fn directive(value: &serde_json::Value) -> Directive {
    Directive::from_json(&value.to_string()).unwrap()
}

pub(crate) fn ending(ending: WakeEnding) -> WakeCommit {
    WakeCommit {
        reports: Vec::new(),
        ending,
        usage: SessionUsage::default(),
        bindings: std::collections::BTreeMap::new(),
        memory: Vec::new(),
        deleted_memory: Vec::new(),
    }
}

/// The commit of a run that did its work and sleeps.
pub(crate) fn sleeps() -> WakeCommit {
    ending(WakeEnding::Directive(directive(
        &json!({"response": "ok", "summary": "did it", "outcome": "sleep"}),
    )))
}

/// Reports, each with an id of its own.
pub(crate) fn reports(clock: &mut Clock, payloads: &[Payload]) -> Vec<RunReport> {
    let report =
        |payload: &Payload| RunReport { id: EventId::generate(&mut clock.seed()), payload: payload.clone() };
    payloads.iter().map(report).collect()
}

pub(crate) fn worker(owner: &str) -> LeaseTerms {
    LeaseTerms { owner: owner.to_owned(), lease_ms: 60_000 }
}
/// Says in the list of skips why a test could not run here.
pub(crate) fn skip(name: &str, reason: &str) {
    use std::io::Write;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::create_dir_all(root.join("target")).unwrap();
    let path = root.join("target/skips.txt");
    let mut list = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    writeln!(list, "SKIP {name}: {reason}").unwrap();
}
