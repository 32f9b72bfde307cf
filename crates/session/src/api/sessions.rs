//! The calls of users: create, append, read, follow, terminate. Each makes one pure decision about one session, and the store
//! writes it in one step. They suit a remote API: reads use a cursor, writes have keys and can be repeated, a stream
//! resumes where it stopped.

use std::time::Duration;

use crate::api::object_store::SharedObjects;
use crate::decide::control::{self, DeadLetterAction};
use crate::decide::draft::FinishedDraft;
use crate::decide::header::check_header;
use crate::decide::ingress::{self, SessionInput};
use crate::decide::lease::LeaseHolder;
use crate::decide::limits::SessionLimits;
use crate::decide::refusal::SessionRefusal;
use crate::log::digest::Sha256Digest;
use crate::log::event::{ACTOR_EVENT_VERSION, QueuedWake, SessionEvent};
use crate::log::header::{SessionEnvironment, SessionHeader};
use crate::log::id::{EventId, SessionId};
use crate::log::learning::StoredLearning;
use crate::log::memory::MemoryFile;
use crate::log::seq::{Seq, SeqSet};
use crate::log::state::SessionState;
use crate::log::status::SessionStatus;
use crate::log::time::{TimeSeed, Timestamp};
use crate::store::{
    FoundSession, ListFilter, ListedSession, Session, SessionChange, SessionError, Store, StoreError,
    StoreSurvey, UpdateTarget, WaitFor,
};

/// The longest page of a read.
pub const PAGE_LIMIT: usize = 1_000;

/// Which sessions may be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoveTerms {
    Terminated,
    /// Sessions with pending work as well.
    Any,
}

/// The sessions of one store, over one connection.
pub struct Sessions {
    pub(crate) store: Box<dyn Store>,
    pub(crate) limits: SessionLimits,
    /// The object store that all workers share, if the contents of objects are kept in one.
    pub(crate) objects: Option<SharedObjects>,
    actor: Option<String>,
}

impl Sessions {
    #[must_use]
    pub fn new(store: Box<dyn Store>, limits: SessionLimits) -> Self {
        Self { store, limits, objects: None, actor: None }
    }

    /// Sets the person whom the events of the next calls name; `None` names nobody.
    pub fn set_actor(&mut self, actor: Option<String>) {
        self.actor = actor;
    }

    /// The time of the store's clock.
    pub fn now(&mut self) -> Result<Timestamp, SessionError> {
        Ok(self.store.now()?)
    }

    /// Creates a session. Creating it again with the same header returns the same session.
    pub fn create(&mut self, header: &SessionHeader) -> Result<Session, SessionError> {
        check_header(header, &self.limits)?;
        self.store.create(header)?;
        let session = self.session(header.id)?;
        if session.header != *header {
            return Err(SessionRefusal::Field { what: "id", why: "another session has this id" }.into());
        }
        Ok(session)
    }

    pub fn session(&mut self, id: SessionId) -> Result<Session, SessionError> {
        self.store.load(id)?.ok_or(SessionError::NoSession(id))
    }

