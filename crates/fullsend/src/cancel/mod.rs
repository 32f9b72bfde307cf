//! A request to end, from whoever started a run. It says why and how urgently; what ends, and in which order, is for
//! those who look at it. The lowest module, because everything that waits looks at it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Asks a run to end. Cheap to clone; every clone is the same request.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<Asked>);

#[derive(Debug, Default)]
struct Asked {
    times: AtomicU32,
    /// Whether the first to ask was the system and not a person.
    terminated: AtomicBool,
}

/// Who asked first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    Interrupted,
    Terminated,
}

impl Cancel {
    /// Ask: the first time for an orderly end, the second for one without grace. How often it was asked, with this.
    pub fn cancel(&self, why: Why) -> u32 {
        if why == Why::Terminated && self.0.times.load(Ordering::SeqCst) == 0 {
            self.0.terminated.store(true, Ordering::SeqCst);
        }
        self.0.times.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub fn asked(&self) -> Option<Why> {
        let terminated = self.0.terminated.load(Ordering::SeqCst);
        let why = if terminated { Why::Terminated } else { Why::Interrupted };
        (self.0.times.load(Ordering::SeqCst) > 0).then_some(why)
    }

    pub fn is_asked(&self) -> bool {
        self.asked().is_some()
    }

    /// Whether there is no grace any more.
    pub fn is_urgent(&self) -> bool {
        self.0.times.load(Ordering::SeqCst) > 1
    }
}

#[cfg(test)]
mod tests {
    use super::{Cancel, Why};

    #[test]
    fn the_first_reason_stays_and_the_second_time_is_urgent() {
        let cancel = Cancel::default();
        assert_eq!(cancel.asked(), None);
        cancel.clone().cancel(Why::Terminated);
        assert_eq!((cancel.asked(), cancel.is_urgent()), (Some(Why::Terminated), false));
        cancel.cancel(Why::Interrupted);
        assert_eq!((cancel.asked(), cancel.is_urgent()), (Some(Why::Terminated), true));
    }
}
