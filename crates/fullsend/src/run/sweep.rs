//! Cleans up after dead runners: removes what is left of the sandbox, and completes the record from the events on disk. A
//! run is dead when no process holds the lock on its log.

use std::path::{Path, PathBuf};

use crate::event::log::{self, Emitter};
use crate::event::outcome::EndCause;
use crate::event::{Envelope, RunEvent};
use crate::provision::SANDBOXES;
use crate::record::store::{self, StoredRun};
use crate::record::verify;

/// What a sweep did.
#[derive(Debug, Default)]
pub struct SweepReport {
    /// Runs whose record was completed.
    pub ended: Vec<PathBuf>,
    /// What could not be cleaned up, and why.
    pub problems: Vec<String>,
}

/// Sweeps every run below `runs`.
pub fn sweep(runs: &Path) -> SweepReport {
    let mut swept = SweepReport::default();
    for run in store::all(runs) {
        if let Err(problem) = sweep_one(&run, &mut swept) {
            swept.problems.push(format!("{}: {problem}", run.path.display()));
        }
    }
    swept
}

fn sweep_one(run: &StoredRun, swept: &mut SweepReport) -> Result<(), String> {
    let directory = &run.path;
    let path = run.log();
    if run.is_alive().map_err(|error| error.to_string())? {
        return Ok(());
    }
    // The record is written last: with a record and without a sandbox there is nothing to do.
    if directory.join("run.json").is_file() && !directory.join(SANDBOXES).exists() {
        return Ok(());
    }
    // Removes only sandboxes without a living owner.
    sandbox::sweep(&directory.join(SANDBOXES)).map_err(|error| error.to_string())?;
    for remains in [SANDBOXES, "staging", "prescript.out", "guard.sock", "skills.sock"] {
        let path = directory.join(remains);
        let removed =
            if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        drop(removed);
    }
    tidy_iterations(directory);
    let events = log::read(&path).map_err(|error| error.to_string())?;
    if ended(&events) && directory.join("run.json").is_file() {
        return Ok(());
    }
    if !ended(&events) {
        let reason = "the runner died; a later command completed this record".to_owned();
        let emit = Emitter::resume(&path, &events).map_err(|error| error.to_string())?;
        published(directory, &events).into_iter().for_each(|event| emit.emit(event));
        let cause = EndCause::Interrupted;
        emit.emit(RunEvent::RunFinished { outcome: cause.outcome(), exit_code: cause.exit().code(), reason });
    }
    let record = super::rebuild_record(directory).map_err(|error| error.to_string())?;
    crate::record::project(directory, &events).map_err(|error| error.to_string())?;
    crate::record::write(directory, &record).map_err(|error| error.to_string())?;
    swept.ended.push(directory.to_owned());
    Ok(())
}

/// Removes output that was not validated. A patch or a checkout without its output goes too: the output is promoted last.
fn tidy_iterations(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let place = entry.path();
        if !entry.file_name().to_string_lossy().starts_with("iteration-") {
            continue;
        }
        for name in ["quarantine", "changed", "validation"] {
            drop(std::fs::remove_dir_all(place.join(name)));
        }
        if !place.join("output").is_dir() {
            drop(std::fs::remove_dir_all(place.join("repository")));
            drop(std::fs::remove_file(place.join("changes.patch")));
        }
    }
}

/// Files of an accepted output that the runner promoted but did not list.
fn published(directory: &Path, events: &[Envelope]) -> Vec<RunEvent> {
    let accepted = events.iter().find_map(|envelope| match envelope.event {
        RunEvent::OutputAccepted { iteration, .. } => Some(iteration),
        _ => None,
    });
    let Some(place) = accepted.map(|iteration| format!("iteration-{iteration}")) else { return Vec::new() };
    let mut files = Vec::new();
    verify::files_below(&directory.join(&place).join("output"), &format!("{place}/output"), &mut files);
    let patch = format!("{place}/changes.patch");
    files.extend(directory.join(&patch).is_file().then_some(patch));
    let listed = |path: &String| {
        events.iter().any(|one| matches!(&one.event, RunEvent::Artifact { path: known, .. } if known == path))
    };
    files.retain(|path| !listed(path));
    let artifact = |path: String| {
        let bytes = std::fs::read(directory.join(&path)).ok()?;
        Some(RunEvent::Artifact { sha256: log::sha256(&bytes), bytes: bytes.len() as u64, path })
    };
    files.into_iter().filter_map(artifact).collect()
}

fn ended(events: &[Envelope]) -> bool {
    events.iter().any(|envelope| matches!(envelope.event, RunEvent::RunFinished { .. }))
}
