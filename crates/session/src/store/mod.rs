//! What a store does: find a session, call a pure decision about it, and write the result in one atomic and durable step. A
//! store knows nothing about the meaning of events.

mod error;
pub(crate) mod postgres;
mod rows;
pub(crate) mod sqlite;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::error::{SessionError, StoreError};
use crate::decide::children::{self, ChildEffects};
use crate::decide::draft::FinishedDraft;
use crate::decide::lease::LeaseHolder;
use crate::decide::limits::SessionLimits;
use crate::decide::refusal::SessionRefusal;
use crate::log::digest::Sha256Digest;
use crate::log::event::SessionEvent;
use crate::log::header::{SessionEnvironment, SessionHeader};
use crate::log::id::{EventId, SessionId};
use crate::log::learning::StoredLearning;
use crate::log::memory::MemoryFile;
use crate::log::seq::Seq;
use crate::log::state::{DueTimes, SessionState};
use crate::log::status::SessionStatus;
use crate::log::time::Timestamp;

/// One session as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    pub header: SessionHeader,
    pub state: SessionState,
    pub holder: Option<LeaseHolder>,
}

impl Session {
    /// The environment that its wakes run in: the one that it was created in, or as a person accepted it later. The log of
    /// an imported session may name one that the import did not accept.
    #[must_use]
    pub fn environment(&self) -> Option<&SessionEnvironment> {
        let created_in = self.header.environment.as_ref()?;
        let accepted = self.state.environment.as_ref().filter(|accepted| accepted.id == created_in.id);
        Some(accepted.unwrap_or(created_in))
    }

    /// When a worker should claim it: a held one when its lease ends.
    #[must_use]
    pub fn due(&self) -> DueTimes {
        due(&self.state, self.holder.as_ref())
    }
}

pub(crate) fn due(state: &SessionState, holder: Option<&LeaseHolder>) -> DueTimes {
    match holder {
        Some(holder) => DueTimes { again: Some(holder.until_ms), ..DueTimes::default() },
        // It was running when it was exported, so no worker holds it here.
        None if state.running().is_some() => DueTimes { again: Some(Timestamp(0)), ..DueTimes::default() },
        None => state.due(),
    }
}

/// Which session to update.
#[derive(Debug, Clone, Copy)]
pub enum UpdateTarget<'a> {
    /// This one, with those of the named events that it already has.
    Session { id: SessionId, events: &'a [EventId] },
    /// The first one that is due, by lane and then by time, and that no other writer has locked.
    Due { now: Timestamp, horizon_ms: u64, filter: &'a ClaimFilter },
}

/// What a caller waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitFor {
    /// A session that is due now or soon.
    Due,
    /// New events of any session.
    Events,
    /// An interrupt of this session.
    Interrupt(SessionId),
}

/// What a worker without work needs to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreSurvey {
    /// The time of the store's clock.
    pub now: Timestamp,
    /// Whether a session is due, for any worker.
    pub is_due: bool,
    /// When the next session becomes due.
    pub next_due: Option<Timestamp>,
}

/// Which due sessions a worker can run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClaimFilter {
    /// Only sessions of this repository, and those of no repository.
    pub repository: Option<String>,
    /// Only sessions of a repository whose name starts with one of these.
    pub repository_prefixes: Option<Vec<String>>,
    /// Only sessions of this agent.
    pub agent: Option<String>,
    /// Only sessions whose labels are all among these; `None` accepts every label.
    pub labels: Option<Vec<String>>,
    /// None of these sessions.
    pub skip: Vec<SessionId>,
}

/// Which sessions a list has: all, unless it says otherwise. Every part has an index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListFilter<'a> {
    pub agent: Option<&'a str>,
    pub repository: Option<&'a str>,
    pub status: Option<SessionStatus>,
    /// Only sessions with a lease, a queued wake or a dead letter.
    pub has_work: bool,
}

