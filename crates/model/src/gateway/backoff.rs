//! Waits that all requests to one upstream share. After a "too busy" response every request waits before it is sent,
//! and then one goes first: otherwise sub-agents that retry independently would overload the upstream.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

#[derive(Debug, Clone, Copy)]
pub struct BackoffLimits {
    /// The wait after the first refusal; doubled by each further one.
    pub first_wait: Duration,
    /// The longest wait, unless the upstream asks for a longer one.
    pub longest_wait: Duration,
}

impl Default for BackoffLimits {
    fn default() -> Self {
        Self { first_wait: Duration::from_secs(1), longest_wait: Duration::from_secs(30) }
    }
}

impl BackoffLimits {
    /// The wait after this many failures in a row.
    pub(super) fn wait_after(&self, failures: u32) -> Duration {
        let doubled = self.first_wait.saturating_mul(1 << failures.saturating_sub(1).min(16));
        doubled.min(self.longest_wait)
    }
}

pub(super) struct Backoff {
    limits: BackoffLimits,
    state: Mutex<BackoffState>,
    /// The first request after a wait has its answer.
    reported: Notify,
}

#[derive(Default)]
struct BackoffState {
    refusals: u32,
    not_before: Option<Instant>,
    /// One request tests whether the upstream is still busy.
    probing: bool,
}

/// Permission to send one request. Dropped without a report (the client went away), it changes nothing.
pub(super) struct SendPermit<'a> {
    backoff: &'a Backoff,
    probe: bool,
}

impl Backoff {
    pub(super) fn new(limits: BackoffLimits) -> Self {
        Self { limits, state: Mutex::default(), reported: Notify::new() }
    }

    /// Before a request goes out.
    pub(super) async fn wait(&self) -> SendPermit<'_> {
        loop {
            let reported = self.reported.notified();
            tokio::pin!(reported);
            // Enabled before the check, so that a report between the check and the wait is not missed.
            reported.as_mut().enable();
            let wait = {
                let mut state = self.lock();
                let wait = state.not_before.and_then(|start| start.checked_duration_since(Instant::now()));
                let wait = wait.filter(|wait| !wait.is_zero());
                if wait.is_none() && !state.probing {
                    state.probing = state.refusals > 0;
                    return SendPermit { backoff: self, probe: state.probing };
                }
                wait
            };
            match wait {
                Some(wait) => tokio::time::sleep(wait).await,
                None => reported.await,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BackoffState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SendPermit<'_> {
    /// The upstream is too busy: how long everyone waits now.
    pub(super) fn report_busy(self, retry_after: Option<Duration>) -> Duration {
        let mut state = self.backoff.lock();
        state.refusals = state.refusals.saturating_add(1);
        let wait = retry_after.unwrap_or_else(|| self.backoff.limits.wait_after(state.refusals));
        state.not_before = Some(Instant::now() + wait);
        wait
    }

    /// The upstream answered, or could not be reached: it is not busy, so nobody waits.
    pub(super) fn report_not_busy(self) {
        let probe = self.probe;
        *self.backoff.lock() = BackoffState { probing: probe, ..BackoffState::default() };
    }
}

impl Drop for SendPermit<'_> {
    fn drop(&mut self) {
        if self.probe {
            self.backoff.lock().probing = false;
            self.backoff.reported.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn backoff(first_ms: u64) -> Backoff {
        let first_wait = Duration::from_millis(first_ms);
        Backoff::new(BackoffLimits { first_wait, longest_wait: Duration::from_secs(2) })
    }

    #[tokio::test]
    async fn a_refusal_delays_everyone_and_a_success_forgets_it() {
        let backoff = backoff(40);
        assert_eq!(backoff.wait().await.report_busy(None), Duration::from_millis(40));
        let started = Instant::now();
        backoff.wait().await.report_not_busy();
        assert!(started.elapsed() >= Duration::from_millis(40));
        assert_eq!(backoff.wait().await.report_busy(None), Duration::from_millis(40), "it counts from one");
        assert_eq!(backoff.wait().await.report_busy(None), Duration::from_millis(80));
        let named = Duration::from_millis(5);
        assert_eq!(backoff.wait().await.report_busy(Some(named)), named, "the upstream knows best");
    }

    #[tokio::test]
    async fn after_a_wait_one_goes_first_and_the_others_follow_its_answer() {
        let backoff = Arc::new(backoff(1));
        backoff.wait().await.report_busy(None);
        let probe = backoff.wait().await;
        let other = Arc::clone(&backoff);
        let mut follower = tokio::spawn(async move { other.wait().await.report_not_busy() });
        let early = tokio::time::timeout(Duration::from_millis(50), &mut follower).await;
        assert!(early.is_err(), "everyone else waits");
        probe.report_not_busy();
        follower.await.unwrap();
        backoff.wait().await.report_busy(None);
        drop(backoff.wait().await);
        backoff.wait().await.report_not_busy();
    }
}
