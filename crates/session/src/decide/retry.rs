//! Whether and when a failed attempt is retried: exponential back-off with jitter, a cap, and a limit of attempts.

use crate::decide::limits::SessionLimits;
use crate::log::status::ErrorClass;
use crate::log::time::{TimeSeed, Timestamp};

/// When to retry after `attempt` attempts; `None` is never.
pub(crate) fn next_attempt(
    class: ErrorClass,
    attempt: u32,
    limits: &SessionLimits,
    seed: &mut TimeSeed,
) -> Option<Timestamp> {
    if class == ErrorClass::Permanent || attempt >= limits.attempts {
        return None;
    }
    // The lease of a lost worker had to end first; that was the delay.
    let delay_ms = if class == ErrorClass::Lost { 0 } else { back_off(attempt, limits, seed) };
    Some(seed.now.plus_ms(delay_ms))
}

/// Doubles with every attempt up to the cap. The jitter removes up to half, so that many retries spread out.
fn back_off(attempt: u32, limits: &SessionLimits, seed: &mut TimeSeed) -> u64 {
    let doublings = attempt.saturating_sub(1).min(32);
    let full_ms = limits.retry_base_ms.saturating_mul(1 << doublings).min(limits.retry_cap_ms);
    full_ms - seed.up_to(full_ms / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delay(class: ErrorClass, attempt: u32, seed: u8) -> Option<i64> {
        let limits = SessionLimits { attempts: 40, ..SessionLimits::default() };
        let mut seed = TimeSeed::new(Timestamp(1_000), [seed; 32]);
        next_attempt(class, attempt, &limits, &mut seed).map(|at| at.0 - 1_000)
    }

    #[test]
    fn doubles_within_its_jitter_up_to_the_cap() {
        for (attempt, full) in [(1, 2_000), (2, 4_000), (3, 8_000), (8, 256_000), (9, 300_000), (39, 300_000)]
        {
            for seed in 0..50 {
                let got = delay(ErrorClass::Transient, attempt, seed).unwrap();
                assert!((full / 2..=full).contains(&got), "attempt {attempt}: {got} ms");
            }
        }
    }

    #[test]
    fn the_jitter_spreads() {
        let mut delays: Vec<_> = (0..50).map(|seed| delay(ErrorClass::Transient, 9, seed)).collect();
        delays.sort();
        delays.dedup();
        assert!(delays.len() > 40, "{} different delays of 50", delays.len());
    }

    #[test]
    fn ends() {
        assert_eq!(delay(ErrorClass::Permanent, 1, 0), None);
        assert_eq!(delay(ErrorClass::Transient, 40, 0), None);
        assert_eq!(delay(ErrorClass::Directive, 40, 0), None);
        assert_eq!(delay(ErrorClass::Lost, 40, 0), None);
        assert_eq!(delay(ErrorClass::Lost, 39, 0), Some(0));
    }
}