/// A file that belongs to a session but not to its log, such as the conversation of a runtime or the bundle of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredObject {
    pub name: String,
    pub digest: Sha256Digest,
    /// `None` if the content is in an object store, named after its digest.
    pub content: Option<Vec<u8>>,
}

/// A worker that waits for due sessions, as it last reported itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredWorker {
    /// The owner of its leases.
    pub name: String,
    pub description: WorkerDescription,
    pub started_ms: Timestamp,
    pub seen_ms: Timestamp,
}

/// Where a worker runs and which sessions it can run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerDescription {
    pub host: String,
    /// The repository, or the beginnings of the repositories, whose sessions it runs.
    pub repositories: Vec<String>,
    /// Only sessions of this agent.
    pub agent: Option<String>,
    /// The labels that it serves.
    pub labels: Vec<String>,
    /// How many wakes it runs at once.
    pub concurrency: u16,
}

/// One entry of a list. A session that cannot be read does not hide the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListedSession {
    Readable(Box<Session>),
    Unreadable { id: SessionId, problem: String },
}

impl ListedSession {
    #[must_use]
    pub fn id(&self) -> SessionId {
        match self {
            Self::Readable(session) => session.header.id,
            Self::Unreadable { id, .. } => *id,
        }
    }
}

/// The input of a decision.
#[derive(Debug, Clone)]
pub struct FoundSession {
    pub session: Session,
    pub events: Vec<SessionEvent>,
}

/// The result of a decision. The events follow the session's last one.
#[derive(Debug, Clone)]
pub struct SessionChange {
    pub state: SessionState,
    pub holder: Option<LeaseHolder>,
    pub events: Vec<SessionEvent>,
    pub memory: Vec<MemoryFile>,
    /// The names of the memory files to delete.
    pub deleted_memory: Vec<String>,
    pub learnings: Vec<StoredLearning>,
    /// How many learnings of the agent are kept, newest first.
    pub learnings_kept: usize,
    pub children: ChildEffects,
}

impl SessionChange {
    /// The change that a draft makes, or `None` if it makes none.
    pub(crate) fn from_draft(draft: FinishedDraft, holder: Option<LeaseHolder>) -> Option<Self> {
        let FinishedDraft { state, events } = draft;
        if events.is_empty() {
            return None;
        }
        Some(Self { events, ..Self::of(state, holder) })
    }

    /// The change, and what it tells the parent of the session.
    pub(crate) fn with_result(mut self, before: &Session, limits: &SessionLimits) -> Self {
        let Session { header, state, .. } = before;
        self.children.result = children::result(header, state, &self.state, &self.events, limits);
        self
    }

    pub(crate) fn of(state: SessionState, holder: Option<LeaseHolder>) -> Self {
        Self {
            state,
            holder,
            events: Vec::new(),
            memory: Vec::new(),
            deleted_memory: Vec::new(),
            learnings: Vec::new(),
            learnings_kept: 0,
            children: ChildEffects::default(),
        }
    }
}

/// Decides about one session. The store calls it again when another writer was faster, and discards the earlier result.
/// `None` means that there is nothing to write.
pub type DecideFn<'a> = dyn FnMut(&FoundSession) -> Result<Option<SessionChange>, SessionRefusal> + 'a;

/// Which events of a log's end to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventClass {
    Conversation,
    /// Everything else: tool calls, spans, errors.
    Work,
}

/// A connection to a store. Each thread has its own.
pub trait Store: Send {
    /// The time of the store's clock, which all machines share.
    fn now(&mut self) -> Result<Timestamp, StoreError>;

    /// Adds an empty session. `false` if the id is taken.
    fn create(&mut self, header: &SessionHeader) -> Result<bool, StoreError>;

    fn load(&mut self, id: SessionId) -> Result<Option<Session>, StoreError>;

