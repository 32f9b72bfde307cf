//! How much memory all requests in the gateway may take together. A request waits for its share before its body is read.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A body exists as bytes, as JSON values, as the neutral form, and once more where it is rewritten.
const COPIES: usize = 6;

/// The memory of one JSON value beside its text.
const VALUE_BYTES: usize = 160;

/// No real request has more values; smaller bodies cannot hold so many.
pub(super) const MAX_VALUES: usize = 200_000;

const UNIT: usize = 1024;

pub(super) struct MemoryBudget {
    units: Arc<Semaphore>,
    total: usize,
}

/// Holds a request's share until the request was sent.
pub(super) struct MemoryShare {
    _permit: OwnedSemaphorePermit,
}

impl MemoryBudget {
    pub(super) fn new(bytes: usize) -> Self {
        let total = bytes / UNIT;
        Self { units: Arc::new(Semaphore::new(total)), total }
    }

    /// `None`: other requests kept the memory for too long.
    pub(super) async fn reserve(&self, body_bytes: usize, patience: Duration) -> Option<MemoryShare> {
        let units = needed_bytes(body_bytes).div_ceil(UNIT).min(self.total);
        let waiting = Arc::clone(&self.units).acquire_many_owned(u32::try_from(units).unwrap_or(u32::MAX));
        let permit = tokio::time::timeout(patience, waiting).await.ok()?.ok()?;
        Some(MemoryShare { _permit: permit })
    }
}

fn needed_bytes(body_bytes: usize) -> usize {
    body_bytes.saturating_mul(COPIES) + (body_bytes / 2).min(MAX_VALUES) * VALUE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEBIBYTE: usize = 1 << 20;

    #[tokio::test]
    async fn large_requests_wait_for_each_other_and_small_ones_do_not() {
        let memory = MemoryBudget::new(512 * MEBIBYTE);
        let soon = Duration::from_millis(20);
        let first = memory.reserve(32 * MEBIBYTE, soon).await;
        let second = memory.reserve(32 * MEBIBYTE, soon).await;
        assert!(first.is_some() && second.is_some());
        assert!(memory.reserve(32 * MEBIBYTE, soon).await.is_none(), "a third does not fit");
        assert!(memory.reserve(100 << 10, soon).await.is_some(), "a small one does");
        drop(first);
        assert!(memory.reserve(32 * MEBIBYTE, soon).await.is_some());
        assert!(memory.reserve(0, soon).await.is_some());
        assert!(
            MemoryBudget::new(MEBIBYTE).reserve(32 * MEBIBYTE, soon).await.is_some(),
            "alone it always fits"
        );
    }
}
