//! Orchestration: which due wake runs now, on how many threads, and when to look again. It claims and hands over; what a wake
//! means, and what a session does next, is not its business.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::cancel::Cancel;
use session::{ClaimTarget, ClaimedWake, LeaseTerms, SessionError, Sessions, TimeSeed, Timestamp};

/// How long to work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkUntil {
    /// One wake, if one is due.
    Once,
    /// Nothing is due any more.
    Drained,
    /// Somebody ends it.
    Ended,
}

/// Does the work of one claimed wake, and commits it.
pub type RunWake = dyn Fn(&mut Sessions, &ClaimedWake) + Send + Sync;

/// What workers share.
#[derive(Clone)]
pub struct WorkerPlan {
    pub concurrency: usize,
    pub until: WorkUntil,
    pub worker: LeaseTerms,
    /// A connection for each thread.
    pub connect: Arc<dyn Fn() -> Result<Sessions, String> + Send + Sync>,
    pub perform: Arc<RunWake>,
    /// The time and the randomness of one claim.
    pub moment: fn(Timestamp) -> TimeSeed,
    /// Told what goes wrong with the store; work goes on.
    pub complain: Arc<dyn Fn(&str) + Send + Sync>,
    pub cancel: Cancel,
}

/// How long one wait for something due may be.
const PATIENCE: Duration = Duration::from_secs(5);

/// Between two looks while others of this process still work.
const SHORT: Duration = Duration::from_millis(50);

/// How long to stay away from a store that fails.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// Works until the plan says so. Gives how many wakes were run; an error if the store could not be used at all.
pub fn work(plan: &WorkerPlan) -> Result<usize, String> {
    let (busy, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let threads = if plan.until == WorkUntil::Once { 1 } else { plan.concurrency.max(1) };
    std::thread::scope(|scope| {
        let start = || scope.spawn(|| WorkerThread { plan, busy: &busy, done: &done }.run());
        let hands: Vec<_> = (0..threads).map(|_| start()).collect();
        let ended =
            hands.into_iter().map(|hand| hand.join().unwrap_or_else(|_| Err("a worker broke".to_owned())));
        ended.collect::<Result<Vec<()>, String>>()
    })?;
    Ok(done.load(Ordering::SeqCst))
}

/// One thread of a worker.
struct WorkerThread<'a> {
    plan: &'a WorkerPlan,
    /// How many of this process work right now: what they do may make something due.
    busy: &'a AtomicUsize,
    done: &'a AtomicUsize,
}

impl WorkerThread<'_> {
    fn run(&self) -> Result<(), String> {
        let mut back_off = BACK_OFF.0;
        let mut sessions = None;
        while !self.plan.cancel.is_asked() {
            let connected = match sessions.take() {
                Some(connected) => Ok(connected),
                None => (self.plan.connect)(),
            };
            let looked = connected.and_then(|mut connected| match self.look(&mut connected) {
                Ok(over) => Ok((connected, over)),
                Err(error) => Err(error.to_string()),
            });
            match looked {
                Ok((_, true)) => return Ok(()),
                Ok((connected, false)) => (sessions, back_off) = (Some(connected), BACK_OFF.0),
                Err(error) if self.plan.until == WorkUntil::Ended => {
                    (self.plan.complain)(&error);
                    self.sleep(back_off);
                    back_off = (back_off * 2).min(BACK_OFF.1);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// One claim and its work, or one wait. Whether it was the last.
    fn look(&self, sessions: &mut Sessions) -> Result<bool, SessionError> {
        // Counted before the claim: between the two, nobody may think that all is done.
        self.busy.fetch_add(1, Ordering::SeqCst);
        let worked = self.claim_and_work(sessions);
        self.busy.fetch_sub(1, Ordering::SeqCst);
        if worked? {
            return Ok(self.plan.until == WorkUntil::Once);
        }
        match self.plan.until {
            WorkUntil::Once => Ok(true),
            WorkUntil::Drained if self.busy.load(Ordering::SeqCst) == 0 => Ok(true),
            WorkUntil::Drained => {
                self.sleep(SHORT);
                Ok(false)
            }
            WorkUntil::Ended => {
                self.wait(sessions)?;
                Ok(false)
            }
        }
    }

    fn claim_and_work(&self, sessions: &mut Sessions) -> Result<bool, SessionError> {
        let mut moment = (self.plan.moment)(sessions.now()?);
        let Some(claimed) = sessions.claim(ClaimTarget::Due, &self.plan.worker, &mut moment)? else {
            return Ok(false);
        };
        (self.plan.perform)(sessions, &claimed);
        self.done.fetch_add(1, Ordering::SeqCst);
        Ok(true)
    }

    /// Until something changes, or the next wake comes due.
    fn wait(&self, sessions: &mut Sessions) -> Result<(), SessionError> {
        let now = sessions.now()?;
        let due = sessions.next_due(now)?.map(|at| u64::try_from(at.0.saturating_sub(now.0)).unwrap_or(0));
        let patience = due.map_or(PATIENCE, |wait| Duration::from_millis(wait).min(PATIENCE));
        // In short pieces: whoever ends us does not wait.
        let pieces = patience.as_millis() / 250 + 1;
        let piece = patience / u32::try_from(pieces).unwrap_or(1);
        for _ in 0..pieces {
            if self.plan.cancel.is_asked() {
                return Ok(());
            }
            let before = std::time::Instant::now();
            sessions.wait(piece)?;
            if before.elapsed() < piece {
                return Ok(());
            }
        }
        Ok(())
    }

    fn sleep(&self, time: Duration) {
        let until = std::time::Instant::now() + time;
        while std::time::Instant::now() < until && !self.plan.cancel.is_asked() {
            std::thread::sleep(SHORT.min(time));
        }
    }
}
