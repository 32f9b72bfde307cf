//! Where the agent's commands run: in a sandbox of this machine, or in one on an OpenShell gateway. A run starts
//! commands, reads files by descriptor and closes the sandbox; it does not need to know which of the two it has.

pub(crate) mod openshell;

use std::io::{PipeReader, PipeWriter};
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use ::sandbox::{
    CloseError, Command, CommandExit, ExecError, LimitExceeded, Process, Sandbox, Transfer, TransferCaps,
    TransferError, WaitError,
};

use openshell::OpenshellError;
use openshell::process::End;
use openshell::sandbox::{OpenshellSandbox, SignalTarget};

/// The sandbox of one agent.
pub enum AgentSandbox {
    Local(Box<Sandbox>),
    Openshell(Box<OpenshellSandbox>),
}

/// Why a command did not start, or why its exit status is unknown.
#[derive(Debug)]
pub enum CommandError {
    Exec(ExecError),
    Wait(WaitError),
    Openshell(OpenshellError),
}

impl std::fmt::Display for CommandError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exec(error) => error.fmt(f),
            Self::Wait(error) => error.fmt(f),
            Self::Openshell(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CommandError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Exec(error) => Some(error),
            Self::Wait(error) => Some(error),
            Self::Openshell(error) => Some(error),
        }
    }
}

/// Why a sandbox could not be taken down.
#[derive(Debug)]
pub enum TeardownError {
    Local(CloseError),
    /// Something is left on the gateway.
    LeftOver {
        names: String,
        gateway: String,
        why: Box<OpenshellError>,
        /// How it is deleted by hand.
        commands: String,
    },
}

impl std::fmt::Display for TeardownError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Local(error) => error.fmt(f),
            Self::LeftOver { names, gateway, why, commands } => {
                write!(f, "{names} is left on {gateway}: {why}; delete with {commands}")
            }
        }
    }
}

impl std::error::Error for TeardownError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Local(error) => Some(error),
            Self::LeftOver { why, .. } => Some(&**why),
        }
    }
}

/// A command in the agent's sandbox.
pub struct AgentProcess {
    pub stdin: Option<PipeWriter>,
    pub stdout: Option<PipeReader>,
    pub stderr: Option<PipeReader>,
    handle: Handle,
}

enum Handle {
    Local(Process),
    Openshell { end: End, target: SignalTarget },
}

impl AgentProcess {
    /// The command's pid inside the sandbox, if it is known.
    pub fn pid(&self) -> Option<i32> {
        match &self.handle {
            Handle::Local(process) => Some(process.pid()),
            Handle::Openshell { .. } => None,
        }
    }

    /// Waits until the command has ended, at most for `limit`.
    pub fn wait(&self, limit: Duration) -> Result<CommandExit, CommandError> {
        match &self.handle {
            Handle::Local(process) => process.wait(limit).map_err(CommandError::Wait),
            Handle::Openshell { end, .. } => match end.wait(limit) {
                Some(end) => end.map_err(CommandError::Openshell),
                None => Err(CommandError::Wait(WaitError::Deadline { limit })),
            },
        }
    }

    /// Sends `signal` to the command's process group. A command that has ended is not an error.
    pub fn signal(&self, signal: i32) -> Result<(), CommandError> {
        match &self.handle {
            Handle::Local(process) => process.signal(signal).map_err(CommandError::Wait),
            Handle::Openshell { target, .. } => target.signal(signal).map_err(CommandError::Openshell),
        }
    }
}

impl AgentSandbox {
    /// Starts a command.
    pub fn exec(&self, command: Command) -> Result<AgentProcess, CommandError> {
        match self {
            Self::Local(sandbox) => {
                let mut process = sandbox.exec(command).map_err(CommandError::Exec)?;
                let stdin = process.stdin.take();
                let stdout = process.stdout.take();
                let stderr = process.stderr.take();
                Ok(AgentProcess { stdin, stdout, stderr, handle: Handle::Local(process) })
            }
            Self::Openshell(sandbox) => {
                let (pipes, end, target) = sandbox.exec(command).map_err(CommandError::Openshell)?;
                let handle = Handle::Openshell { end, target };
                Ok(AgentProcess { stdin: pipes.stdin, stdout: pipes.stdout, stderr: pipes.stderr, handle })
            }
        }
    }

    /// The sandbox's root directory, for descriptor-relative access from outside. Of a sandbox on a gateway it is the copy
    /// that `collect` made last.
    pub fn root(&self) -> BorrowedFd<'_> {
        match self {
            Self::Local(sandbox) => sandbox.root(),
            Self::Openshell(sandbox) => sandbox.root(),
        }
    }

    /// Copies the files that were prepared on this machine into the sandbox. Mounted files are there already.
    pub fn deliver(&self) -> Result<(), OpenshellError> {
        match self {
            Self::Local(_) => Ok(()),
            Self::Openshell(sandbox) => sandbox.deliver(),
        }
    }

    /// Copies the changes of programs inside to the directory that `root` shows.
    pub fn collect(&self) -> Result<(), OpenshellError> {
        match self {
            Self::Local(_) => Ok(()),
            Self::Openshell(sandbox) => sandbox.collect(),
        }
    }

    /// Why the gateway lost the sandbox or one of its commands, if it did.
    pub fn lost(&self) -> Option<OpenshellError> {
        match self {
            Self::Local(_) => None,
            Self::Openshell(sandbox) => sandbox.lost(),
        }
    }

    /// The address of the model gateway inside, if it is not the usual one.
    pub fn gateway_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Local(_) => None,
            Self::Openshell(sandbox) => Some(sandbox.gateway_address()),
        }
    }

    /// Kills the commands of the run, so that their files can still be read. `None`: the caller has to ask inside.
    pub fn end_commands(&self) -> Option<Result<(), OpenshellError>> {
        match self {
            Self::Local(_) => None,
            Self::Openshell(sandbox) => Some(sandbox.end_commands()),
        }
    }

    /// Kills everything inside, at once and without waiting.
    pub fn kill(&self) {
        match self {
            Self::Local(sandbox) => sandbox.kill(),
            // `close` deletes the sandbox and everything that is left in it.
            Self::Openshell(sandbox) => drop(sandbox.end_commands()),
        }
    }

    /// The limits that were reached so far.
    pub fn exceeded(&self) -> Vec<LimitExceeded> {
        match self {
            Self::Local(sandbox) => sandbox.exceeded(),
            Self::Openshell(_) => Vec::new(),
        }
    }

    /// The upper layer of the view at `target`, where there is one.
    pub fn changed_below(&self, target: &Path) -> Option<OwnedFd> {
        match self {
            Self::Local(sandbox) => sandbox.changed_below(target),
            Self::Openshell(_) => None,
        }
    }

    /// Copies a file or a tree from inside to a new path on the host.
    pub fn download(&self, from: &Path, to: &Path, caps: TransferCaps) -> Result<Transfer, TransferError> {
        ::sandbox::download(self.root(), from, to, caps)
    }

    /// Ends everything inside and removes the sandbox.
    pub fn close(self) -> Result<(), TeardownError> {
        match self {
            Self::Local(sandbox) => sandbox.close().map_err(TeardownError::Local),
            Self::Openshell(sandbox) => sandbox.close(),
        }
    }
}
