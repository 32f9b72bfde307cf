//! The watchdog: a thread that kills the sandbox when it goes over a limit that the kernel does not keep for us.

use super::{LimitExceeded, usage};
use crate::describe::Limit;
use crate::shared::Shared;
use rustix::process::Pid;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_millis(50);
/// The assumed write speed: faster than one sandbox can write to disks and page caches.
const BYTES_PER_MILLISECOND: u64 = 8 << 20;
/// Measuring a large view may take this part of the time at most.
const DISK_SHARE: u32 = 10;

/// The limits to watch; those that the kernel enforces are `None`.
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
        let room = self.disk_bytes.unwrap_or(u64::MAX);
        let mut disk = DiskWatch { next: started, used: 0, free: 0, room };
        let mut next_memory = started;
        loop {
            let interval = disk.interval();
            let left = self
                .wall_clock
                .map_or(interval, |limit| limit.saturating_sub(started.elapsed()).min(interval));
            if shared.wait_until_gone(left) {
                return;
            }
            let exceeded = self
                .over_wall_clock(started)
                .or_else(|| self.over_memory(&mut next_memory))
                .or_else(|| self.over_disk(&mut disk));
            if let Some(exceeded) = exceeded {
                shared.stop(exceeded);
                return;
            }
        }
    }

    fn over_wall_clock(&self, started: Instant) -> Option<LimitExceeded> {
        let limit = self.wall_clock.filter(|limit| started.elapsed() >= *limit)?;
        Some(LimitExceeded { limit: Limit::WallClock, detail: format!("{} ms are over", limit.as_millis()) })
    }

    fn over_memory(&self, next: &mut Instant) -> Option<LimitExceeded> {
        let limit = self.memory_bytes?;
        if Instant::now() < *next {
            return None;
        }
        *next = Instant::now() + INTERVAL;
        // The quick sum may be too high, never too low.
        if usage::memory_at_most(self.pid) <= limit {
            return None;
        }
        let used = usage::memory_exactly(self.pid);
        (used > limit)
            .then(|| LimitExceeded { limit: Limit::Memory, detail: format!("{used} of {limit} bytes") })
    }

    /// Measures the views when the time has come, or as soon as the file system has lost as much room as they may grow by.
    fn over_disk(&self, disk: &mut DiskWatch) -> Option<LimitExceeded> {
        let limit = self.disk_bytes?;
        let started = Instant::now();
        let free = usage::free(&self.layers);
        let lost = disk.free.saturating_sub(free);
        if started < disk.next && disk.used.saturating_add(lost) <= limit {
            disk.room = limit - disk.used - lost;
            return None;
        }
        let used = usage::disk(&self.layers).unwrap_or(0);
        let took = started.elapsed();
        let next = Instant::now() + (took * DISK_SHARE).saturating_sub(INTERVAL);
        *disk = DiskWatch { next, used, free, room: limit.saturating_sub(used) };
        (used > limit)
            .then(|| LimitExceeded { limit: Limit::Disk, detail: format!("{used} of {limit} bytes") })
    }
}

/// What is known about the views between two measurements.
struct DiskWatch {
    next: Instant,
    used: u64,
    /// The free room of their file system when they were measured. Others write there too: then they are measured sooner.
    free: u64,
    /// How much they may still grow.
    room: u64,
}

impl DiskWatch {
    /// The less space is left, the sooner the next measurement: a fast disk must not outrun it.
    fn interval(&self) -> Duration {
        let milliseconds = self.room / BYTES_PER_MILLISECOND;
        Duration::from_millis(milliseconds.max(1)).min(INTERVAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At the assumed speed, processes cannot fill the remaining space between two measurements.
    #[test]
    fn the_less_room_the_sooner_the_next_look() {
        let now = Instant::now();
        let interval = |room: u64| DiskWatch { next: now, used: 0, free: 0, room }.interval();
        assert_eq!(interval(u64::MAX), INTERVAL);
        for room in [64 << 20, 128 << 20, 256 << 20] {
            let milliseconds = u64::try_from(interval(room).as_millis()).unwrap();
            assert!(milliseconds * BYTES_PER_MILLISECOND <= room, "{room}: {milliseconds} ms");
        }
        assert_eq!(interval(0), Duration::from_millis(1));
    }
}
