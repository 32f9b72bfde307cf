//! The calls of workers: claim, renew, report, commit. Every write of a running wake carries the fencing token of its lease;
//! `decide/lease.rs` has the fence that checks it.

use crate::api::sessions::{PAGE_LIMIT, Sessions};
use crate::decide::children::{self, ChildEffects};
use crate::decide::claim::{self, ClaimReason, ClaimResult};
use crate::decide::commit::{self, CommitPlace, WakeCommit, WakeEnding};
use crate::decide::lease::{Lease, LeaseHolder, LeaseTerms, fence};
use crate::log::event::RunReport;
use crate::log::header::SessionHeader;
use crate::log::id::{EventId, SessionId};
use crate::log::learning::StoredLearning;
use crate::log::memory::MemoryWrite;
use crate::log::state::{SessionState, is_over};
use crate::log::time::{TimeSeed, Timestamp};
use crate::store::{
    ClaimFilter, Session, SessionChange, SessionError, StoredWorker, UpdateTarget, WorkerDescription,
};

/// Which session to claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimTarget<'a> {
    /// The first one that is due.
    Due,
    /// The first one that is due and that the filter accepts.
    Matching(&'a ClaimFilter),
    /// This one, if it is due.
    DueSession(SessionId),
    /// This one, due or not.
    Session(SessionId),
}

/// A wake that started, and the session at that time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedWake {
    pub lease: Lease,
    pub session: Session,
}

/// The result of a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renewal {
    pub until_ms: Timestamp,
    /// A user interrupted the session: stop the run, then commit `Interrupted`.
    pub interrupted: bool,
}

/// How long a silent worker stays listed. A worker in a long wake is silent too; its lease shows that it is alive.
const REMEMBERED_MS: i64 = 3_600_000;

/// How much of a worker's description is stored.
const MAX_DESCRIBED: usize = 50;
const MAX_DESCRIBED_BYTES: usize = 200;

impl Sessions {
    /// Stores a worker's description of itself, and removes workers that have been silent for long. It sends no
    /// notification.
    pub fn report_worker(&mut self, worker: &StoredWorker) -> Result<(), SessionError> {
        let forget_before = Timestamp(worker.seen_ms.0.saturating_sub(REMEMBERED_MS));
        let worker = StoredWorker { description: shortened(&worker.description), ..worker.clone() };
        Ok(self.store.put_worker(&worker, forget_before)?)
    }

    /// Removes a worker that ends.
    pub fn remove_worker(&mut self, name: &str) -> Result<(), SessionError> {
        Ok(self.store.remove_worker(name)?)
    }

    /// The workers that wait for due sessions, most recently seen first: at most one page.
    pub fn workers(&mut self) -> Result<Vec<StoredWorker>, SessionError> {
        Ok(self.store.workers(PAGE_LIMIT)?)
    }

    /// Claims a session, or returns `None` if none is due. The lease and the start of the wake are one write.
    pub fn claim(
        &mut self,
        pick: ClaimTarget<'_>,
        worker: &LeaseTerms,
        seed: &mut TimeSeed,
    ) -> Result<Option<ClaimedWake>, SessionError> {
        // Giving up a lost wake starts nothing, so the next session is tried, at most 1,000 times.
        for _ in 0..1_000 {
            let (claimed, again) = self.claim_once(pick, worker, seed)?;
            if claimed.is_some() || !again {
                return Ok(claimed);
            }
        }
        Ok(None)
    }

    fn claim_once(
        &mut self,
        pick: ClaimTarget<'_>,
        worker: &LeaseTerms,
        seed: &mut TimeSeed,
    ) -> Result<(Option<ClaimedWake>, bool), SessionError> {
        let limits = &self.limits;
        let now = seed.now;
        let horizon_ms = limits.horizon_ms();
        let any = ClaimFilter::default();
        let (target, reason) = match pick {
            ClaimTarget::Due => (UpdateTarget::Due { now, horizon_ms, filter: &any }, ClaimReason::Due),
            ClaimTarget::Matching(filter) => {
                (UpdateTarget::Due { now, horizon_ms, filter }, ClaimReason::Due)
            }
            ClaimTarget::DueSession(id) => (UpdateTarget::Session { id, events: &[] }, ClaimReason::Due),
            ClaimTarget::Session(id) => (UpdateTarget::Session { id, events: &[] }, ClaimReason::Requested),
        };
        let until_ms = now.plus_ms(worker.lease_ms.min(limits.lease_ms));
        let mut started = None;
        let found = self.store.update(target, &mut |found| {
            let session = &found.session;
            let held = session.holder.as_ref().map(|holder| holder.until_ms);
            let held = held.filter(|until| !is_over(*until, now, horizon_ms));
            let (drafted, result) = claim::claim(&session.state, reason, held, limits, seed)?;
            let holder = LeaseHolder { owner: worker.owner.clone(), until_ms };
            let holder = (result == ClaimResult::Started).then_some(holder);
            started = holder.clone().and_then(|holder| claimed(&session.header, &drafted.state, holder));
            let change = SessionChange::from_draft(drafted, holder);
            Ok(change.map(|change| change.with_result(session, limits)))
        })?;
        match pick {
            ClaimTarget::Session(id) | ClaimTarget::DueSession(id) if !found => {
                Err(SessionError::NoSession(id))
            }
            ClaimTarget::Session(_) | ClaimTarget::DueSession(_) => Ok((started, false)),
            ClaimTarget::Due | ClaimTarget::Matching(_) => Ok((started, found)),
        }
    }

