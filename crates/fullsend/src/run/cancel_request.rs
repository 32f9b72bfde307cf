//! How an operator cancels a run of another process: a file in the run's directory. The runner takes the file, logs the
//! operator's name, and cancels the run. Nobody signals a process, because one process may have several runs.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cancel::{Cancel, CancelReason};
use crate::event::log::Emitter;
use crate::event::{OperatorActionKind, RunEvent};

const FILE: &str = "cancel.json";

/// How often a runner looks for the file.
const TICK: Duration = Duration::from_millis(200);

/// A longer file is not one of ours.
const MAX_BYTES: u64 = 4 << 10;

/// The content of the file.
#[derive(Debug, Serialize, Deserialize)]
struct CancelRequest {
    by: String,
}

/// Asks the runner of this directory to cancel its run. A second request is the same request.
pub fn ask(directory: &Path, by: &str) -> io::Result<()> {
    let file = directory.join(FILE);
    // The runner must not see a part of the file, and two callers may ask at once.
    let unfinished = file.with_extension(format!("{}.part", uuid::Uuid::new_v4().simple()));
    let written = std::fs::write(&unfinished, serde_json::to_vec(&CancelRequest { by: by.to_owned() })?);
    let renamed = written.and_then(|()| std::fs::rename(&unfinished, &file));
    if renamed.is_err() {
        drop(std::fs::remove_file(&unfinished));
    }
    renamed
}

/// Whether no runner has taken the request yet.
pub fn is_waiting(directory: &Path) -> bool {
    directory.join(FILE).exists()
}

/// Takes the request back. `false`: a runner was faster.
pub fn take_back(directory: &Path) -> bool {
    std::fs::remove_file(directory.join(FILE)).is_ok()
}

/// Looks for the request until it is dropped.
pub(super) struct CancelWatch {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl CancelWatch {
    pub(super) fn start(directory: &Path, emit: &Emitter, cancel: &Cancel) -> Self {
        let (stop, stopped) = mpsc::channel::<()>();
        let file = directory.join(FILE);
        let emit = emit.clone();
        let cancel = cancel.clone();
        let watch = move || {
            while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                if let Some(CancelRequest { by }) = take(&file) {
                    emit.emit(RunEvent::OperatorAction { by, action: OperatorActionKind::Cancel });
                    // A second call would end the run at once, without a clean shutdown.
                    if !cancel.is_cancelled() {
                        cancel.cancel(CancelReason::Interrupted);
                    }
                }
            }
        };
        Self { stop: Some(stop), thread: Some(std::thread::spawn(watch)) }
    }
}

impl Drop for CancelWatch {
    fn drop(&mut self) {
        drop(self.stop.take());
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// Only the user who runs the agent can write into the directory. A file that cannot be read still cancels.
fn take(file: &PathBuf) -> Option<CancelRequest> {
    let length = std::fs::symlink_metadata(file).ok()?.len();
    let text = Some(file).filter(|_| length <= MAX_BYTES).and_then(|file| std::fs::read(file).ok());
    let request = text.and_then(|text| serde_json::from_slice(&text).ok());
    std::fs::remove_file(file).ok()?;
    Some(request.unwrap_or_else(|| CancelRequest { by: "unknown".to_owned() }))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn the_runner_takes_the_request_and_says_who_it_was() {
        let place = tempfile::tempdir().unwrap();
        let log = place.path().join("events.jsonl");
        let emitter = Emitter::create(&log, |_| {}).unwrap();
        let cancel = Cancel::default();
        let watch = CancelWatch::start(place.path(), &emitter, &cancel);
        ask(place.path(), "alice").unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while !cancel.is_cancelled() {
            assert!(Instant::now() < deadline, "the request was not taken");
            std::thread::sleep(Duration::from_millis(10));
        }
        ask(place.path(), "bob").unwrap();
        while is_waiting(place.path()) {
            assert!(Instant::now() < deadline, "the second request was not taken");
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(watch);
        assert!(!cancel.is_urgent(), "the run still ends in its own order");
        assert!(!is_waiting(place.path()) && !take_back(place.path()));
        let events = crate::event::log::read(&log).unwrap();
        let by =
            |by: &str| RunEvent::OperatorAction { by: by.to_owned(), action: OperatorActionKind::Cancel };
        let logged: Vec<RunEvent> = events.iter().map(|line| line.event.clone()).collect();
        assert_eq!(logged, [by("alice"), by("bob")]);
        ask(place.path(), "alice").unwrap();
        assert!(is_waiting(place.path()) && take_back(place.path()), "no runner takes it any more");
    }
}
