//! Verifies a run: the chain of the event log, its end, the record as the fold of it, the digest of every published file,
//! and the signed statement about all of it.

use std::collections::BTreeSet;
use std::path::Path;

use rustix::fs::FileType;
use sandbox::{Descend, TreeEntry, Unreadable, WalkLimits, walk_directory};

use super::dsse::PublicKey;
use super::store::StoredRun;
use super::{Artifact, Record, statement};
use crate::event::log::{self, sha256};

/// Everything that differs from what the run wrote. With a key, the run must be signed with it.
pub fn verify(run: &StoredRun, key: Option<&PublicKey>) -> Vec<String> {
    let events = match log::read(&run.log()) {
        Ok(events) => events,
        Err(error) => return vec![error.to_string()],
    };
    let folded = super::fold(&events);
    let mut problems = Vec::new();
    if folded.run_id != run.id {
        problems.push(format!("the event log belongs to the run {}", folded.run_id));
    }
    if folded.outcome.is_none() {
        problems.push(
            "the event log has no end: the run is still running, was killed, or its last lines were removed"
                .to_owned(),
        );
    }
    problems.extend(record(run, &folded));
    problems.extend(folded.artifacts.iter().filter_map(|artifact| changed(&run.path, artifact)));
    problems.extend(added(&run.path, &folded));
    let unsigned = statement::differences(run, &events, &folded, key);
    problems.extend(unsigned.into_iter().filter(|problem| !problems.contains(problem)).collect::<Vec<_>>());
    problems
}

/// `run.json` must equal the fold of the log in every field.
fn record(run: &StoredRun, folded: &Record) -> Option<String> {
    let bytes = match std::fs::read(run.path.join("run.json")) {
        Ok(bytes) => bytes,
        Err(error) => return Some(format!("cannot read run.json: {error}")),
    };
    match serde_json::from_slice::<Record>(&bytes) {
        Err(error) => Some(format!("run.json is not a record: {error}")),
        Ok(record) if record.chain_head != folded.chain_head => Some(
            "run.json and the event log end differently: lines were removed from the log, or added"
                .to_owned(),
        ),
        Ok(record) if &record != folded => Some("run.json differs from the event log".to_owned()),
        Ok(_) => None,
    }
}

fn changed(directory: &Path, artifact: &Artifact) -> Option<String> {
    let path = directory.join(&artifact.path);
    match std::fs::symlink_metadata(&path).and_then(|about| match about.is_file() {
        true => std::fs::read(&path),
        false => Err(std::io::Error::other("not a regular file")),
    }) {
        Err(error) => Some(format!("cannot read {}: {error}", artifact.path)),
        Ok(bytes) if sha256(&bytes) != artifact.sha256 => Some(format!("{} was changed", artifact.path)),
        Ok(_) => None,
    }
}

/// Files that were added to the published output.
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

/// Paths of all files in a directory, each after `shown`. An unreadable directory counts as empty.
pub fn files_below(directory: &Path, shown: &str, found: &mut Vec<String>) {
    let limits = WalkLimits { entries: MAX_ENTRIES, depth: MAX_DEPTH, unreadable: Unreadable::Skip };
    let walked = walk_directory(directory, limits, &mut |entry: &TreeEntry<'_>| {
        if entry.kind != FileType::Directory {
            found.push(format!("{shown}/{}", entry.path.display()));
        }
        Ok::<_, std::convert::Infallible>(Descend::Yes)
    });
    // More files than a run can publish: this already differs from the record.
    drop(walked);
}

/// The most files: far more than a run publishes.
const MAX_ENTRIES: usize = 100_000;
const MAX_DEPTH: usize = 200;
