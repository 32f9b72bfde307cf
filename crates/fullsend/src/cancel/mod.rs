//! Cancels a run. The caller says why; the code that waits checks it and ends in its own order. The lowest module, because
//! everything that waits uses it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Asks a run to end. Cheap to clone; all clones are the same request.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<CancelState>);

#[derive(Debug, Default)]
struct CancelState {
    times: AtomicU32,
    /// Whether the first request came from the system and not from a person.
    terminated: AtomicBool,
}

/// Where the first request came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelReason {
    /// A person.
    Interrupted,
    /// The system.
    Terminated,
}

impl Cancel {
    /// The first call asks for an orderly end, the second for an immediate one. Returns the number of calls so far.
    pub fn cancel(&self, why: CancelReason) -> u32 {
        if why == CancelReason::Terminated && self.0.times.load(Ordering::SeqCst) == 0 {
            self.0.terminated.store(true, Ordering::SeqCst);
        }
        self.0.times.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub fn reason(&self) -> Option<CancelReason> {
        let terminated = self.0.terminated.load(Ordering::SeqCst);
        let why = if terminated { CancelReason::Terminated } else { CancelReason::Interrupted };
        (self.0.times.load(Ordering::SeqCst) > 0).then_some(why)
    }

    pub fn is_cancelled(&self) -> bool {
        self.reason().is_some()
    }

    /// Whether the end must be immediate.
    pub fn is_urgent(&self) -> bool {
        self.0.times.load(Ordering::SeqCst) > 1
    }
}

#[cfg(test)]
mod tests {
    use super::{Cancel, CancelReason};

    #[test]
    fn the_first_reason_stays_and_the_second_request_is_urgent() {
        let cancel = Cancel::default();
        assert_eq!(cancel.reason(), None);
        cancel.clone().cancel(CancelReason::Terminated);
        assert_eq!((cancel.reason(), cancel.is_urgent()), (Some(CancelReason::Terminated), false));
        cancel.cancel(CancelReason::Interrupted);
        assert_eq!((cancel.reason(), cancel.is_urgent()), (Some(CancelReason::Terminated), true));
    }
}