    /// One page of sessions, by id; the last id is the cursor of the next page.
    pub fn list(
        &mut self,
        agent: Option<&str>,
        after: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<ListedSession>, SessionError> {
        self.list_filtered(&ListFilter { agent, ..ListFilter::default() }, after, limit)
    }

    /// One page of the sessions that a filter accepts, by id. It reads no others.
    pub fn list_filtered(
        &mut self,
        filter: &ListFilter<'_>,
        after: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<ListedSession>, SessionError> {
        Ok(self.store.list(filter, after, limit.min(PAGE_LIMIT))?)
    }

    /// One page of a log; the last sequence number is the cursor of the next page.
    pub fn events(
        &mut self,
        id: SessionId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<SessionEvent>, SessionError> {
        let limit = limit.min(PAGE_LIMIT);
        // The head is read first, so that an append between the two reads does not look like damage.
        let head = self.session(id)?.state.head;
        let events = self.store.events(id, after, Seq(u64::MAX), limit)?;
        check_complete(id, after, head, limit, &events)?;
        Ok(events)
    }

    /// The page after the cursor, as soon as there is one; empty after the timeout. A reader that resumes after the last
    /// number that it saw gets every event once.
    pub fn follow(
        &mut self,
        id: SessionId,
        after: Seq,
        limit: usize,
        timeout: Duration,
    ) -> Result<Vec<SessionEvent>, SessionError> {
        let start = std::time::Instant::now();
        loop {
            let events = self.events(id, after, limit)?;
            let left = timeout.saturating_sub(start.elapsed());
            if !events.is_empty() || left.is_zero() {
                return Ok(events);
            }
            self.store.wait(WaitFor::Events, left)?;
        }
    }

    /// Waits for something to happen. Returns whether it may have happened; `false` after the timeout.
    pub fn wait(&mut self, what: WaitFor, timeout: Duration) -> Result<bool, SessionError> {
        Ok(self.store.wait(what, timeout)?)
    }

    /// What a worker without work needs to know, in one read.
    pub fn survey(&mut self) -> Result<StoreSurvey, SessionError> {
        Ok(self.store.survey(self.limits.horizon_ms())?)
    }

    /// How many sessions wait for a worker.
    pub fn count_due(&mut self) -> Result<u64, SessionError> {
        Ok(self.store.count_due(self.limits.horizon_ms())?)
    }

    /// The sessions whose id starts or ends with a text. At most `limit`.
    pub fn find_ids(&mut self, part: &str, limit: usize) -> Result<Vec<SessionId>, SessionError> {
        Ok(self.store.find_ids(&part.to_ascii_lowercase(), limit)?)
    }

    /// Removes a session for good. Only a terminated one, unless `any` is set; never one that a worker holds.
    pub fn remove(&mut self, id: SessionId, terms: RemoveTerms) -> Result<(), SessionError> {
        let Session { state, holder, .. } = self.session(id)?;
        if let Some(holder) = holder {
            return Err(SessionRefusal::Leased { until_ms: holder.until_ms }.into());
        }
        if terms == RemoveTerms::Terminated && state.status != SessionStatus::Terminated {
            let why = "only a terminated session can be removed; terminate it first";
            return Err(SessionRefusal::Field { what: "status", why }.into());
        }
        let objects = self.store.objects(id)?;
        if self.store.remove(id, state.head)? {
            let known: Vec<Sha256Digest> = objects.into_iter().map(|(_, digest)| digest).collect();
            self.remove_contents(id, &known);
            return Ok(());
        }
        let why = "the session changed meanwhile";
        Err(SessionRefusal::Field { what: "head", why }.into())
    }

    pub fn memory(&mut self, id: SessionId) -> Result<Vec<MemoryFile>, SessionError> {
        Ok(self.session_with_memory(id)?.1)
    }

    /// A session with its memory at the same time: no commit happens between the two reads.
    pub(crate) fn session_with_memory(
        &mut self,
        id: SessionId,
    ) -> Result<(Session, Vec<MemoryFile>), SessionError> {
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
        Err(StoreError::Busy { step: "read a session that changes all the time" }.into())
    }

    /// The newest learnings of an agent in a repository, newest first.
    pub fn learnings(
        &mut self,
        repository: Option<&str>,
        agent: &str,
        limit: usize,
    ) -> Result<Vec<StoredLearning>, SessionError> {
        Ok(self.store.learnings(repository, agent, limit.min(PAGE_LIMIT))?)
    }

    /// Appends inputs, all or none, in one durable commit. Returns the sequence number of each; an input that is already
    /// stored keeps its number.
    pub fn append(
        &mut self,
        id: SessionId,
        inputs: &[SessionInput],
        seed: &mut TimeSeed,
    ) -> Result<Vec<Seq>, SessionError> {
        let count = inputs.len();
        let limit = self.limits.events_per_append;
        if count > limit {
            return Err(SessionRefusal::TooMany { what: "events in one append", count, limit }.into());
        }
        let ids: Vec<EventId> = inputs.iter().map(|input| input.id).collect();
        let mut seqs = Vec::new();
        self.update(id, &ids, |found, limits| {
            let (drafted, all) = ingress::append(&found.session.state, &found.events, inputs, limits, seed)?;
            seqs = all;
            Ok(SessionChange::from_draft(drafted, found.session.holder.clone()))
        })?;
        Ok(seqs)
    }

    /// Queues a wake. If its id or key is already queued, nothing changes.
    pub fn queue_wake(
        &mut self,
        id: SessionId,
        wake: &QueuedWake,
        seed: &mut TimeSeed,
    ) -> Result<SessionState, SessionError> {
        self.write(id, |found, limits| {
            Ok((control::queue_wake(&found.session.state, wake, limits, seed)?, found.session.holder.clone()))
        })
    }

    /// Cancels the queued wakes with this id or key.
    pub fn cancel_wakes(
        &mut self,
        id: SessionId,
        key: &str,
        seed: &mut TimeSeed,
    ) -> Result<SessionState, SessionError> {
        self.write(id, |found, _| {
            let drafted = control::cancel_wakes(&found.session.state, key, seed)?;
            Ok((drafted, found.session.holder.clone()))
        })
    }

    /// Moves a session to its environment as it is now. The session must have been created in an environment with this id.
    pub fn accept_environment(
        &mut self,
        id: SessionId,
        environment: &SessionEnvironment,
        seed: &mut TimeSeed,
    ) -> Result<SessionState, SessionError> {
        self.write(id, |found, _| {
            let session = &found.session;
            if session.header.environment.as_ref().is_none_or(|known| known.id != environment.id) {
                let why = "the session was not created in this environment";
                return Err(SessionRefusal::Field { what: "environment", why });
            }
            let drafted = control::accept_environment(&session.state, environment, seed)?;
            Ok((drafted, session.holder.clone()))
        })
    }

    /// Retries or drops dead letters.
    pub fn dead_letters(
        &mut self,
        id: SessionId,
        action: DeadLetterAction,
        inputs: &SeqSet,
        seed: &mut TimeSeed,
    ) -> Result<SessionState, SessionError> {
        self.write(id, |found, _| {
            let drafted = control::dead_letters(&found.session.state, action, inputs, seed)?;
            Ok((drafted, found.session.holder.clone()))
        })
    }

    /// Terminates a session that was exported up to `head`. Refused if it has changed since or a worker runs it.
    pub fn freeze(
        &mut self,
        id: SessionId,
        head: Seq,
        seed: &mut TimeSeed,
    ) -> Result<SessionState, SessionError> {
        self.write(id, |found, _| {
            let state = &found.session.state;
            if let Some(holder) = &found.session.holder {
                return Err(SessionRefusal::Leased { until_ms: holder.until_ms });
            }
            if state.head != head {
                return Err(SessionRefusal::Field {
                    what: "head",
                    why: "the session changed during the export",
                });
            }
            Ok((control::terminate(state, "exported and frozen", seed)?, None))
        })
    }

    /// Terminates a session for good. Its worker notices at the next renewal or commit.
    pub fn terminate(
        &mut self,
        id: SessionId,
        reason: &str,
        seed: &mut TimeSeed,
    ) -> Result<SessionState, SessionError> {
        self.write(id, |found, _| Ok((control::terminate(&found.session.state, reason, seed)?, None)))
    }

    /// Writes a draft, unless it is empty, and returns the new state.
    pub(crate) fn write(
        &mut self,
        id: SessionId,
        mut decide: impl FnMut(
            &FoundSession,
            &SessionLimits,
        ) -> Result<(FinishedDraft, Option<LeaseHolder>), SessionRefusal>,
    ) -> Result<SessionState, SessionError> {
        let mut state = SessionState::default();
        self.update(id, &[], |found, limits| {
            let (drafted, holder) = decide(found, limits)?;
            state = drafted.state.clone();
            Ok(SessionChange::from_draft(drafted, holder))
        })?;
        Ok(state)
    }

    pub(crate) fn update(
        &mut self,
        id: SessionId,
        events: &[EventId],
        mut decide: impl FnMut(&FoundSession, &SessionLimits) -> Result<Option<SessionChange>, SessionRefusal>,
    ) -> Result<(), SessionError> {
        let limits = &self.limits;
        let actor = &self.actor;
        let found = self.store.update(UpdateTarget::Session { id, events }, &mut |found| {
            let mut change = decide(found, limits)?.map(|change| change.with_result(&found.session, limits));
            if let (Some(change), Some(_)) = (&mut change, actor) {
                for event in &mut change.events {
                    event.by.clone_from(actor);
                    event.version = event.version.max(ACTOR_EVENT_VERSION);
                }
            }
            Ok(change)
        })?;
        if found { Ok(()) } else { Err(SessionError::NoSession(id)) }
    }
}

/// Checks that a page holds every event up to its limit or the head of the log.
pub(crate) fn check_complete(
    id: SessionId,
    after: Seq,
    head: Seq,
    limit: usize,
    events: &[SessionEvent],
) -> Result<(), StoreError> {
    let expected = usize::try_from(head.0.saturating_sub(after.0)).unwrap_or(usize::MAX).min(limit);
    if events.len() >= expected {
        return Ok(());
    }
    let missing = after.0 + events.len() as u64 + 1;
    Err(StoreError::Corrupt { session: Some(id), what: format!("event {missing} of {} is missing", head.0) })
}

/// Compares memory files with their digests in the log.
pub(crate) fn check_memory(session: &Session, memory: &[MemoryFile]) -> Result<(), StoreError> {
    if memory.iter().map(MemoryFile::digest).eq(session.state.memory.clone()) {
        return Ok(());
    }
    let what = "its memory files do not match its log".to_owned();
    Err(StoreError::Corrupt { session: Some(session.header.id), what })
}
