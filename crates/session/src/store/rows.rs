//! How rows are decoded and checked, for both databases.

use serde::Serialize;
use uuid::Uuid;

use super::{ListedSession, Session, StoreError, StoredObject, StoredWorker};
use crate::decide::lease::LeaseHolder;
use crate::log::digest::Sha256Digest;
use crate::log::event::SessionEvent;
use crate::log::header::{HEADER_VERSION, SessionHeader};
use crate::log::id::SessionId;
use crate::log::learning::StoredLearning;
use crate::log::memory::MemoryFile;
use crate::log::seal::SealedEvent;
use crate::log::seq::Seq;
use crate::log::state::{PLAIN_STATE_VERSION, STATE_VERSION, SessionState};
use crate::log::time::Timestamp;

pub(crate) struct SessionRow {
    pub(crate) header: String,
    pub(crate) state: String,
    pub(crate) owner: Option<String>,
    pub(crate) held_until_ms: Option<i64>,
}

impl SessionRow {
    pub(crate) fn decode(self) -> Result<Session, StoreError> {
        let Self { header, state, owner, held_until_ms } = self;
        let header: SessionHeader = serde_json::from_str(&header).map_err(|error| StoreError::Corrupt {
            session: None,
            what: format!("a header cannot be read: {error}"),
        })?;
        let damage = |what| StoreError::Corrupt { session: Some(header.id), what };
        if header.version > HEADER_VERSION {
            return Err(damage(format!("its header has version {}", header.version)));
        }
        let mut state: SessionState = serde_json::from_str(&state)
            .map_err(|error| damage(format!("its state cannot be read: {error}")))?;
        if !(1..=STATE_VERSION).contains(&state.version) {
            return Err(damage(format!("its state has version {}", state.version)));
        }
        state.version = STATE_VERSION;
        let holder =
            owner.zip(held_until_ms).map(|(owner, until)| LeaseHolder { owner, until_ms: Timestamp(until) });
        Ok(Session { header, state, holder })
    }
}

/// A row of a list: the session, or why it cannot be read.
pub(crate) fn list_entry(id: Uuid, row: SessionRow) -> ListedSession {
    match row.decode() {
        Ok(session) => ListedSession::Readable(Box::new(session)),
        Err(error) => ListedSession::Unreadable { id: SessionId(id), problem: error.to_string() },
    }
}

/// The first and the last id that start with a text. If none can, the first is greater than the last.
pub(crate) fn ids_with_start(text: &str) -> (Uuid, Uuid) {
    let digits = text.replace('-', "");
    let first = format!("{digits:0<32}").parse::<Uuid>();
    let last = format!("{digits:f<32}").parse::<Uuid>();
    match (first, last) {
        (Ok(first), Ok(last)) => (first, last),
        _ => (Uuid::max(), Uuid::nil()),
    }
}

/// The state version of this program, as the stores keep it.
pub(crate) fn state_version() -> i32 {
    i32::try_from(STATE_VERSION).unwrap_or(i32::MAX)
}

/// A snapshot as it is stored. A program that does not support labels, children or accepted environments would run a
/// session wrongly, so it must not be able to read one that has any.
pub(crate) fn state(header: &SessionHeader, state: &SessionState) -> Result<String, StoreError> {
    let is_plain = header.labels.is_empty()
        && header.parent.is_none()
        && state.environment.is_none()
        && state.children.is_empty();
    let version = if is_plain { PLAIN_STATE_VERSION } else { STATE_VERSION };
    json(&SessionState { version, ..state.clone() })
}

pub(crate) fn object(
    session: SessionId,
    name: String,
    digest: &[u8],
    content: Option<Vec<u8>>,
) -> Result<StoredObject, StoreError> {
    let digest = object_digest(session, &name, digest)?;
    if content.as_ref().is_some_and(|content| Sha256Digest::of(content) != digest) {
        let what = format!("object `{name}` does not match its digest");
        return Err(StoreError::Corrupt { session: Some(session), what });
    }
    Ok(StoredObject { name, digest, content })
}

pub(crate) fn object_digest(
    session: SessionId,
    name: &str,
    digest: &[u8],
) -> Result<Sha256Digest, StoreError> {
    let damage = |_| StoreError::Corrupt {
        session: Some(session),
        what: format!("the digest of object `{name}` cannot be read"),
    };
    Ok(Sha256Digest(digest.try_into().map_err(damage)?))
}

pub(crate) fn open(session: SessionId, sealed: &SealedEvent) -> Result<SessionEvent, StoreError> {
    let damage = |why| StoreError::Corrupt {
        session: Some(session),
        what: format!("event {} cannot be trusted: {why}", sealed.seq),
    };
    sealed.open(session).map_err(damage)
}

/// A log has no gaps: a missing event is damage.
pub(crate) fn check_dense(session: SessionId, after: Seq, events: &[SessionEvent]) -> Result<(), StoreError> {
    let mut expected = after;
    for event in events {
        expected = expected.next();
        if event.seq != expected {
            let what = format!("event {} is missing", expected.0);
            return Err(StoreError::Corrupt { session: Some(session), what });
        }
    }
    Ok(())
}

pub(crate) fn memory_file(
    session: SessionId,
    name: String,
    content: Vec<u8>,
) -> Result<MemoryFile, StoreError> {
    let damage = |_| StoreError::Corrupt {
        session: Some(session),
        what: format!("memory file `{name}` is not UTF-8"),
    };
    let content = String::from_utf8(content).map_err(damage)?;
    Ok(MemoryFile { name, content })
}

pub(crate) fn learning(text: &str) -> Result<StoredLearning, StoreError> {
    serde_json::from_str(text).map_err(|error| StoreError::Corrupt {
        session: None,
        what: format!("a learning cannot be read: {error}"),
    })
}

pub(crate) fn worker(
    name: String,
    description: &str,
    started_ms: i64,
    seen_ms: i64,
) -> Result<StoredWorker, StoreError> {
    let description = serde_json::from_str(description).map_err(|error| StoreError::Corrupt {
        session: None,
        what: format!("the description of a worker cannot be read: {error}"),
    })?;
    Ok(StoredWorker { name, description, started_ms: Timestamp(started_ms), seen_ms: Timestamp(seen_ms) })
}

pub(crate) fn json(value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(not_json)
}

pub(crate) fn seal(session: SessionId, event: &SessionEvent) -> Result<SealedEvent, StoreError> {
    SealedEvent::seal(session, event).map_err(not_json)
}

fn not_json(error: serde_json::Error) -> StoreError {
    StoreError::Unavailable { step: "write a value as JSON", source: Box::new(error) }
}

pub(crate) fn seq(seq: Seq) -> i64 {
    i64::try_from(seq.0).unwrap_or(i64::MAX)
}

pub(crate) fn count(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