    /// The first due session that the filter accepts, without claiming it.
    pub fn find_due(
        &mut self,
        filter: &ClaimFilter,
        now: Timestamp,
    ) -> Result<Option<Session>, SessionError> {
        Ok(self.store.find_due(now, self.limits.horizon_ms(), filter)?)
    }

    /// Makes workers of this version skip a damaged session.
    pub fn mark_unreadable(&mut self, id: SessionId) -> Result<(), SessionError> {
        Ok(self.store.mark_unreadable(id)?)
    }

    /// Extends a lease, and returns whether the run should stop.
    pub fn renew(
        &mut self,
        lease: &Lease,
        worker: &LeaseTerms,
        now: Timestamp,
    ) -> Result<Renewal, SessionError> {
        let until_ms = now.plus_ms(worker.lease_ms.min(self.limits.lease_ms));
        let mut interrupted = false;
        self.update(lease.session, &[], |found, _| {
            let state = &found.session.state;
            fence(state, lease.token)?;
            interrupted = !state.interrupts.is_empty();
            let holder = Some(LeaseHolder { owner: worker.owner.clone(), until_ms });
            Ok(Some(SessionChange::of(state.clone(), holder)))
        })?;
        Ok(Renewal { until_ms, interrupted })
    }

    /// Whether the run should stop. It extends nothing and is cheap enough to call many times a second.
    pub fn is_interrupted(&mut self, lease: &Lease) -> Result<bool, SessionError> {
        let state = self.session(lease.session)?.state;
        fence(&state, lease.token)?;
        Ok(!state.interrupts.is_empty())
    }

    /// Stores what a run reports before it ends: its id, and the tool calls that it starts and finishes. It can be repeated.
    pub fn report(
        &mut self,
        lease: &Lease,
        reports: &[RunReport],
        seed: &mut TimeSeed,
    ) -> Result<SessionState, SessionError> {
        let ids: Vec<EventId> = reports.iter().map(|report| report.id).collect();
        let mut state = SessionState::default();
        self.update(lease.session, &ids, |found, limits| {
            let session = &found.session;
            let drafted =
                commit::progress(&session.state, lease.token, &found.events, reports, limits, seed)?;
            state = drafted.state.clone();
            Ok(SessionChange::from_draft(drafted, session.holder.clone()))
        })?;
        Ok(state)
    }

    /// Ends a wake: writes all its effects in one step, or nothing if the lease was lost. It can be repeated: a commit that is
    /// already stored is not written again, and is not refused.
    pub fn commit(
        &mut self,
        lease: &Lease,
        commit: &WakeCommit,
        seed: &mut TimeSeed,
    ) -> Result<SessionState, SessionError> {
        let mut state = SessionState::default();
        let id = commit_id(lease);
        let ids: Vec<EventId> =
            std::iter::once(id).chain(commit.reports.iter().map(|report| report.id)).collect();
        self.update(lease.session, &ids, |found, limits| {
            if found.events.iter().any(|event| event.id == id) {
                state = found.session.state.clone();
                return Ok(None);
            }
            let now = seed.now;
            let place = CommitPlace { token: lease.token, id, known: &found.events };
            let header = &found.session.header;
            let drafted = commit::finish(header, &found.session.state, &place, commit, limits, seed)?;
            let spawned = match &commit.ending {
                WakeEnding::Directive(directive) => {
                    children::spawned(header, &drafted.events, &directive.spawn, limits, seed)?
                }
                _ => Vec::new(),
            };
            state = drafted.state.clone();
            let memory = commit.memory.iter().map(|MemoryWrite { file, .. }| file.clone()).collect();
            let learnings = learnings(commit, lease.session, now);
            let learnings_kept = limits.learnings_per_agent;
            Ok(Some(SessionChange {
                state: drafted.state,
                holder: None,
                events: drafted.events,
                memory,
                deleted_memory: commit.deleted_memory.clone(),
                learnings,
                learnings_kept,
                children: ChildEffects { spawned, result: None },
            }))
        })?;
        Ok(state)
    }
}

fn shortened(description: &WorkerDescription) -> WorkerDescription {
    let WorkerDescription { host, repositories, agent, labels, concurrency } = description;
    let text = |text: &String| text[..text.floor_char_boundary(MAX_DESCRIBED_BYTES)].to_owned();
    let list = |list: &[String]| list.iter().take(MAX_DESCRIBED).map(text).collect();
    WorkerDescription {
        host: text(host),
        repositories: list(repositories),
        agent: agent.as_ref().map(text),
        labels: list(labels),
        concurrency: *concurrency,
    }
}

/// The id of the event that ends an attempt. A token belongs to one attempt, and an attempt ends once.
fn commit_id(lease: &Lease) -> EventId {
    EventId::from_key(lease.session, &format!("commit of wake {} with token {}", lease.wake, lease.token))
}

fn claimed(header: &SessionHeader, state: &SessionState, holder: LeaseHolder) -> Option<ClaimedWake> {
    let wake = state.running()?;
    let lease = Lease { session: header.id, wake: wake.id, token: wake.token, until_ms: holder.until_ms };
    Some(ClaimedWake {
        lease,
        session: Session { header: header.clone(), state: state.clone(), holder: Some(holder) },
    })
}

fn learnings(commit: &WakeCommit, session_id: SessionId, time_ms: Timestamp) -> Vec<StoredLearning> {
    let WakeEnding::Directive(directive) = &commit.ending else { return Vec::new() };
    let stored = |learning| StoredLearning { session_id, time_ms, learning };
    directive.learnings.iter().cloned().map(stored).collect()
}
