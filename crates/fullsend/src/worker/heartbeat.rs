//! The heartbeat: a worker that waits for due sessions reports itself to the store about once a minute, so that people see it
//! while it holds no lease. No work depends on it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use session::{SessionError, Sessions, StoredWorker, Timestamp, WorkerDescription};

/// The shortest time between two reports. Each is one transaction, and a store may have many idle workers.
const INTERVAL: Duration = Duration::from_secs(60);

pub(super) struct Heartbeat<'a> {
    name: &'a str,
    description: &'a WorkerDescription,
    last: Mutex<Option<LastReport>>,
}

#[derive(Clone, Copy)]
struct LastReport {
    at: Instant,
    started_ms: Timestamp,
}

impl<'a> Heartbeat<'a> {
    pub(super) fn new(name: &'a str, description: &'a WorkerDescription) -> Self {
        Self { name, description, last: Mutex::default() }
    }

    fn last(&self) -> MutexGuard<'_, Option<LastReport>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports the worker, unless one of its threads did so just before. `now` is the time of the store's clock.
    pub(super) fn report(&self, sessions: &mut Sessions, now: Timestamp) -> Result<(), SessionError> {
        let started_ms = {
            let mut last = self.last();
            if last.is_some_and(|last| last.at.elapsed() < INTERVAL) {
                return Ok(());
            }
            let started_ms = last.map_or(now, |last| last.started_ms);
            *last = Some(LastReport { at: Instant::now(), started_ms });
            started_ms
        };
        sessions.report_worker(&StoredWorker {
            name: self.name.to_owned(),
            description: self.description.clone(),
            started_ms,
            seen_ms: now,
        })
    }

    /// Removes the report. The report of a killed worker is removed after an hour.
    pub(super) fn end(&self, connect: impl FnOnce() -> Result<Sessions, String>) {
        if self.last().is_some()
            && let Ok(mut sessions) = connect()
        {
            drop(sessions.remove_worker(self.name));
        }
    }
}
