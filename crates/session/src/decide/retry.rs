//! Whether and when a failed attempt is retried: exponential back-off with jitter, a cap, and a limit of attempts or time.

use crate::decide::limits::SessionLimits;
use crate::log::state::CurrentWake;
use crate::log::status::ErrorClass;
use crate::log::time::{TimeSeed, Timestamp};

/// When to retry a wake; `None` is never. Errors that the wake did not cause are retried until `retry_for_ms`
/// is over, with any number of attempts.
pub(crate) fn next_attempt(
    class: ErrorClass,
    wake: &CurrentWake,
    limits: &SessionLimits,
    seed: &mut TimeSeed,
) -> Option<Timestamp> {
    let is_within_retry_time = || {
        let since = wake.first_ms.unwrap_or(seed.now);
        seed.now < since.plus_ms(limits.retry_for_ms)
    };
    let may_retry = match class {
        ErrorClass::Permanent => false,
        ErrorClass::Directive => wake.failures + 1 < limits.attempts,
        ErrorClass::Transient | ErrorClass::Lost => wake.attempt < limits.attempts || is_within_retry_time(),
    };
    if !may_retry {
        return None;
    }
    // No delay: the lease of the lost worker has already run out.
    let delay_ms = if class == ErrorClass::Lost { 0 } else { back_off(wake.attempt, limits, seed) };
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
    use crate::log::event::SessionUsage;
    use crate::log::id::WakeId;
    use crate::log::seq::SeqSet;
    use crate::log::state::WakePhase;

    fn wake(attempt: u32, failures: u32) -> CurrentWake {
        let mut seed = TimeSeed::new(Timestamp(0), [1; 32]);
        CurrentWake {
            id: WakeId::generate(&mut seed),
            token: 1,
            attempt,
            failures,
            first_ms: Some(Timestamp(0)),
            usage: SessionUsage::default(),
            inputs: SeqSet::default(),
            woken: Vec::new(),
            expired: Vec::new(),
            phase: WakePhase::Running,
        }
    }

    fn delay_at(now: i64, class: ErrorClass, wake: &CurrentWake, seed: u8) -> Option<i64> {
        let limits = SessionLimits { attempts: 40, ..SessionLimits::default() };
        let mut seed = TimeSeed::new(Timestamp(now), [seed; 32]);
        next_attempt(class, wake, &limits, &mut seed).map(|at| at.0 - now)
    }

    fn delay(class: ErrorClass, attempt: u32, seed: u8) -> Option<i64> {
        delay_at(1_000, class, &wake(attempt, attempt - 1), seed)
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
    fn errors_of_the_wake_are_limited_by_attempts() {
        assert_eq!(delay(ErrorClass::Permanent, 1, 0), None);
        assert_eq!(delay(ErrorClass::Directive, 40, 0), None);
        assert!(delay(ErrorClass::Directive, 39, 0).is_some());
        assert!(
            delay_at(1_000, ErrorClass::Directive, &wake(400, 3), 0).is_some(),
            "lost workers do not count"
        );
    }

    #[test]
    fn other_errors_are_limited_by_time() {
        let day = 86_400_000;
        for class in [ErrorClass::Transient, ErrorClass::Lost] {
            assert!(delay_at(day - 1, class, &wake(4_000, 0), 0).is_some(), "{class}");
            assert_eq!(delay_at(day, class, &wake(4_000, 0), 0), None, "{class}");
            assert!(
                delay_at(day, class, &wake(39, 0), 0).is_some(),
                "{class}: a few attempts are always made"
            );
        }
        assert_eq!(delay(ErrorClass::Lost, 39, 0), Some(0));
    }
}