    /// Sessions with a higher id, lowest first.
    fn list(
        &mut self,
        filter: &ListFilter<'_>,
        after: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<ListedSession>, StoreError>;

    /// The first due session that the filter accepts. It locks nothing.
    fn find_due(
        &mut self,
        now: Timestamp,
        horizon_ms: u64,
        filter: &ClaimFilter,
    ) -> Result<Option<Session>, StoreError>;

    /// Makes workers of this version skip a session that they cannot read.
    fn mark_unreadable(&mut self, id: SessionId) -> Result<(), StoreError>;

    /// The position of the last stored event; 0 for an empty log.
    fn last_seq(&mut self, id: SessionId) -> Result<Seq, StoreError>;

    /// Finds a session, decides and writes. `false` if there is no such session.
    fn update(&mut self, target: UpdateTarget<'_>, decide: &mut DecideFn<'_>) -> Result<bool, SessionError>;

    /// The events after one position and up to another, lowest first.
    fn events(
        &mut self,
        id: SessionId,
        after: Seq,
        through: Seq,
        limit: usize,
    ) -> Result<Vec<SessionEvent>, StoreError>;

    /// The last events of one class up to a position, lowest first: at most `limit`, with at most `bytes` of payload.
    fn tail(
        &mut self,
        id: SessionId,
        part: EventClass,
        through: Seq,
        limit: usize,
        bytes: usize,
    ) -> Result<Vec<SessionEvent>, StoreError>;

    fn memory(&mut self, id: SessionId) -> Result<Vec<MemoryFile>, StoreError>;

    /// The newest learnings of an agent in a repository, newest first.
    fn learnings(
        &mut self,
        repository: Option<&str>,
        agent: &str,
        limit: usize,
    ) -> Result<Vec<StoredLearning>, StoreError>;

    /// What a worker without work needs to know, in one read.
    fn survey(&mut self, horizon_ms: u64) -> Result<StoreSurvey, StoreError>;

    /// How many sessions are due, for any worker.
    fn count_due(&mut self, horizon_ms: u64) -> Result<u64, StoreError>;

    /// The sessions whose id starts or ends with a text, lowest first.
    fn find_ids(&mut self, part: &str, limit: usize) -> Result<Vec<SessionId>, StoreError>;

    /// Removes a session that no worker holds and whose log ends at `head`, with everything that belongs to it. `false` if
    /// there is none.
    fn remove(&mut self, id: SessionId, head: Seq) -> Result<bool, StoreError>;

    /// Stores an object of a session that exists, or replaces the one with the same name. `false` if there is no such
    /// session.
    fn put_object(&mut self, id: SessionId, object: &StoredObject) -> Result<bool, StoreError>;

    fn object(&mut self, id: SessionId, name: &str) -> Result<Option<StoredObject>, StoreError>;

    /// The names and digests of a session's objects, by name.
    fn objects(&mut self, id: SessionId) -> Result<Vec<(String, Sha256Digest)>, StoreError>;

    fn remove_object(&mut self, id: SessionId, name: &str) -> Result<(), StoreError>;

    /// Adds a session with its whole log in one step. `false` if the id is taken. An error of the iterator undoes
    /// everything.
    fn import(
        &mut self,
        header: &SessionHeader,
        events: &mut dyn Iterator<Item = Result<SessionEvent, SessionError>>,
        finish: &mut dyn FnMut() -> Result<SessionChange, SessionError>,
    ) -> Result<bool, SessionError>;

    /// Stores what a worker reports about itself, and forgets the workers that were last seen before a time. Nobody who waits
    /// is notified.
    fn put_worker(&mut self, worker: &StoredWorker, forgotten: Timestamp) -> Result<(), StoreError>;

    fn remove_worker(&mut self, name: &str) -> Result<(), StoreError>;

    /// The workers, those last seen first.
    fn workers(&mut self, limit: usize) -> Result<Vec<StoredWorker>, StoreError>;

    /// Waits for something to happen. Returns whether it may have happened since the last call; `false` after the timeout. It
    /// may also return early.
    fn wait(&mut self, what: WaitFor, timeout: Duration) -> Result<bool, StoreError>;
}
