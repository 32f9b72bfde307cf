//! Publishes the accepted output by one rename and lists its files with their digests. The agent's changes in the
//! repository come with it, as a patch and as a checkout that is safe to run git in. The post-script takes `Artifacts`,
//! which are made only from an `Accepted`, so that running it without accepted output does not compile.

use std::path::{Path, PathBuf};

use crate::event::RunEvent;
use crate::event::log::{Emitter, sha256};
use crate::quarantine::changes::AgentRepository;
use crate::quarantine::{QuarantineError, Quarantined, checkout};
use crate::validate::Accepted;

/// The accepted output, published. A function that takes one runs only after the output was accepted:
///
/// ```
/// fn post_script(artifacts: &fullsend::Artifacts) -> &std::path::Path {
///     artifacts.directory()
/// }
/// ```
///
/// It cannot be made by hand:
///
/// ```compile_fail
/// let artifacts = fullsend::Artifacts {
///     directory: "output".into(),
///     iteration: 1,
///     patch: None,
///     repository: None,
/// };
/// ```
///
/// nor from output that was not accepted:
///
/// ```compile_fail
/// fn publish(output: fullsend::internal::Quarantined) -> fullsend::internal::validate::Accepted {
///     fullsend::internal::validate::Accepted { quarantined: output, schema: String::new() }
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Artifacts {
    directory: PathBuf,
    iteration: u32,
    patch: Option<PathBuf>,
    repository: Option<PathBuf>,
}

impl Artifacts {
    /// The directory with the accepted output.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub fn iteration(&self) -> u32 {
        self.iteration
    }

    /// The patch with the changes in the repository.
    pub fn patch(&self) -> Option<&Path> {
        self.patch.as_deref()
    }

    /// A checkout of the repository with these changes.
    pub fn repository(&self) -> Option<&Path> {
        self.repository.as_deref()
    }
}

#[derive(Debug)]
pub enum PublishError {
    Move { path: PathBuf, source: std::io::Error },
    Checkout(QuarantineError),
}

impl std::fmt::Display for PublishError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Move { path, source } => write!(f, "cannot publish {}: {source}", path.display()),
            Self::Checkout(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PublishError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Move { source, .. } => Some(source),
            Self::Checkout(error) => error.source(),
        }
    }
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "accepted output is published once: publishing consumes it"
)]
pub fn publish(
    accepted: Accepted,
    worked: &AgentRepository<'_>,
    emit: &Emitter,
) -> Result<Artifacts, PublishError> {
    let quarantined = accepted.quarantined();
    let iteration = quarantined.attempt().iteration();
    let repository = lay_out(quarantined, worked)?;
    let patch = keep_patch(quarantined, "changes")?;
    let directory = promote(quarantined.directory(), "output")?;
    let files = quarantined.files().iter().map(|file| format!("output/{file}"));
    let place = directory.with_file_name("");
    for name in files.chain(patch.is_some().then(|| "changes.patch".to_owned())) {
        let path = place.join(&name);
        let bytes = std::fs::read(&path).map_err(|source| PublishError::Move { path, source })?;
        let path = format!("iteration-{iteration}/{name}");
        emit.emit(RunEvent::Artifact { path, sha256: sha256(&bytes), bytes: bytes.len() as u64 });
    }
    Ok(Artifacts { directory, iteration, patch, repository })
}

/// Keeps output that was not accepted, for people, under a name that says so. No script reads it.
pub fn set_aside(output: &Quarantined, name: &str) -> Result<PathBuf, PublishError> {
    keep_patch(output, name)?;
    promote(output.directory(), name)
}

fn lay_out(quarantined: &Quarantined, worked: &AgentRepository<'_>) -> Result<Option<PathBuf>, PublishError> {
    let Some(changes) = quarantined.changes() else { return Ok(None) };
    let place = quarantined.directory().with_file_name("repository");
    let made = checkout::checkout(worked, changes, &place).map_err(PublishError::Checkout)?;
    Ok(made.then_some(place))
}

/// Keeps the patch and removes the files that it was made from.
fn keep_patch(quarantined: &Quarantined, name: &str) -> Result<Option<PathBuf>, PublishError> {
    let Some(changes) = quarantined.changes() else { return Ok(None) };
    let to = quarantined.directory().with_file_name(format!("{name}.patch"));
    let failed = |source| PublishError::Move { path: to.clone(), source };
    std::fs::rename(&changes.patch, &to).map_err(failed)?;
    std::fs::remove_dir_all(&changes.directory).map_err(failed)?;
    Ok(Some(to))
}

fn promote(from: &Path, name: &str) -> Result<PathBuf, PublishError> {
    let to = from.with_file_name(name);
    std::fs::rename(from, &to).map(|()| to.clone()).map_err(|source| PublishError::Move { path: to, source })
}
