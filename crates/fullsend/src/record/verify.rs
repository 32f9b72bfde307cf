//! Is this still what happened? The chain of the log, its end, the record as the fold of it, and every published file
//! against its digest.

use std::collections::BTreeSet;
use std::path::Path;

use super::store::StoredRun;
use super::{Artifact, Record};
use crate::event::log::{self, sha256};

/// Everything that is not as it was written; nothing if all of it is.
pub fn verify(run: &StoredRun) -> Vec<String> {
    let events = match log::read(&run.log()) {
        Ok(events) => events,
        Err(error) => return vec![error.to_string()],
    };
    let folded = super::fold(&events);
    let mut problems = Vec::new();
    if folded.run_id != run.id {
        problems.push(format!("the log is of the run {}", folded.run_id));
    }
    if folded.outcome.is_none() {
        problems
            .push("the log has no end: the run goes on, was killed, or its last lines are gone".to_owned());
    }
    problems.extend(record(run, &folded));
    problems.extend(folded.artifacts.iter().filter_map(|artifact| changed(&run.path, artifact)));
    problems.extend(added(&run.path, &folded));
    problems
}

/// `run.json` is compared as a whole: whatever differs from the log was not written by us.
fn record(run: &StoredRun, folded: &Record) -> Option<String> {
    let bytes = match std::fs::read(run.path.join("run.json")) {
        Ok(bytes) => bytes,
        Err(error) => return Some(format!("run.json cannot be read: {error}")),
    };
    match serde_json::from_slice::<Record>(&bytes) {
        Err(error) => Some(format!("run.json is not a record: {error}")),
        Ok(record) if record.chain_head != folded.chain_head => Some(
            "run.json and the log end differently: lines are missing from the log, or were added".to_owned(),
        ),
        Ok(record) if &record != folded => Some("run.json is not what the log says".to_owned()),
        Ok(_) => None,
    }
}

fn changed(directory: &Path, artifact: &Artifact) -> Option<String> {
    let path = directory.join(&artifact.path);
    match std::fs::symlink_metadata(&path).and_then(|about| match about.is_file() {
        true => std::fs::read(&path),
        false => Err(std::io::Error::other("it is not a file")),
    }) {
        Err(error) => Some(format!("{} cannot be read: {error}", artifact.path)),
        Ok(bytes) if sha256(&bytes) != artifact.sha256 => Some(format!("{} was changed", artifact.path)),
        Ok(_) => None,
    }
}

/// Files beside the published ones would be taken for output.
fn added(directory: &Path, folded: &Record) -> Vec<String> {
    let known: BTreeSet<&str> = folded.artifacts.iter().map(|artifact| artifact.path.as_str()).collect();
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("iteration-") {
            files_below(&entry.path().join("output"), &format!("{name}/output"), &mut found);
        }
    }
    found.retain(|path| !known.contains(path.as_str()));
    found.into_iter().map(|path| format!("{path} was added")).collect()
}

/// Paths of all files in a directory, as they are shown.
pub fn files_below(place: &Path, shown: &str, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
        let path = format!("{shown}/{}", entry.file_name().to_string_lossy());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            files_below(&entry.path(), &path, found);
        } else {
            found.push(path);
        }
    }
}
