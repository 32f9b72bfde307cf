//! The time and the random seed of one call. Callers pass them in, so that every decision can be repeated in a test. This
//! crate reads no clock and no randomness of the operating system. Order comes from sequence numbers, not from times.

use serde::{Deserialize, Serialize};

use crate::log::digest::Sha256Digest;

/// Milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Saturates, so that no delay wraps into the past.
    #[must_use]
    pub fn plus_ms(self, milliseconds: u64) -> Self {
        Self(self.0.saturating_add(i64::try_from(milliseconds).unwrap_or(i64::MAX)))
    }
}

/// The time of one call, and a deterministic source of ids and jitter.
#[derive(Debug, Clone)]
pub struct TimeSeed {
    pub now: Timestamp,
    seed: [u8; 32],
    drawn: u64,
}

impl TimeSeed {
    #[must_use]
    pub fn new(now: Timestamp, seed: [u8; 32]) -> Self {
        Self { now, seed, drawn: 0 }
    }

    /// The next 32 bytes of randomness.
    pub(crate) fn draw(&mut self) -> [u8; 32] {
        self.drawn += 1;
        Sha256Digest::of_parts(&[&self.seed, &self.drawn.to_be_bytes()]).0
    }

    /// A number from 0 up to and including `bound`.
    pub(crate) fn up_to(&mut self, bound: u64) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.draw();
        let number = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        bound.checked_add(1).map_or(number, |range| number % range)
    }
}
