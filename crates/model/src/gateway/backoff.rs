//! Backoff and circuit breaker, shared by all requests to one upstream. After a "too busy" response all requests wait before
//! they are sent; after many in a row, or when the upstream asks for a long wait, they are refused at once until one probe
//! succeeds. Without it, sub-agents that each retry by themselves make a storm.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy)]
pub struct BackoffLimits {
    /// The wait after the first refusal; doubled by each further one.
    pub first_wait: Duration,
    pub longest_wait: Duration,
    pub refusals_to_open: u32,
    pub open_for: Duration,
}

impl Default for BackoffLimits {
    fn default() -> Self {
        Self {
            first_wait: Duration::from_secs(1),
            longest_wait: Duration::from_secs(30),
            refusals_to_open: 8,
            open_for: Duration::from_secs(60),
        }
    }
}

pub(super) struct Backoff {
    limits: BackoffLimits,
    state: Mutex<BackoffState>,
}

#[derive(Default)]
struct BackoffState {
    refusals: u32,
    not_before: Option<Instant>,
    /// Set while the circuit is open.
    open: Option<OpenCircuit>,
}

#[derive(Clone, Copy)]
struct OpenCircuit {
    until: Instant,
    probing: bool,
}

/// The circuit is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CircuitOpen {
    pub(super) retry_after: Duration,
}

/// Permission to send one request. Dropped without a report (the client went away), it changes nothing.
pub(super) struct SendPermit<'a> {
    backoff: &'a Backoff,
    probe: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum CircuitChange {
    /// The circuit opened with this report.
    Opened(Duration),
    Nothing,
}

impl Backoff {
    pub(super) fn new(limits: BackoffLimits) -> Self {
        Self { limits, state: Mutex::default() }
    }

    /// Before a request goes out.
    pub(super) async fn wait(&self) -> Result<SendPermit<'_>, CircuitOpen> {
        loop {
            let wait = {
                let mut state = self.lock();
                let now = Instant::now();
                if let Some(open) = &mut state.open {
                    if now < open.until {
                        return Err(CircuitOpen { retry_after: open.until - now });
                    }
                    if std::mem::replace(&mut open.probing, true) {
                        return Err(CircuitOpen { retry_after: self.limits.first_wait });
                    }
                    return Ok(SendPermit { backoff: self, probe: true });
                }
                state.not_before.and_then(|start| start.checked_duration_since(now))
            };
            match wait.filter(|wait| !wait.is_zero()) {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return Ok(SendPermit { backoff: self, probe: false }),
            }
        }
    }

    fn report(&self, status: u16, retry_after: Option<Duration>) -> CircuitChange {
        let mut state = self.lock();
        if !matches!(status, 429 | 503 | 529) {
            *state = BackoffState::default();
            return CircuitChange::Nothing;
        }
        state.refusals = state.refusals.saturating_add(1);
        let doubled = self.limits.first_wait.saturating_mul(1 << (state.refusals - 1).min(16));
        let wait = retry_after.unwrap_or(doubled.min(self.limits.longest_wait));
        let was_open = state.open.is_some();
        if was_open || state.refusals >= self.limits.refusals_to_open || wait > self.limits.longest_wait {
            let rest = wait.max(self.limits.open_for);
            state.open = Some(OpenCircuit { until: Instant::now() + rest, probing: false });
            return if was_open { CircuitChange::Nothing } else { CircuitChange::Opened(rest) };
        }
        state.not_before = Some(Instant::now() + wait);
        CircuitChange::Nothing
    }

    fn lock(&self) -> MutexGuard<'_, BackoffState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SendPermit<'_> {
    pub(super) fn report(mut self, status: u16, retry_after: Option<Duration>) -> CircuitChange {
        self.probe = false;
        self.backoff.report(status, retry_after)
    }
}

impl Drop for SendPermit<'_> {
    fn drop(&mut self) {
        if let (true, Some(open)) = (self.probe, &mut self.backoff.lock().open) {
            open.probing = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn passes(backoff: &Backoff) -> bool {
        backoff.wait().await.is_ok()
    }

    fn backoff(first_ms: u64, open_ms: u64) -> Backoff {
        Backoff::new(BackoffLimits {
            first_wait: Duration::from_millis(first_ms),
            longest_wait: Duration::from_secs(2),
            refusals_to_open: 3,
            open_for: Duration::from_millis(open_ms),
        })
    }

    #[tokio::test]
    async fn a_refusal_delays_everyone_and_a_success_forgets_it() {
        let backoff = backoff(40, 1000);
        assert_eq!(backoff.report(529, None), CircuitChange::Nothing);
        let started = Instant::now();
        assert!(passes(&backoff).await);
        assert!(started.elapsed() >= Duration::from_millis(40));
        backoff.report(200, None);
        let started = Instant::now();
        assert!(passes(&backoff).await);
        assert!(started.elapsed() < Duration::from_millis(40));
    }

    #[tokio::test]
    async fn a_storm_opens_the_circuit_until_one_probe_passes() {
        let backoff = backoff(1, 40);
        backoff.report(429, None);
        backoff.report(429, None);
        assert!(matches!(backoff.report(429, None), CircuitChange::Opened(_)));
        assert!(!passes(&backoff).await);
        tokio::time::sleep(Duration::from_millis(50)).await;
        let given_up = backoff.wait().await.unwrap_or_else(|_| panic!("the probe passes"));
        assert!(!passes(&backoff).await, "everyone else waits");
        drop(given_up);
        let Ok(probe) = backoff.wait().await else { panic!("the next probe passes") };
        assert_eq!(probe.report(529, None), CircuitChange::Nothing);
        assert!(!passes(&backoff).await, "the probe failed");
        tokio::time::sleep(Duration::from_millis(50)).await;
        let Ok(probe) = backoff.wait().await else { panic!("the next probe passes") };
        probe.report(200, None);
        assert!(passes(&backoff).await && passes(&backoff).await);
    }

    #[tokio::test]
    async fn a_long_wait_that_the_upstream_names_opens_it_at_once() {
        let backoff = backoff(1, 40);
        let opened = backoff.report(429, Some(Duration::from_secs(3600)));
        assert!(matches!(opened, CircuitChange::Opened(rest) if rest == Duration::from_secs(3600)));
        assert!(backoff.wait().await.is_err_and(|broken| broken.retry_after > Duration::from_secs(3500)));
    }
}
