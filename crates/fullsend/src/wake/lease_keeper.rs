//! The lease keeper: a thread that extends the lease of a running wake and stores the run's reports. It cancels the run when
//! a user interrupts the session, when this process must stop, or when the lease cannot be extended. It fails closed: a
//! run whose lease another worker may hold is cancelled.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use session::{Lease, LeaseTerms, SessionError, Sessions};

use super::run_reports::RunReports;
use crate::cancel::{Cancel, CancelReason};

/// How often the keeper checks the session.
const INTERVAL: Duration = Duration::from_millis(100);

/// How long an interrupted run may take to stop before it is killed. An interrupt takes effect within a second.
const GRACE: Duration = Duration::from_millis(400);

/// What the keeper knows about its lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseState {
    Held,
    /// A user interrupted the session. The lease is still held.
    Interrupted,
    /// Another worker holds the wake now, or may hold it.
    Lost(String),
}

/// A keeper that works until it is stopped.
pub struct LeaseKeeper {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<LeaseState>>,
}

pub struct LeaseKeeperConfig {
    pub sessions: Sessions,
    pub lease: Lease,
    pub terms: LeaseTerms,
    pub reports: Arc<RunReports>,
    /// Set when this process must stop.
    pub process: Cancel,
    /// Cancels the run.
    pub run: Cancel,
}

impl LeaseKeeper {
    pub fn start(config: LeaseKeeperConfig) -> std::io::Result<Self> {
        let (stop, stopped) = channel();
        let builder = std::thread::Builder::new().name("lease-keeper".to_owned());
        let thread = builder.spawn(move || keep(config, &stopped))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }

    /// Stops the keeper and returns the last state of the lease.
    pub fn stop(mut self) -> LeaseState {
        drop(self.stop.take());
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(state)) => state,
            _ => LeaseState::Lost("the lease keeper failed".to_owned()),
        }
    }
}

fn keep(mut config: LeaseKeeperConfig, stopped: &Receiver<()>) -> LeaseState {
    let lease = Duration::from_millis(config.terms.lease_ms);
    let mut renewed_at = Instant::now();
    let mut cancelled_at: Option<Instant> = None;
    let mut state = LeaseState::Held;
    loop {
        match stopped.recv_timeout(INTERVAL) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return state,
        }
        if state == LeaseState::Held {
            match config.check(renewed_at.elapsed() >= lease / 3) {
                Ok(Check { interrupted, renewed }) => {
                    renewed_at = if renewed { Instant::now() } else { renewed_at };
                    if interrupted {
                        state = LeaseState::Interrupted;
                    }
                }
                // The store may come back before the lease ends.
                Err(SessionError::Store(_)) if renewed_at.elapsed() < lease => {}
                Err(error) => state = LeaseState::Lost(error.to_string()),
            }
        }
        if let Some(why) = config.process.reason() {
            config.cancel_run(why, config.process.is_urgent());
        }
        if state != LeaseState::Held {
            let since = *cancelled_at.get_or_insert_with(Instant::now);
            let urgent = matches!(state, LeaseState::Lost(_)) || since.elapsed() >= GRACE;
            config.cancel_run(CancelReason::Interrupted, urgent);
        }
    }
}

struct Check {
    interrupted: bool,
    renewed: bool,
}

impl LeaseKeeperConfig {
    fn check(&mut self, renew: bool) -> Result<Check, SessionError> {
        let reports = self.reports.take();
        if !reports.is_empty() {
            let mut seed = super::time_seed(self.sessions.now()?);
            if let Err(error) = self.sessions.report(&self.lease, &reports, &mut seed) {
                self.reports.put_back(reports);
                return Err(error);
            }
        }
        if renew {
            let now = self.sessions.now()?;
            let renewal = self.sessions.renew(&self.lease, &self.terms, now)?;
            return Ok(Check { interrupted: renewal.interrupted, renewed: true });
        }
        Ok(Check { interrupted: self.sessions.is_interrupted(&self.lease)?, renewed: false })
    }

    /// Cancels the run once with a grace period, and once more without one.
    fn cancel_run(&self, why: CancelReason, urgent: bool) {
        if !self.run.is_cancelled() || (urgent && !self.run.is_urgent()) {
            self.run.cancel(why);
        }
    }
}
