//! The calls of those who use sessions: create, append, read, follow, end. Each makes one pure decision over one session
//! and has the store write it in one step. They are shaped for a remote API too: reads go by cursor, writes
//! carry their own keys and may be repeated, a stream resumes where it stopped.

use std::time::Duration;

use crate::control;
use crate::draft::Drafted;
use crate::event::{Event, QueuedWake};
use crate::header::Header;
use crate::id::{EventId, SessionId};
use crate::ingress::{self, Input};
use crate::learning::StoredLearning;
use crate::limits::Limits;
use crate::memory::MemoryFile;
use crate::moment::{Moment, Timestamp};
use crate::refusal::Refusal;
use crate::sequence::Seq;
use crate::state::State;
use crate::store::{Change, Error, Found, Hold, Session, Store, StoreError, Target};

/// The longest page of a read.
pub const PAGE_LIMIT: usize = 1_000;

/// The sessions of one store, over one connection.
pub struct Sessions {
    pub(crate) store: Box<dyn Store>,
    pub(crate) limits: Limits,
}

impl Sessions {
    #[must_use]
    pub fn new(store: Box<dyn Store>, limits: Limits) -> Self {
        Self { store, limits }
    }

    /// The store's clock, for callers that need a time to pass in.
    pub fn now(&mut self) -> Result<Timestamp, Error> {
        Ok(self.store.now()?)
    }

    /// Adds a session. The same header again is the same session.
    pub fn create(&mut self, header: &Header) -> Result<Session, Error> {
        header.check(&self.limits)?;
        self.store.create(header)?;
        let session = self.session(header.id)?;
        if session.header != *header {
            return Err(Refusal::Field { what: "id", why: "another session has it" }.into());
        }
        Ok(session)
    }

    pub fn session(&mut self, id: SessionId) -> Result<Session, Error> {
        self.store.load(id)?.ok_or(Error::NoSession(id))
    }

    /// One page of sessions, by id; the last id is the cursor of the next page.
    pub fn list(
        &mut self,
        agent: Option<&str>,
        after: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<Session>, Error> {
        Ok(self.store.list(agent, after, limit.min(PAGE_LIMIT))?)
    }

    /// One page of a log; the last sequence number is the cursor of the next page.
    pub fn events(&mut self, id: SessionId, after: Seq, limit: usize) -> Result<Vec<Event>, Error> {
        let events = self.store.events(id, after, Seq(u64::MAX), limit.min(PAGE_LIMIT))?;
        if events.is_empty() {
            self.session(id)?;
        }
        Ok(events)
    }

    /// The page after the cursor, as soon as there is one; empty after the timeout. Nothing is skipped and nothing comes
    /// twice, so a reader resumes with the last number that it has seen.
    pub fn follow(
        &mut self,
        id: SessionId,
        after: Seq,
        limit: usize,
        timeout: Duration,
    ) -> Result<Vec<Event>, Error> {
        let start = std::time::Instant::now();
        loop {
            let events = self.events(id, after, limit)?;
            let left = timeout.saturating_sub(start.elapsed());
            if !events.is_empty() || left.is_zero() {
                return Ok(events);
            }
            self.store.wait(left)?;
        }
    }

    /// Returns when something may have changed in the store, or after the timeout.
    pub fn wait(&mut self, timeout: Duration) -> Result<(), Error> {
        Ok(self.store.wait(timeout)?)
    }

    /// When a session comes due that is not due yet.
    pub fn next_due(&mut self, now: Timestamp) -> Result<Option<Timestamp>, Error> {
        Ok(self.store.next_due(now)?)
    }

    pub fn memory(&mut self, id: SessionId) -> Result<Vec<MemoryFile>, Error> {
        Ok(self.still(id)?.1)
    }

    /// A session together with the memory of the same instant: no commit lies between the reads.
    pub(crate) fn still(&mut self, id: SessionId) -> Result<(Session, Vec<MemoryFile>), Error> {
        let mut before = self.session(id)?;
        for _ in 0..100 {
            let memory = self.store.memory(id)?;
            let after = self.session(id)?;
            if after.state.head == before.state.head {
                check_memory(&after, &memory)?;
                return Ok((after, memory));
            }
            before = after;
        }
        Err(StoreError::Busy { step: "read a session that does not change" }.into())
    }

    /// The newest learnings of an agent, newest first.
    pub fn learnings(&mut self, agent: &str, limit: usize) -> Result<Vec<StoredLearning>, Error> {
        Ok(self.store.learnings(agent, limit.min(PAGE_LIMIT))?)
    }

    /// Adds events from outside, all or none, in one durable commit. Gives the place of each; one that is there
    /// already keeps the place it has.
    pub fn append(
        &mut self,
        id: SessionId,
        inputs: &[Input],
        moment: &mut Moment,
    ) -> Result<Vec<Seq>, Error> {
        let (count, limit) = (inputs.len(), self.limits.events_per_append);
        if count > limit {
            return Err(Refusal::TooMany { what: "events in one append", count, limit }.into());
        }
        let ids: Vec<EventId> = inputs.iter().map(|input| input.id).collect();
        let mut places = Vec::new();
        self.update(id, &ids, |found, limits| {
            let (drafted, all_places) = ingress::append(found, inputs, limits, moment)?;
            places = all_places;
            Ok(drafted.into_change(found.session.hold.clone()))
        })?;
        Ok(places)
    }

    /// Queues a wake. One whose id or key is queued already is that one.
    pub fn queue_wake(
        &mut self,
        id: SessionId,
        wake: &QueuedWake,
        moment: &mut Moment,
    ) -> Result<State, Error> {
        self.write(id, |found, limits| {
            Ok((control::queue_wake(&found.session.state, wake, limits, moment)?, found.session.hold.clone()))
        })
    }

    /// Ends a session for good. Whoever runs it notices at its next renewal or commit.
    pub fn terminate(&mut self, id: SessionId, reason: &str, moment: &mut Moment) -> Result<State, Error> {
        self.write(id, |found, _| Ok((control::terminate(&found.session.state, reason, moment)?, None)))
    }

    /// Writes a draft, if there is anything in it, and gives the state after it.
    pub(crate) fn write(
        &mut self,
        id: SessionId,
        mut decide: impl FnMut(&Found, &Limits) -> Result<(Drafted, Option<Hold>), Refusal>,
    ) -> Result<State, Error> {
        let mut state = State::default();
        self.update(id, &[], |found, limits| {
            let (drafted, hold) = decide(found, limits)?;
            state = drafted.state.clone();
            Ok(drafted.into_change(hold))
        })?;
        Ok(state)
    }

    pub(crate) fn update(
        &mut self,
        id: SessionId,
        events: &[EventId],
        mut decide: impl FnMut(&Found, &Limits) -> Result<Option<Change>, Refusal>,
    ) -> Result<(), Error> {
        let limits = &self.limits;
        let found = self.store.update(Target::Session { id, events }, &mut |found| decide(found, limits))?;
        if found { Ok(()) } else { Err(Error::NoSession(id)) }
    }
}

/// The log knows the digest of every memory file.
pub(crate) fn check_memory(session: &Session, memory: &[MemoryFile]) -> Result<(), StoreError> {
    if memory.iter().map(MemoryFile::digest).eq(session.state.memory.clone()) {
        return Ok(());
    }
    let what = "its memory files are not those of its log".to_owned();
    Err(StoreError::Corrupt { session: Some(session.header.id), what })
}
