//! Limits how fast hooks can ask: a burst, then a fixed rate per second. Faster requests wait, so that a flood costs
//! the host little.

use std::time::{Duration, Instant};

/// Between two requests of a flood.
const INTERVAL: Duration = Duration::from_millis(5);
/// Requests that need not wait after a quiet time. Every tool call makes two.
const BURST: u32 = 400;

#[derive(Debug)]
pub struct RateLimit {
    /// When the next request may come at the allowed rate.
    due: Instant,
}

impl RateLimit {
    pub fn new(now: Instant) -> Self {
        Self { due: now }
    }

    /// How long the next request must wait.
    pub fn next(&mut self, now: Instant) -> Duration {
        self.due = self.due.max(now) + INTERVAL;
        self.due.saturating_duration_since(now).saturating_sub(INTERVAL * BURST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_a_flood_waits_and_quiet_makes_up_for_it() {
        let start = Instant::now();
        let mut rate_limit = RateLimit::new(start);
        assert!((0..BURST).all(|_| rate_limit.next(start) == Duration::ZERO));
        assert_eq!(rate_limit.next(start), INTERVAL);
        assert_eq!(rate_limit.next(start), INTERVAL * 2);
        let later = start + INTERVAL * (BURST + 2);
        assert_eq!(rate_limit.next(later), Duration::ZERO);
        // At the allowed rate no request waits.
        assert!((0..1000).all(|number| rate_limit.next(later + INTERVAL * number) == Duration::ZERO));
    }
}
