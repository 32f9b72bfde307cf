//! The lease keeper: extends the lease of a running wake, stores the run's reports, and cancels the run when a user interrupts
//! the session, when this process must stop, or when the lease is not extended in time.
//!
//! It has two threads. The renewer talks to the store, and may hang with its connection. The watchdog never touches the store:
//! it knows when the lease was extended last, and cancels the run before the lease ends. So it fails closed: a run whose lease
//! another worker may hold is cancelled.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use session::{Lease, LeaseTerms, SessionError, Sessions, WaitFor};

use super::run_reports::RunReports;
use crate::cancel::{Cancel, CancelReason};

/// How long the renewer waits for an interrupt before it stores new reports.
const INTERVAL: Duration = Duration::from_millis(100);

/// How often the renewer looks for an interrupt by itself, where a store cannot notify.
const INTERRUPT_INTERVAL: Duration = Duration::from_secs(1);

/// How often the watchdog looks at the time.
const WATCH_INTERVAL: Duration = Duration::from_millis(50);

/// How long an interrupted run may take to stop before it is killed. An interrupt takes effect within a second.
const GRACE: Duration = Duration::from_millis(400);

/// How long `stop` waits for a renewer that hangs.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

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
    shared: Arc<Shared>,
    watchdog: JoinHandle<()>,
    renewer: JoinHandle<()>,
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

/// What the two threads share.
struct Shared {
    state: Mutex<LeaseState>,
    /// When the last successful renewal was sent.
    renewed_at: Mutex<Instant>,
    stopped: AtomicBool,
}

impl LeaseKeeper {
    /// `claimed_at` is when the claim was sent: the lease counts from there.
    pub fn start(config: LeaseKeeperConfig, claimed_at: Instant) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::new(LeaseState::Held),
            renewed_at: Mutex::new(claimed_at),
            stopped: AtomicBool::new(false),
        });
        let lease = Duration::from_millis(config.terms.lease_ms);
        let watch = Watchdog {
            shared: Arc::clone(&shared),
            limit: lease.saturating_sub((lease / 10).min(Duration::from_secs(1))),
            process: config.process.clone(),
            run: config.run.clone(),
        };
        let watchdog = thread("lease-watchdog").spawn(move || watch.run())?;
        let renewing = Arc::clone(&shared);
        let renewer = thread("lease-renewer").spawn(move || renew(config, &renewing, lease / 3))?;
        Ok(Self { shared, watchdog, renewer })
    }

    /// Stops the keeper and returns the last state of the lease. A renewer that hangs is left behind: it can extend the lease
    /// at most, and the fencing token decides about the commit.
    pub fn stop(self) -> LeaseState {
        self.shared.stopped.store(true, Ordering::SeqCst);
        let end = Instant::now() + STOP_TIMEOUT;
        while !self.renewer.is_finished() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        let failed =
            self.watchdog.join().is_err() || (self.renewer.is_finished() && self.renewer.join().is_err());
        if failed {
            return LeaseState::Lost("the lease keeper failed".to_owned());
        }
        self.shared.state()
    }
}

fn thread(name: &str) -> std::thread::Builder {
    std::thread::Builder::new().name(name.to_owned())
}

impl Shared {
    fn state(&self) -> LeaseState {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Leaves the state `Held`, once.
    fn end(&self, state: LeaseState) {
        let mut current = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if *current == LeaseState::Held {
            *current = state;
        }
    }

    fn since_renewal(&self) -> Duration {
        self.renewed_at.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }
}

struct Watchdog {
    shared: Arc<Shared>,
    /// How long after a renewal the run may continue.
    limit: Duration,
    process: Cancel,
    run: Cancel,
}

impl Watchdog {
    fn run(&self) {
        let mut ended_at: Option<Instant> = None;
        while !self.shared.is_stopped() {
            std::thread::sleep(WATCH_INTERVAL);
            if self.shared.since_renewal() >= self.limit {
                self.shared.end(LeaseState::Lost("the lease could not be extended in time".to_owned()));
            }
            if let Some(why) = self.process.reason() {
                self.cancel_run(why, self.process.is_urgent());
            }
            let state = self.shared.state();
            if state != LeaseState::Held {
                let since = *ended_at.get_or_insert_with(Instant::now);
                let urgent = matches!(state, LeaseState::Lost(_)) || since.elapsed() >= GRACE;
                self.cancel_run(CancelReason::Interrupted, urgent);
            }
        }
    }

