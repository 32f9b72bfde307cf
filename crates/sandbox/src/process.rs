//! A command inside the sandbox, as the host side sees it: what to run, its pipes, its end.

use crate::command_exit::CommandExit;
use crate::error::WaitError;
use crate::shared::Shared;
use std::ffi::OsString;
use std::io::{PipeReader, PipeWriter};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What to run. The environment is the spec's with these on top, and nothing else.
#[derive(Debug)]
pub struct Command {
    /// The first is the program: a path inside, or a name that is looked up in the command's own `PATH`.
    pub arguments: Vec<OsString>,
    pub environment: Vec<(OsString, OsString)>,
    pub working_directory: PathBuf,
    pub stdin: Stdio,
    pub stdout: Stdio,
    pub stderr: Stdio,
    /// Make standard input the controlling terminal of the command's session.
    pub terminal: bool,
    /// Keep track of everything that the command starts, so that `kill_tree` ends it. Costs one more small process.
    pub whole_tree: bool,
}

impl Command {
    /// A command with nothing attached to it, in `/`.
    pub fn new<A: Into<OsString>>(arguments: impl IntoIterator<Item = A>) -> Self {
        Self {
            arguments: arguments.into_iter().map(Into::into).collect(),
            environment: Vec::new(),
            working_directory: PathBuf::from("/"),
            stdin: Stdio::Null,
            stdout: Stdio::Null,
            stderr: Stdio::Null,
            terminal: false,
            whole_tree: false,
        }
    }
}

/// Where a standard stream of a command goes.
#[derive(Debug)]
pub enum Stdio {
    Null,
    /// To a pipe whose other end is in the `Process`.
    Pipe,
    Descriptor(OwnedFd),
}

/// A command that was started. Dropping it leaves the command running until the sandbox is closed.
pub struct Process {
    pub stdin: Option<PipeWriter>,
    pub stdout: Option<PipeReader>,
    pub stderr: Option<PipeReader>,
    pub(crate) id: u64,
    pub(crate) pid: i32,
    pub(crate) shared: Arc<Shared>,
}

impl Process {
    /// The pid that the command sees itself under.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Waits until the command has ended, at most for `limit`.
    pub fn wait(&self, limit: Duration) -> Result<CommandExit, WaitError> {
        self.shared.wait_for_exit(self.id, limit)
    }

    /// Sends `signal` to the command's process group. A command that has ended is not an error.
    pub fn signal(&self, signal: i32) -> Result<(), WaitError> {
        self.shared.signal(self.id, signal)
    }

    /// Kills the command with everything that it started; without `Command::whole_tree`, its process group.
    pub fn kill_tree(&self) -> Result<(), WaitError> {
        self.shared.kill_tree(self.id)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A sandbox may run many commands; the exit status of one that no caller waits for is not kept.
        self.shared.forget(self.id);
    }
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process").field("id", &self.id).field("pid", &self.pid).finish_non_exhaustive()
    }
}
