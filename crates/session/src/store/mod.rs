//! What a store must do, and no more: find a session, let a pure decision be made about it, and write what was decided
//! in one atomic and durable step. Everything that has a meaning happens in the decision; a store has none.

mod error;
pub mod postgres;
mod rows;
pub mod sqlite;

use std::time::Duration;

pub use self::error::{Error, StoreError};
use crate::event::Event;
use crate::header::Header;
use crate::id::{EventId, SessionId};
use crate::learning::StoredLearning;
use crate::memory::MemoryFile;
use crate::moment::Timestamp;
use crate::refusal::Refusal;
use crate::sequence::Seq;
use crate::state::{Due, State};

/// One session as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    pub header: Header,
    pub state: State,
    pub hold: Option<Hold>,
}

/// Who holds a running session, and until when. It is no event: it lapses by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    pub owner: String,
    pub until_ms: Timestamp,
}

impl Session {
    /// When a worker should look at it: a held one when the hold ends.
    #[must_use]
    pub fn due(&self) -> Due {
        due(&self.state, self.hold.as_ref())
    }
}

pub(crate) fn due(state: &State, hold: Option<&Hold>) -> Due {
    match hold {
        Some(hold) => Due { again: Some(hold.until_ms), ..Due::default() },
        // It was running somewhere else when it was exported: nobody holds it here.
        None if state.running().is_some() => Due { again: Some(Timestamp(0)), ..Due::default() },
        None => state.due(),
    }
}

/// Which session to decide about.
#[derive(Debug, Clone, Copy)]
pub enum Target<'a> {
    /// This one; with it, those of the named events that it has already.
    Session { id: SessionId, events: &'a [EventId] },
    /// The first that is due, by lane and then by time, and that nobody else is deciding about.
    Due { now: Timestamp, horizon_ms: u64 },
}

/// What a decision is made about.
#[derive(Debug, Clone)]
pub struct Found {
    pub session: Session,
    pub events: Vec<Event>,
}

/// What was decided. The events follow the session's last one.
#[derive(Debug, Clone)]
pub struct Change {
    pub state: State,
    pub hold: Option<Hold>,
    pub events: Vec<Event>,
    pub memory: Vec<MemoryFile>,
    pub learnings: Vec<StoredLearning>,
    /// How many learnings of the agent are kept, newest first.
    pub learnings_kept: usize,
}

impl Change {
    pub(crate) fn of(state: State, hold: Option<Hold>) -> Self {
        let (events, memory, learnings) = (Vec::new(), Vec::new(), Vec::new());
        Self { state, hold, events, memory, learnings, learnings_kept: 0 }
    }
}

/// Decides about one session. It may be called again when somebody else was faster, and nothing of it is kept then.
/// `None` means that there is nothing to write.
pub type Decide<'a> = dyn FnMut(&Found) -> Result<Option<Change>, Refusal> + 'a;

/// Which part of a log's end to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Conversation,
    /// How the work went.
    Work,
}

/// A connection to a store. Each thread has its own.
pub trait Store: Send {
    /// The store's own clock, for callers on several machines to agree on.
    fn now(&mut self) -> Result<Timestamp, StoreError>;

    /// Adds an empty session. `false` if the id is taken.
    fn create(&mut self, header: &Header) -> Result<bool, StoreError>;

    fn load(&mut self, id: SessionId) -> Result<Option<Session>, StoreError>;

    /// Sessions with a higher id, lowest first, of one agent or of all.
    fn list(
        &mut self,
        agent: Option<&str>,
        after: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<Session>, StoreError>;

    /// Finds, decides and writes. `false` if there is no such session.
    fn update(&mut self, target: Target<'_>, decide: &mut Decide<'_>) -> Result<bool, Error>;

    /// The events after one place and up to another, lowest first.
    fn events(
        &mut self,
        id: SessionId,
        after: Seq,
        through: Seq,
        limit: usize,
    ) -> Result<Vec<Event>, StoreError>;

    /// The last events of one kind up to a place, lowest first: at most `limit`, and only while their payloads
    /// fit into `bytes`.
    fn tail(
        &mut self,
        id: SessionId,
        part: Part,
        through: Seq,
        limit: usize,
        bytes: usize,
    ) -> Result<Vec<Event>, StoreError>;

    fn memory(&mut self, id: SessionId) -> Result<Vec<MemoryFile>, StoreError>;

    /// The newest learnings of an agent, newest first.
    fn learnings(&mut self, agent: &str, limit: usize) -> Result<Vec<StoredLearning>, StoreError>;

    /// When the next session comes due that is not due yet: how long a worker may sleep.
    fn next_due(&mut self, now: Timestamp) -> Result<Option<Timestamp>, StoreError>;

    /// Adds a session with its whole log in one step, or nothing. `false` if the id is taken. The events are
    /// taken one by one; an error among them undoes everything.
    fn import(
        &mut self,
        header: &Header,
        events: &mut dyn Iterator<Item = Result<Event, Error>>,
        finish: &mut dyn FnMut() -> Result<Change, Error>,
    ) -> Result<bool, Error>;

    /// Returns when somebody else has changed something since the last call, or after the timeout. It may also return
    /// for no reason; it never misses a change.
    fn wait(&mut self, timeout: Duration) -> Result<(), StoreError>;
}
