//! Orchestration: which due wake runs now, on how many threads, and when to look again. It claims a wake and passes it on.
//! It does not know what a wake means or what a session does next.

mod heartbeat;

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use session::{
    ClaimFilter, ClaimTarget, ClaimedWake, LeaseTerms, Session, SessionError, SessionId, SessionRefusal,
    Sessions, StoreSurvey, TimeSeed, Timestamp, WaitFor, WorkerDescription,
};

use self::heartbeat::Heartbeat;
use crate::cancel::Cancel;

/// When a worker stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkUntil {
    /// After one wake, or at once if none is due.
    Once,
    /// When nothing is due.
    Drained,
    /// When it is cancelled.
    Cancelled,
}

/// Runs one claimed wake and commits it.
pub type RunWake = dyn Fn(&mut Sessions, &ClaimedWake) + Send + Sync;

/// Whether this process can run a session now, or why not.
pub type CanRun = dyn Fn(&Session) -> Result<(), String> + Send + Sync;

/// What all threads of a worker share.
#[derive(Clone)]
pub struct WorkerPlan {
    pub concurrency: usize,
    pub until: WorkUntil,
    pub filter: ClaimFilter,
    pub can_run: Arc<CanRun>,
    pub lease_terms: LeaseTerms,
    /// What people see of this worker while it waits.
    pub description: WorkerDescription,
    /// Opens a connection; each thread has its own.
    pub connect: Arc<dyn Fn() -> Result<Sessions, String> + Send + Sync>,
    pub run_wake: Arc<RunWake>,
    /// The time and the random seed of one claim.
    pub time_seed: fn(Timestamp) -> TimeSeed,
    /// Receives errors of the store. Work goes on.
    pub warn: Arc<dyn Fn(&str) + Send + Sync>,
    pub cancel: Cancel,
}

/// The longest wait for a due wake. A store notifies what becomes due sooner.
const MAX_WAIT: Duration = Duration::from_secs(20);

/// How long a worker that lost a race for a wake waits before the next one, at first and at most. The worker that won looks at
/// once, so that one wake among many idle workers costs each of the others one look. One worker alone loses no race and never
/// waits.
const MIN_JITTER: Duration = Duration::from_millis(32);
const MAX_JITTER: Duration = Duration::from_millis(250);

/// How long one part of a wait may be, so that a cancelled worker stops soon.
const WAIT_STEP: Duration = Duration::from_millis(250);

/// How often a draining thread looks again while other threads still work.
const DRAIN_INTERVAL: Duration = Duration::from_millis(50);

/// How long a session that cannot run here is skipped, at first and at most.
const MIN_REFUSAL: Duration = Duration::from_secs(2);
const MAX_REFUSAL: Duration = Duration::from_secs(60);
const MAX_SKIPPED: usize = 1_000;

const MIN_BACK_OFF: Duration = Duration::from_millis(200);
const MAX_BACK_OFF: Duration = Duration::from_secs(10);

/// Works until the plan ends and returns the number of wakes that ran. Fails if the store cannot be used.
pub fn work(plan: &WorkerPlan) -> Result<usize, String> {
    let busy = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    let refused = RefusedSessions::default();
    let heartbeat = Heartbeat::new(&plan.lease_terms.owner, &plan.description);
    let is_unreported = AtomicBool::new(false);
    let threads = if plan.until == WorkUntil::Once { 1 } else { plan.concurrency.max(1) };
    let worked = std::thread::scope(|scope| {
        let start = || {
            scope.spawn(|| {
                let thread = WorkerThread {
                    plan,
                    busy: &busy,
                    done: &done,
                    refused: &refused,
                    heartbeat: &heartbeat,
                    is_unreported: &is_unreported,
                    jitter: Cell::new(Duration::ZERO),
                };
                thread.run()
            })
        };
        let threads: Vec<_> = (0..threads).map(|_| start()).collect();
        let results = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err("a worker thread failed".to_owned())));
        results.collect::<Result<Vec<()>, String>>()
    });
    heartbeat.end(|| (plan.connect)());
    worked?;
    Ok(done.load(Ordering::SeqCst))
}

struct WorkerThread<'a> {
    plan: &'a WorkerPlan,
    /// How many threads of this process work now. Their wakes may make others due.
    busy: &'a AtomicUsize,
    done: &'a AtomicUsize,
    refused: &'a RefusedSessions,
    heartbeat: &'a Heartbeat<'a>,
    /// Whether a report of the worker failed, which is logged once.
    is_unreported: &'a AtomicBool,
    /// The longest wait of this thread after a notification, so that not all workers search at once.
    jitter: Cell<Duration>,
}

/// The sessions that this process cannot run at the moment. They are skipped for a while, so that another worker claims them.
#[derive(Default)]
struct RefusedSessions(Mutex<HashMap<SessionId, RefusedSession>>);

struct RefusedSession {
    reason: String,
    until: Instant,
    back_off: Duration,
}

impl RefusedSessions {
    fn current(&self) -> Vec<SessionId> {
        let now = Instant::now();
        let refused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        refused
            .iter()
            .filter(|(_, session)| session.until > now)
            .map(|(id, _)| *id)
            .take(MAX_SKIPPED)
            .collect()
    }

    /// Adds a session and returns whether its reason is new.
    fn add(&self, id: SessionId, reason: &str) -> bool {
        let mut refused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = refused.get(&id);
        let is_new = known.is_none_or(|session| session.reason != reason);
        let back_off = match known {
            Some(session) if !is_new => (session.back_off * 2).min(MAX_REFUSAL),
            _ => MIN_REFUSAL,
        };
        let session =
            RefusedSession { reason: reason.to_owned(), until: Instant::now() + back_off, back_off };
        refused.insert(id, session);
        is_new
    }

