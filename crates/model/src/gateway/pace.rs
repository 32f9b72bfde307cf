//! Back-off and circuit breaker, shared by everything that asks one upstream. After a "too busy" all requests wait before
//! they go out; after many in a row, or when the upstream names a long wait, they are refused at once until one probe
//! has passed. Without it, sub-agents that each retry by themselves make a storm.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy)]
pub struct PaceLimits {
    /// The wait after the first refusal; doubled by each further one.
    pub first_wait: Duration,
    pub longest_wait: Duration,
    pub refusals_to_open: u32,
    pub open_for: Duration,
}

impl Default for PaceLimits {
    fn default() -> Self {
        Self {
            first_wait: Duration::from_secs(1),
            longest_wait: Duration::from_secs(30),
            refusals_to_open: 8,
            open_for: Duration::from_secs(60),
        }
    }
}

pub(super) struct Pace {
    limits: PaceLimits,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    refusals: u32,
    not_before: Option<Instant>,
    /// Set while the circuit is open; the probe that may close it is under way or not.
    open: Option<Open>,
}

#[derive(Clone, Copy)]
struct Open {
    until: Instant,
    probing: bool,
}

/// The circuit is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Broken {
    pub(super) retry_after: Duration,
}

/// Leave to send one request. Given up without a report (the client went away), it leaves no trace.
pub(super) struct Leave<'a> {
    pace: &'a Pace,
    probe: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// The circuit opened with this report.
    Opened(Duration),
    Nothing,
}

impl Pace {
    pub(super) fn new(limits: PaceLimits) -> Self {
        Self { limits, state: Mutex::default() }
    }

    /// Before a request goes out.
    pub(super) async fn wait(&self) -> Result<Leave<'_>, Broken> {
        loop {
            let wait = {
                let mut state = self.lock();
                let now = Instant::now();
                if let Some(open) = &mut state.open {
                    if now < open.until {
                        return Err(Broken { retry_after: open.until - now });
                    }
                    if std::mem::replace(&mut open.probing, true) {
                        return Err(Broken { retry_after: self.limits.first_wait });
                    }
                    return Ok(Leave { pace: self, probe: true });
                }
                state.not_before.and_then(|start| start.checked_duration_since(now))
            };
            match wait.filter(|wait| !wait.is_zero()) {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return Ok(Leave { pace: self, probe: false }),
            }
        }
    }

    fn report(&self, status: u16, retry_after: Option<Duration>) -> Report {
        let mut state = self.lock();
        if !matches!(status, 429 | 503 | 529) {
            *state = State::default();
            return Report::Nothing;
        }
        state.refusals = state.refusals.saturating_add(1);
        let doubled = self.limits.first_wait.saturating_mul(1 << (state.refusals - 1).min(16));
        let wait = retry_after.unwrap_or(doubled.min(self.limits.longest_wait));
        let was_open = state.open.is_some();
        if was_open || state.refusals >= self.limits.refusals_to_open || wait > self.limits.longest_wait {
            let rest = wait.max(self.limits.open_for);
            state.open = Some(Open { until: Instant::now() + rest, probing: false });
            return if was_open { Report::Nothing } else { Report::Opened(rest) };
        }
        state.not_before = Some(Instant::now() + wait);
        Report::Nothing
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Leave<'_> {
    pub(super) fn report(mut self, status: u16, retry_after: Option<Duration>) -> Report {
        self.probe = false;
        self.pace.report(status, retry_after)
    }
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        if let (true, Some(open)) = (self.probe, &mut self.pace.lock().open) {
            open.probing = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn passes(pace: &Pace) -> bool {
        pace.wait().await.is_ok()
    }

    fn pace(first_ms: u64, open_ms: u64) -> Pace {
        Pace::new(PaceLimits {
            first_wait: Duration::from_millis(first_ms),
            longest_wait: Duration::from_secs(2),
            refusals_to_open: 3,
            open_for: Duration::from_millis(open_ms),
        })
    }

    #[tokio::test]
    async fn a_refusal_delays_everyone_and_a_success_forgets_it() {
        let pace = pace(40, 1000);
        assert_eq!(pace.report(529, None), Report::Nothing);
        let started = Instant::now();
        assert!(passes(&pace).await);
        assert!(started.elapsed() >= Duration::from_millis(40));
        pace.report(200, None);
        let started = Instant::now();
        assert!(passes(&pace).await);
        assert!(started.elapsed() < Duration::from_millis(40));
    }

    #[tokio::test]
    async fn a_storm_opens_the_circuit_until_one_probe_passes() {
        let pace = pace(1, 40);
        pace.report(429, None);
        pace.report(429, None);
        assert!(matches!(pace.report(429, None), Report::Opened(_)));
        assert!(!passes(&pace).await);
        tokio::time::sleep(Duration::from_millis(50)).await;
        let given_up = pace.wait().await.unwrap_or_else(|_| panic!("the probe passes"));
        assert!(!passes(&pace).await, "everyone else waits");
        drop(given_up);
        let Ok(probe) = pace.wait().await else { panic!("the next probe passes") };
        assert_eq!(probe.report(529, None), Report::Nothing);
        assert!(!passes(&pace).await, "the probe failed");
        tokio::time::sleep(Duration::from_millis(50)).await;
        let Ok(probe) = pace.wait().await else { panic!("the next probe passes") };
        probe.report(200, None);
        assert!(passes(&pace).await && passes(&pace).await);
    }

    #[tokio::test]
    async fn a_long_wait_that_the_upstream_names_opens_it_at_once() {
        let pace = pace(1, 40);
        let opened = pace.report(429, Some(Duration::from_secs(3600)));
        assert!(matches!(opened, Report::Opened(rest) if rest == Duration::from_secs(3600)));
        assert!(pace.wait().await.is_err_and(|broken| broken.retry_after > Duration::from_secs(3500)));
    }
}