    /// Cancels the run once with a grace period, and once more without one.
    fn cancel_run(&self, why: CancelReason, urgent: bool) {
        if !self.run.is_cancelled() || (urgent && !self.run.is_urgent()) {
            self.run.cancel(why);
        }
    }
}

fn renew(mut config: LeaseKeeperConfig, shared: &Shared, renew_after: Duration) {
    let mut looked_at = Instant::now();
    while !shared.is_stopped() {
        let is_notified = config.wait();
        if shared.is_stopped() || shared.state() != LeaseState::Held {
            continue;
        }
        let sent_at = Instant::now();
        let renews = shared.since_renewal() >= renew_after;
        let looks = is_notified || looked_at.elapsed() >= INTERRUPT_INTERVAL;
        match config.check(renews, looks) {
            Ok(interrupted) => {
                if renews {
                    *shared.renewed_at.lock().unwrap_or_else(PoisonError::into_inner) = sent_at;
                }
                if renews || looks {
                    looked_at = sent_at;
                }
                if interrupted {
                    shared.end(LeaseState::Interrupted);
                }
            }
            // The store may come back before the watchdog ends the run.
            Err(SessionError::Store(_)) => {}
            Err(error) => shared.end(LeaseState::Lost(error.to_string())),
        }
    }
}

impl LeaseKeeperConfig {
    /// Waits a little. Returns whether the session may have been interrupted.
    fn wait(&mut self) -> bool {
        self.sessions.wait(WaitFor::Interrupt(self.lease.session), INTERVAL).unwrap_or_else(|_| {
            std::thread::sleep(INTERVAL);
            false
        })
    }

    /// Extends the lease or looks for an interrupt, and stores new reports. Returns whether the session is interrupted.
    fn check(&mut self, renews: bool, looks: bool) -> Result<bool, SessionError> {
        // The lease comes first: reports can wait.
        let interrupted = if renews {
            let now = self.sessions.now()?;
            self.sessions.renew(&self.lease, &self.terms, now)?.interrupted
        } else if looks {
            self.sessions.is_interrupted(&self.lease)?
        } else {
            false
        };
        let reports = self.reports.begin();
        if !reports.is_empty() {
            let mut seed = super::time_seed(self.sessions.now()?);
            // They stay until they are stored for certain. Their ids make a second try harmless.
            self.sessions.report(&self.lease, &reports, &mut seed)?;
            self.reports.finish(&reports);
        }
        Ok(interrupted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::{
        ClaimTarget, EventId, Payload, SessionHeader, SessionId, SessionInput, SessionLimits, SqliteStore,
    };

    /// The store hangs: another connection holds its write lock, and every renewal waits for it.
    #[test]
    fn a_run_is_cancelled_before_its_lease_ends_while_the_store_hangs() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sessions.db");
        let open = || Sessions::new(Box::new(SqliteStore::open(&path).unwrap()), SessionLimits::default());
        let mut sessions = open();
        let mut seed = crate::wake::time_seed(sessions.now().unwrap());
        let header = SessionHeader::new(SessionId::generate(&mut seed), "triage", seed.now);
        sessions.create(&header).unwrap();
        let payload = Payload::UserMessage { message: "hello".to_owned() };
        let input = SessionInput { id: EventId::generate(&mut seed), payload };
        sessions.append(header.id, &[input], &mut seed).unwrap();
        let terms = LeaseTerms { owner: "test".to_owned(), lease_ms: 2_000 };
        let claimed_at = Instant::now();
        let lease = sessions.claim(ClaimTarget::Due, &terms, &mut seed).unwrap().unwrap().lease;
        let lock = SqliteStore::open(&path).unwrap();
        lock.connection().execute_batch("BEGIN IMMEDIATE").unwrap();
        let run = Cancel::default();
        let config = LeaseKeeperConfig {
            sessions: open(),
            reports: Arc::new(RunReports::new(lease.wake)),
            lease,
            terms,
            process: Cancel::default(),
            run: run.clone(),
        };
        let keeper = LeaseKeeper::start(config, claimed_at).unwrap();
        while !run.is_urgent() {
            assert!(claimed_at.elapsed() < Duration::from_secs(20), "the run was not cancelled");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(claimed_at.elapsed() < Duration::from_secs(2), "cancelled after {:?}", claimed_at.elapsed());
        let stopping = Instant::now();
        assert!(matches!(keeper.stop(), LeaseState::Lost(_)));
        assert!(stopping.elapsed() < Duration::from_secs(3), "stopped after {:?}", stopping.elapsed());
    }
}
