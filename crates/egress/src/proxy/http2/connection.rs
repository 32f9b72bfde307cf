//! What the streams of one client connection share.

use super::super::admission::AdmittedConnection;
use super::pool::Http2Pool;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Notify;

/// Streams that the client cancelled before their response, beyond the number that it waited for.
const MAX_CANCELLED: u64 = 200;

pub(super) struct Http2Connection {
    pub(super) connection: AdmittedConnection,
    pub(super) pool: Http2Pool,
    pub(super) streams: StreamCounts,
}

#[derive(Default)]
pub(super) struct StreamCounts {
    pub(super) started: AtomicU64,
    /// Started, and neither answered nor cancelled.
    pub(super) open: AtomicU64,
    answered: AtomicU64,
    cancelled: AtomicU64,
    pub(super) flooded: Notify,
}

/// One stream in the counts. A stream that is dropped before its response was cancelled by the client.
pub(super) struct OpenStream<'a> {
    counts: &'a StreamCounts,
    pub(super) answered: bool,
}

impl<'a> OpenStream<'a> {
    pub(super) fn new(counts: &'a StreamCounts) -> Self {
        counts.started.fetch_add(1, Ordering::Relaxed);
        counts.open.fetch_add(1, Ordering::Relaxed);
        Self { counts, answered: false }
    }
}

impl Drop for OpenStream<'_> {
    fn drop(&mut self) {
        let counts = self.counts;
        counts.open.fetch_sub(1, Ordering::Relaxed);
        let ended = if self.answered { &counts.answered } else { &counts.cancelled };
        ended.fetch_add(1, Ordering::Relaxed);
        let cancelled = counts.cancelled.load(Ordering::Relaxed);
        if cancelled > counts.answered.load(Ordering::Relaxed).saturating_add(MAX_CANCELLED) {
            counts.flooded.notify_one();
        }
    }
}
