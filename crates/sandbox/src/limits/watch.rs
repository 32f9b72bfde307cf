//! The watchdog: a thread that kills the sandbox when it goes over a limit that the kernel does not keep for us.

use super::{Exceeded, usage};
use crate::describe::Limit;
use crate::shared::Shared;
use rustix::process::Pid;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_millis(50);
/// Measuring a large view may take this part of the time at most.
const DISK_SHARE: u32 = 10;

/// What to watch; what the kernel keeps is `None` here.
pub(crate) struct Watch {
    pub(crate) pid: Pid,
    pub(crate) layers: PathBuf,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) disk_bytes: Option<u64>,
    pub(crate) wall_clock: Option<Duration>,
}

impl Watch {
    pub(crate) fn is_needed(&self) -> bool {
        self.memory_bytes.is_some() || self.disk_bytes.is_some() || self.wall_clock.is_some()
    }

    /// Watches until the sandbox is gone, or kills it.
    pub(crate) fn run(&self, shared: &Arc<Shared>) {
        let started = Instant::now();
        let mut next_disk = started;
        loop {
            let left = self
                .wall_clock
                .map_or(INTERVAL, |limit| limit.saturating_sub(started.elapsed()).min(INTERVAL));
            if shared.wait_until_gone(left) {
                return;
            }
            let exceeded = self
                .over_wall_clock(started)
                .or_else(|| self.over_memory())
                .or_else(|| self.over_disk(&mut next_disk));
            if let Some(exceeded) = exceeded {
                shared.stop(exceeded);
                return;
            }
        }
    }

    fn over_wall_clock(&self, started: Instant) -> Option<Exceeded> {
        let limit = self.wall_clock.filter(|limit| started.elapsed() >= *limit)?;
        Some(Exceeded { limit: Limit::WallClock, detail: format!("{} ms are over", limit.as_millis()) })
    }

    fn over_memory(&self) -> Option<Exceeded> {
        let limit = self.memory_bytes?;
        // The cheap sum counts too much, never too little.
        if usage::memory_at_most(self.pid) <= limit {
            return None;
        }
        let used = usage::memory_exactly(self.pid);
        (used > limit).then(|| Exceeded { limit: Limit::Memory, detail: format!("{used} of {limit} bytes") })
    }

    fn over_disk(&self, next: &mut Instant) -> Option<Exceeded> {
        let limit = self.disk_bytes?;
        let started = Instant::now();
        if started < *next {
            return None;
        }
        let used = usage::disk(&self.layers).unwrap_or(0);
        let took = started.elapsed();
        *next = Instant::now() + (took * DISK_SHARE).saturating_sub(INTERVAL);
        (used > limit).then(|| Exceeded { limit: Limit::Disk, detail: format!("{used} of {limit} bytes") })
    }
}
