//! How fast the guard can be asked: so many questions at once, and so many a second after that. What comes faster waits
//! its turn, so that a flood costs the host little and its sender the answer.

use std::time::{Duration, Instant};

/// Between two questions of a flood.
const INTERVAL: Duration = Duration::from_millis(5);
/// Questions that need not wait after a quiet time: an agent with many calls at once has two for each.
const BURST: u32 = 400;

#[derive(Debug)]
pub struct RateLimit {
    /// When a question would come that came exactly as fast as it may.
    due: Instant,
}

impl RateLimit {
    pub fn new(now: Instant) -> Self {
        Self { due: now }
    }

    /// How long the next question has to wait.
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
        // At the even rate_limit nobody ever waits.
        assert!((0..1000).all(|number| rate_limit.next(later + INTERVAL * number) == Duration::ZERO));
    }
}
