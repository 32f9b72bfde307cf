//! What a runtime is given: the launch spec before there is a sandbox, the launch context and the request when the agent
//! starts. Nothing here knows a runtime.

use std::path::Path;
use std::time::Duration;

use sandbox::{Mount, Sandbox};

use super::attempt::Conversation;
use super::executable::Executable;
use super::programs::Program;
use crate::cancel::Cancel;
use crate::guard::Guard;
use crate::inputs::Cleared;

/// What a runtime is fitted out from, before there is a sandbox.
pub struct LaunchSpec<'a> {
    pub cleared: &'a Cleared,
    pub guard: &'a Guard,
    /// Of the host, to be mounted.
    pub program: Option<&'a Program>,
    /// A directory on the host whose files appear read-only inside.
    pub staging: &'a Path,
    /// The repository on the host, and where it will be.
    pub repository: &'a Path,
    pub repository_inside: &'a str,
    /// The host's environment, for `${VAR}`.
    pub value: &'a dyn Fn(&str) -> Option<String>,
}

/// A directory with this one file, in place of whatever an image has there: programs read further files of the same
/// rank beside it.
pub(super) fn alone(
    spec: &LaunchSpec<'_>,
    directory: &str,
    file: &str,
    contents: &str,
) -> std::io::Result<Mount> {
    let source = spec.staging.join("managed");
    std::fs::create_dir_all(&source)?;
    std::fs::write(source.join(file), contents)?;
    Ok(Mount { target: directory.into(), kind: sandbox::MountKind::ReadOnly { source } })
}

/// Where an agent is started: made by the bootstrap, when everything is in its place.
pub struct LaunchContext<'a> {
    pub cleared: &'a Cleared,
    pub sandbox: &'a Sandbox,
    pub guard: &'a Guard,
    /// Whoever started the run may want it to end.
    pub cancel: &'a Cancel,
    pub program: Option<&'a Executable>,
    /// The repository's directory inside.
    pub repository: &'a str,
}

/// What the agent is asked to do, once.
#[derive(Clone, Debug)]
pub struct AttemptRequest {
    pub iteration: u32,
    /// What the caller tells the agent beside its request.
    pub context: Option<String>,
    /// Why the last output was rejected.
    pub feedback: Option<String>,
    /// The conversation to continue.
    pub conversation: Option<Conversation>,
    /// What is left of the run's time.
    pub time: Duration,
}
