//! What a runner that died left behind: the sandbox's remains are removed, and the record is made from the events that
//! were written, with an end that says the truth. A run is dead when nobody holds the lock on its log.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::event::log::{self, Emitter};
use crate::event::outcome::OutcomeKind;
use crate::event::{Envelope, RunEvent};
use crate::provision::SANDBOXES;

/// What was found and done.
#[derive(Debug, Default)]
pub struct Swept {
    /// Runs that had no end and got one.
    pub ended: Vec<PathBuf>,
    /// Remains that could not be removed, and why.
    pub problems: Vec<String>,
}

/// Looks at every run below `runs`, whoever owns it.
pub fn sweep(runs: &Path) -> Swept {
    let mut swept = Swept::default();
    for directory in run_directories(runs) {
        if let Err(problem) = sweep_one(&directory, &mut swept) {
            swept.problems.push(format!("{}: {problem}", directory.display()));
        }
    }
    swept
}

/// Directories with a log, at most three levels down: owner, repository, run.
pub fn run_directories(runs: &Path) -> Vec<PathBuf> {
    run_directories_below(runs, 0)
}

fn run_directories_below(place: &Path, depth: usize) -> Vec<PathBuf> {
    if place.join("events.jsonl").is_file() {
        return vec![place.to_owned()];
    }
    if depth > 3 {
        return Vec::new();
    }
    let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories.flat_map(|entry| run_directories_below(&entry.path(), depth + 1)).collect()
}

fn sweep_one(directory: &Path, swept: &mut Swept) -> Result<(), String> {
    let path = directory.join("events.jsonl");
    if !is_abandoned(&path).map_err(|error| error.to_string())? {
        return Ok(());
    }
    // Only in the sandboxes' own place: whatever is there without an owner goes.
    sandbox::sweep(&directory.join(SANDBOXES)).map_err(|error| error.to_string())?;
    for remains in [SANDBOXES, "staging", "prescript.out", "guard.sock"] {
        let path = directory.join(remains);
        let removed =
            if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        drop(removed);
    }
    let events = log::read(&path).map_err(|error| error.to_string())?;
    if ended(&events) && directory.join("run.json").is_file() {
        return Ok(());
    }
    if !ended(&events) {
        let reason = "the runner died; this was found and written by a later command".to_owned();
        let emit = Emitter::resume(&path, &events).map_err(|error| error.to_string())?;
        emit.emit(RunEvent::RunFinished { outcome: OutcomeKind::Interrupted, exit_code: 130, reason });
    }
    let record = super::refold(directory).map_err(|error| error.to_string())?;
    crate::record::project(directory, &events).map_err(|error| error.to_string())?;
    crate::record::write(directory, &record).map_err(|error| error.to_string())?;
    swept.ended.push(directory.to_owned());
    Ok(())
}

/// Whether the runner that wrote this log is gone.
fn is_abandoned(path: &Path) -> std::io::Result<bool> {
    let file = File::open(path)?;
    match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn ended(events: &[Envelope]) -> bool {
    events.iter().any(|envelope| matches!(envelope.event, RunEvent::RunFinished { .. }))
}
