//! Promotion: the accepted output becomes visible by one rename, and its files are listed with their digests. The
//! post-script takes `Artifacts`, which only an `Accepted` can become, so that running it without accepted output does
//! not compile.

use std::path::{Path, PathBuf};

use crate::event::RunEvent;
use crate::event::log::{Emitter, sha256};
use crate::quarantine::Quarantined;
use crate::validate::Accepted;

/// The accepted output, where everybody may see it.
#[derive(Clone, Debug)]
pub struct Artifacts {
    pub directory: PathBuf,
    pub iteration: u32,
}

#[derive(Debug)]
pub struct PublishError {
    pub path: PathBuf,
    pub source: std::io::Error,
}

impl std::fmt::Display for PublishError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot publish {}: {}", self.path.display(), self.source)
    }
}

impl std::error::Error for PublishError {}

pub fn publish(accepted: Accepted, emit: &Emitter) -> Result<Artifacts, PublishError> {
    let quarantined = accepted.quarantined;
    let directory = promote(&quarantined.directory, "output")?;
    for file in &quarantined.files {
        let path = directory.join(file);
        let bytes = std::fs::read(&path).map_err(|source| PublishError { path: path.clone(), source })?;
        let name = format!("iteration-{}/output/{file}", quarantined.attempt.iteration);
        emit.emit(RunEvent::Artifact { path: name, sha256: sha256(&bytes), bytes: bytes.len() as u64 });
    }
    Ok(Artifacts { directory, iteration: quarantined.attempt.iteration })
}

/// Output that was not accepted is kept for people, under a name that says what it is and that no script looks at.
pub fn set_aside(output: &Quarantined, name: &str) -> Result<PathBuf, PublishError> {
    promote(&output.directory, name)
}

fn promote(from: &Path, name: &str) -> Result<PathBuf, PublishError> {
    let to = from.with_file_name(name);
    std::fs::rename(from, &to).map(|()| to.clone()).map_err(|source| PublishError { path: to, source })
}
