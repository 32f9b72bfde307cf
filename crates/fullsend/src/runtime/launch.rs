//! What a runtime is given: the launch spec before the sandbox exists, the launch context and the request when the agent
//! starts.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use sandbox::Mount;

use super::attempt::Conversation;
use super::executable::Executable;
use super::programs::Program;
use crate::backend::AgentSandbox;
use crate::cancel::Cancel;
use crate::guard::Guard;
use crate::inputs::ScannedInputs;

/// What a runtime needs before the sandbox exists.
pub struct LaunchSpec<'a> {
    pub inputs: &'a ScannedInputs,
    pub guard: &'a Guard,
    /// The program of the host, to be mounted.
    pub program: Option<&'a Program>,
    /// A directory on the host whose files appear read-only inside.
    pub staging: &'a Path,
    /// The repository on the host.
    pub repository: &'a Path,
    /// Its directory inside.
    pub repository_inside: &'a str,
    /// The host's environment, for `${VAR}`.
    pub value: &'a dyn Fn(&str) -> Option<String>,
}

/// Mounts a directory with this one file over what an image has there: programs also read other files in it.
pub(super) fn mount_only(
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

/// What a runtime needs to start its agent. The bootstrap makes it.
pub struct LaunchContext<'a> {
    pub inputs: &'a ScannedInputs,
    pub sandbox: &'a AgentSandbox,
    pub guard: &'a Guard,
    /// Set when the caller cancels the run.
    pub cancel: &'a Cancel,
    pub program: Option<&'a Executable>,
    /// The agent's variables, without those of an image.
    pub variables: &'a [(OsString, OsString)],
    /// The repository's directory inside.
    pub repository: &'a str,
}

/// What the agent is asked to do in one attempt.
#[derive(Clone, Debug)]
pub struct AttemptRequest {
    pub iteration: u32,
    /// The caller's text for the agent, beside its task.
    pub context: Option<String>,
    /// Why the last output was rejected.
    pub feedback: Option<String>,
    /// The conversation to continue.
    pub conversation: Option<Conversation>,
    /// The remaining time of the run.
    pub time: Duration,
}
