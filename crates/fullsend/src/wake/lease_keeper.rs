//! The heartbeat of a wake: it renews the lease, writes the run's reports, and ends the run when somebody interrupts the
//! session, when whoever started us wants to end, or when the lease cannot be held any more. It fails closed: a run whose
//! lease may be somebody else's is ended.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::run_reports::RunReports;
use crate::cancel::{Cancel, Why};
use session::{Lease, LeaseTerms, SessionError, Sessions};

/// How often it looks.
const BEAT: Duration = Duration::from_millis(100);

/// How long an interrupted run has to end in order before it is killed. An interrupt takes effect within a second.
const GRACE: Duration = Duration::from_millis(400);

/// What it saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseState {
    Held,
    Interrupted,
    /// The wake is somebody else's now, or may be.
    Lost(String),
}

/// A heart that beats until it is stopped.
pub struct LeaseKeeper {
    line: Option<Sender<()>>,
    thread: Option<JoinHandle<LeaseState>>,
}

/// What it holds and looks at.
pub struct LeaseKeeperConfig {
    pub sessions: Sessions,
    pub lease: Lease,
    pub worker: LeaseTerms,
    pub notes: Arc<RunReports>,
    /// Of whoever started us.
    pub outer: Cancel,
    /// Of the run.
    pub run: Cancel,
}

impl LeaseKeeper {
    pub fn start(charge: LeaseKeeperConfig) -> std::io::Result<Self> {
        let (line, end) = channel();
        let thread =
            std::thread::Builder::new().name("heart".to_owned()).spawn(move || beat(charge, &end))?;
        Ok(Self { line: Some(line), thread: Some(thread) })
    }

    /// Stops it, and says what it saw.
    pub fn stop(mut self) -> LeaseState {
        drop(self.line.take());
        let joined = self.thread.take().map(JoinHandle::join);
        match joined {
            Some(Ok(verdict)) => verdict,
            _ => LeaseState::Lost("the heartbeat failed".to_owned()),
        }
    }
}

fn beat(mut charge: LeaseKeeperConfig, end: &Receiver<()>) -> LeaseState {
    let lease = Duration::from_millis(charge.worker.lease_ms);
    let mut held_since = Instant::now();
    let mut asked: Option<Instant> = None;
    let mut verdict = LeaseState::Held;
    loop {
        match end.recv_timeout(BEAT) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return verdict,
        }
        if verdict == LeaseState::Held {
            match charge.look(held_since.elapsed() >= lease / 3) {
                Ok(seen) => {
                    held_since = if seen.renewed { Instant::now() } else { held_since };
                    if seen.interrupted {
                        verdict = LeaseState::Interrupted;
                    }
                }
                Err(SessionError::Store(error)) if held_since.elapsed() < lease => {
                    // The store may come back while the lease lasts; nothing is lost yet.
                    drop(error);
                }
                Err(error) => verdict = LeaseState::Lost(error.to_string()),
            }
        }
        if let Some(why) = charge.outer.asked() {
            charge.end(why, charge.outer.is_urgent());
        }
        if verdict != LeaseState::Held {
            let since = *asked.get_or_insert_with(Instant::now);
            let urgent = matches!(verdict, LeaseState::Lost(_)) || since.elapsed() >= GRACE;
            charge.end(Why::Interrupted, urgent);
        }
    }
}

struct Seen {
    interrupted: bool,
    renewed: bool,
}

impl LeaseKeeperConfig {
    fn look(&mut self, renew: bool) -> Result<Seen, SessionError> {
        let reports = self.notes.take();
        if !reports.is_empty() {
            let mut moment = super::seed(self.sessions.now()?);
            if let Err(error) = self.sessions.report(&self.lease, &reports, &mut moment) {
                self.notes.put_back(reports);
                return Err(error);
            }
        }
        if renew {
            let now = self.sessions.now()?;
            let renewal = self.sessions.renew(&self.lease, &self.worker, now)?;
            return Ok(Seen { interrupted: renewal.interrupted, renewed: true });
        }
        Ok(Seen { interrupted: self.sessions.is_interrupted(&self.lease)?, renewed: false })
    }

    /// Asks once for an orderly end, once more for one without grace.
    fn end(&self, why: Why, urgent: bool) {
        if !self.run.is_asked() || (urgent && !self.run.is_urgent()) {
            self.run.cancel(why);
        }
    }
}
