//! Orchestration: which due wake runs now, on how many threads, and when to look again. It claims a wake and passes it on.
//! It does not know what a wake means or what a session does next.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use session::{ClaimTarget, ClaimedWake, LeaseTerms, SessionError, Sessions, TimeSeed, Timestamp};

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

/// What all threads of a worker share.
#[derive(Clone)]
pub struct WorkerPlan {
    pub concurrency: usize,
    pub until: WorkUntil,
    pub lease_terms: LeaseTerms,
    /// Opens a connection; each thread has its own.
    pub connect: Arc<dyn Fn() -> Result<Sessions, String> + Send + Sync>,
    pub run_wake: Arc<RunWake>,
    /// The time and the random seed of one claim.
    pub time_seed: fn(Timestamp) -> TimeSeed,
    /// Receives errors of the store. Work goes on.
    pub warn: Arc<dyn Fn(&str) + Send + Sync>,
    pub cancel: Cancel,
}

/// The longest wait for a due wake.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// How long one part of a wait may be, so that a cancelled worker stops soon.
const WAIT_STEP: Duration = Duration::from_millis(250);

/// How often a draining thread looks again while other threads still work.
const DRAIN_INTERVAL: Duration = Duration::from_millis(50);

const MIN_BACK_OFF: Duration = Duration::from_millis(200);
const MAX_BACK_OFF: Duration = Duration::from_secs(10);

/// Works until the plan says so and returns the number of wakes that ran. Fails if the store cannot be used.
pub fn work(plan: &WorkerPlan) -> Result<usize, String> {
    let busy = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    let threads = if plan.until == WorkUntil::Once { 1 } else { plan.concurrency.max(1) };
    std::thread::scope(|scope| {
        let start = || scope.spawn(|| WorkerThread { plan, busy: &busy, done: &done }.run());
        let threads: Vec<_> = (0..threads).map(|_| start()).collect();
        let results = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err("a worker thread failed".to_owned())));
        results.collect::<Result<Vec<()>, String>>()
    })?;
    Ok(done.load(Ordering::SeqCst))
}

struct WorkerThread<'a> {
    plan: &'a WorkerPlan,
    /// How many threads of this process work now. Their wakes may make others due.
    busy: &'a AtomicUsize,
    done: &'a AtomicUsize,
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
        if worked? {
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
                self.wait(sessions)?;
                Ok(false)
            }
        }
    }

    fn claim_and_run(&self, sessions: &mut Sessions) -> Result<bool, SessionError> {
        let mut seed = (self.plan.time_seed)(sessions.now()?);
        let Some(claimed) = sessions.claim(ClaimTarget::Due, &self.plan.lease_terms, &mut seed)? else {
            return Ok(false);
        };
        (self.plan.run_wake)(sessions, &claimed);
        self.done.fetch_add(1, Ordering::SeqCst);
        Ok(true)
    }

    /// Waits until the store changes, the next wake is due, or the worker is cancelled.
    fn wait(&self, sessions: &mut Sessions) -> Result<(), SessionError> {
        let now = sessions.now()?;
        let until_due =
            sessions.next_due(now)?.map(|at| u64::try_from(at.0.saturating_sub(now.0)).unwrap_or(0));
        let wait = until_due.map_or(MAX_WAIT, |wait| Duration::from_millis(wait).min(MAX_WAIT));
        let end = Instant::now() + wait;
        while !self.plan.cancel.is_cancelled() {
            let left = end.saturating_duration_since(Instant::now());
            let step = left.min(WAIT_STEP);
            let start = Instant::now();
            sessions.wait(step)?;
            if left <= WAIT_STEP || start.elapsed() < step {
                return Ok(());
            }
        }
        Ok(())
    }

    fn sleep(&self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end && !self.plan.cancel.is_cancelled() {
            std::thread::sleep(DRAIN_INTERVAL.min(time));
        }
    }
}
