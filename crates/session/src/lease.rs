//! The calls of those who run sessions: claim, renew, report, commit. A lease is the right to write about one wake; every
//! write carries its token, and a higher token anywhere makes it worthless.

use crate::claim::{self, Ask, Begun};
use crate::commit::{self, Commit, Ending};
use crate::event::Payload;
use crate::header::Header;
use crate::id::{SessionId, WakeId};
use crate::learning::StoredLearning;
use crate::memory::MemoryWrite;
use crate::moment::{Moment, Timestamp};
use crate::sessions::Sessions;
use crate::state::{State, is_over};
use crate::store::{Change, Error, Hold, Session, Target};

/// The right to run a session's wake and to say how it ended, for as long as nobody else has been given it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub session: SessionId,
    /// The same over all attempts of one wake: a key for effects that must not happen twice.
    pub wake: WakeId,
    /// Higher than any before. Every write of the wake carries it, and is refused once a higher one exists.
    pub token: u64,
    pub until_ms: Timestamp,
}

/// A worker, by a name that no other process start has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    pub owner: String,
    /// How long a lease lasts unless it is renewed.
    pub lease_ms: u64,
}

/// Which session a worker wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// The first that is due.
    Due,
    /// This one, due or not.
    Session(SessionId),
}

/// A wake that began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    pub lease: Lease,
    pub session: Session,
}

/// What a worker learns when it renews.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renewal {
    pub until_ms: Timestamp,
    /// Somebody asked for the run to stop: end it, then commit `Interrupted`.
    pub interrupted: bool,
}

impl Sessions {
    /// Takes a session to run, or says that there is none. The lease and the start of the wake are one write.
    pub fn claim(
        &mut self,
        pick: Pick,
        worker: &Worker,
        moment: &mut Moment,
    ) -> Result<Option<Claimed>, Error> {
        // A lost wake that is given up here leaves its place to the next session; the bound is for safety only.
        for _ in 0..1_000 {
            let (claimed, again) = self.claim_once(pick, worker, moment)?;
            if claimed.is_some() || !again {
                return Ok(claimed);
            }
        }
        Ok(None)
    }

    fn claim_once(
        &mut self,
        pick: Pick,
        worker: &Worker,
        moment: &mut Moment,
    ) -> Result<(Option<Claimed>, bool), Error> {
        let limits = &self.limits;
        let (now, horizon_ms) = (moment.now, limits.horizon_ms());
        let (target, ask) = match pick {
            Pick::Due => (Target::Due { now, horizon_ms }, Ask::Due),
            Pick::Session(id) => (Target::Session { id, events: &[] }, Ask::Now),
        };
        let until_ms = now.plus_ms(worker.lease_ms.min(limits.lease_ms));
        let mut result = None;
        let found = self.store.update(target, &mut |found| {
            let session = &found.session;
            let held = session.hold.as_ref().map(|hold| hold.until_ms);
            let held = held.filter(|until| !is_over(*until, now, horizon_ms));
            let (drafted, begun) = claim::begin(&session.state, ask, held, limits, moment)?;
            let hold = Hold { owner: worker.owner.clone(), until_ms };
            let hold = (begun == Begun::Wake).then_some(hold);
            result = hold.clone().and_then(|hold| claimed(&session.header, &drafted.state, hold));
            Ok(drafted.into_change(hold))
        })?;
        match pick {
            Pick::Session(id) if !found => Err(Error::NoSession(id)),
            Pick::Session(_) => Ok((result, false)),
            Pick::Due => Ok((result, found)),
        }
    }

    /// Prolongs a lease, and says whether the run should stop.
    pub fn renew(&mut self, lease: &Lease, worker: &Worker, now: Timestamp) -> Result<Renewal, Error> {
        let until_ms = now.plus_ms(worker.lease_ms.min(self.limits.lease_ms));
        let mut interrupted = false;
        self.update(lease.session, &[], |found, _| {
            let state = &found.session.state;
            commit::held_wake(state, lease.token)?;
            interrupted = !state.interrupts.is_empty();
            let hold = Some(Hold { owner: worker.owner.clone(), until_ms });
            Ok(Some(Change::of(state.clone(), hold)))
        })?;
        Ok(Renewal { until_ms, interrupted })
    }

    /// Whether the run should stop, without prolonging anything: cheap enough to ask many times a second.
    pub fn is_interrupted(&mut self, lease: &Lease) -> Result<bool, Error> {
        let state = self.session(lease.session)?.state;
        commit::held_wake(&state, lease.token)?;
        Ok(!state.interrupts.is_empty())
    }

    /// Stores what a run reports before it ends: which run it is, and the tool calls it is about to make or has made.
    pub fn report(
        &mut self,
        lease: &Lease,
        reports: &[Payload],
        moment: &mut Moment,
    ) -> Result<State, Error> {
        self.write(lease.session, |found, limits| {
            let drafted = commit::progress(&found.session.state, lease.token, reports, limits, moment)?;
            Ok((drafted, found.session.hold.clone()))
        })
    }

    /// Ends a wake: everything it means in one write, or nothing if the lease was lost.
    pub fn commit(&mut self, lease: &Lease, commit: &Commit, moment: &mut Moment) -> Result<State, Error> {
        let mut state = State::default();
        self.update(lease.session, &[], |found, limits| {
            let now = moment.now;
            let drafted = commit::finish(&found.session.state, lease.token, commit, limits, moment)?;
            state = drafted.state.clone();
            let memory = commit.memory.iter().map(|MemoryWrite { file, .. }| file.clone()).collect();
            let learnings = learnings(commit, lease.session, now);
            let learnings_kept = limits.learnings_per_agent;
            let (state, events) = (drafted.state, drafted.events);
            Ok(Some(Change { state, hold: None, events, memory, learnings, learnings_kept }))
        })?;
        Ok(state)
    }
}

fn claimed(header: &Header, state: &State, hold: Hold) -> Option<Claimed> {
    let wake = state.running()?;
    let lease = Lease { session: header.id, wake: wake.id, token: wake.token, until_ms: hold.until_ms };
    Some(Claimed {
        lease,
        session: Session { header: header.clone(), state: state.clone(), hold: Some(hold) },
    })
}

fn learnings(commit: &Commit, session_id: SessionId, time_ms: Timestamp) -> Vec<StoredLearning> {
    let Ending::Directive(directive) = &commit.ending else { return Vec::new() };
    let stored = |learning| StoredLearning { session_id, time_ms, learning };
    directive.learnings.iter().cloned().map(stored).collect()
}