    fn remove(&self, id: SessionId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }
}

impl WorkerThread<'_> {
    fn run(&self) -> Result<(), String> {
        let mut back_off = MIN_BACK_OFF;
        let mut idle_connection = None;
        while !self.plan.cancel.is_cancelled() {
            let connected = match idle_connection.take() {
                Some(sessions) => Ok(sessions),
                None => (self.plan.connect)(),
            };
            let result = connected.and_then(|mut sessions| {
                let is_last = self.step(&mut sessions).map_err(|error| error.to_string())?;
                Ok((sessions, is_last))
            });
            match result {
                Ok((_, true)) => return Ok(()),
                Ok((sessions, false)) => {
                    idle_connection = Some(sessions);
                    back_off = MIN_BACK_OFF;
                }
                Err(error) if self.plan.until == WorkUntil::Cancelled => {
                    (self.plan.warn)(&error);
                    self.sleep(back_off);
                    back_off = (back_off * 2).min(MAX_BACK_OFF);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Claims and runs one wake, or waits once. Returns whether this was the last step.
    fn step(&self, sessions: &mut Sessions) -> Result<bool, SessionError> {
        // Counted before the claim, so that no other thread sees the store as drained between the two.
        self.busy.fetch_add(1, Ordering::SeqCst);
        let worked = self.claim_and_run(sessions);
        self.busy.fetch_sub(1, Ordering::SeqCst);
        let (worked, survey) = worked?;
        if worked {
            self.jitter.set(Duration::ZERO);
            return Ok(self.plan.until == WorkUntil::Once);
        }
        match self.plan.until {
            WorkUntil::Once => Ok(true),
            WorkUntil::Drained if self.busy.load(Ordering::SeqCst) == 0 => Ok(true),
            WorkUntil::Drained => {
                self.sleep(DRAIN_INTERVAL);
                Ok(false)
            }
            WorkUntil::Cancelled => {
                self.wait(sessions, &survey)?;
                Ok(false)
            }
        }
    }

    fn claim_and_run(&self, sessions: &mut Sessions) -> Result<(bool, StoreSurvey), SessionError> {
        let survey = sessions.survey()?;
        self.report(sessions, &survey);
        if !survey.is_due {
            return Ok((false, survey));
        }
        let now = survey.now;
        let mut filter = ClaimFilter { skip: self.refused.current(), ..self.plan.filter.clone() };
        while filter.skip.len() <= MAX_SKIPPED {
            let Some(candidate) = sessions.find_due(&filter, now)? else { break };
            let id = candidate.header.id;
            filter.skip.push(id);
            // The check comes before the claim: a worker that cannot run a session leaves its inputs alone.
            if let Err(reason) = (self.plan.can_run)(&candidate) {
                if self.refused.add(id, &reason) {
                    (self.plan.warn)(&format!("cannot run session {id} here: {reason}"));
                }
                continue;
            }
            self.refused.remove(id);
            if let Some(claimed) = self.claim(sessions, id, now)? {
                (self.plan.run_wake)(sessions, &claimed);
                self.done.fetch_add(1, Ordering::SeqCst);
                return Ok((true, survey));
            }
        }
        Ok((false, survey))
    }

    /// Reports a worker that waits. A failed report does not stop the work.
    fn report(&self, sessions: &mut Sessions, survey: &StoreSurvey) {
        if self.plan.until != WorkUntil::Cancelled {
            return;
        }
        if let Err(error) = self.heartbeat.report(sessions, survey.now)
            && !self.is_unreported.swap(true, Ordering::SeqCst)
        {
            (self.plan.warn)(&format!("this worker is not listed: {error}"));
        }
    }

    /// Claims this session, unless another worker was faster.
    fn claim(
        &self,
        sessions: &mut Sessions,
        id: SessionId,
        now: Timestamp,
    ) -> Result<Option<ClaimedWake>, SessionError> {
        let mut seed = (self.plan.time_seed)(now);
        match sessions.claim(ClaimTarget::DueSession(id), &self.plan.lease_terms, &mut seed) {
            Err(SessionError::NoSession(_) | SessionError::Refused(SessionRefusal::Leased { .. })) => {
                Ok(None)
            }
            claimed => claimed,
        }
    }

    /// Waits until a session may be due or the worker is cancelled.
    fn wait(&self, sessions: &mut Sessions, survey: &StoreSurvey) -> Result<(), SessionError> {
        let StoreSurvey { now, next_due, .. } = survey;
        let until_due = next_due.map(|at| u64::try_from(at.0.saturating_sub(now.0)).unwrap_or(0));
        let wait = until_due.map_or(MAX_WAIT, |wait| Duration::from_millis(wait).min(MAX_WAIT));
        let end = Instant::now() + wait;
        while !self.plan.cancel.is_cancelled() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            if sessions.wait(WaitFor::Due, left.min(WAIT_STEP))? {
                self.stand_back();
                return Ok(());
            }
        }
        Ok(())
    }

    /// Waits for a random time that grows while other workers are faster. A claim ends it.
    fn stand_back(&self) {
        let jitter = self.jitter.get();
        let random = uuid::Uuid::new_v4().as_bytes()[0];
        std::thread::sleep(jitter * u32::from(random) / 256);
        self.jitter.set((jitter * 2).clamp(MIN_JITTER, MAX_JITTER));
    }

    fn sleep(&self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end && !self.plan.cancel.is_cancelled() {
            std::thread::sleep(DRAIN_INTERVAL.min(time));
        }
    }
}
