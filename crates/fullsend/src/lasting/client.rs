//! The client's side of a lasting sandbox: connect to its owner, start a command, remove the sandbox.

use std::fmt;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sandbox::{CommandExit, channel};

use super::directory::{LastingSandbox, LastingState, SOCKET};
use super::protocol::{ExecSpec, OwnerReply, OwnerRequest, PROTOCOL};

/// Time limits of requests: a start is quick; a removal waits until every process inside has ended.
const START_LIMIT: Duration = Duration::from_secs(30);
const REMOVE_LIMIT: Duration = Duration::from_secs(30);

/// A lasting sandbox that runs.
#[derive(Clone, Debug)]
pub struct SandboxClient {
    path: PathBuf,
    id: String,
}

/// Why a request to a sandbox failed.
#[derive(Debug)]
pub enum SandboxClientError {
    NotRunning { id: String },
    OtherVersion { id: String, fullsend: String },
    Connection { id: String, source: io::Error },
    Refused { message: String, errno: Option<i32> },
    Gone { how: String },
}

impl fmt::Display for SandboxClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRunning { id } => {
                write!(f, "the sandbox {id} has ended; `fullsend sandbox logs {id}` says why")
            }
            Self::OtherVersion { id, fullsend } => write!(
                f,
                "the sandbox {id} belongs to fullsend {fullsend}, which speaks another protocol; use that version"
            ),
            Self::Connection { id, source } => write!(f, "cannot connect to the sandbox {id}: {source}"),
            Self::Refused { message, .. } => f.write_str(message),
            Self::Gone { how } => f.write_str(how),
        }
    }
}

impl std::error::Error for SandboxClientError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Connection { source, .. } => Some(source),
            Self::NotRunning { .. }
            | Self::OtherVersion { .. }
            | Self::Refused { .. }
            | Self::Gone { .. } => None,
        }
    }
}

/// How a command in a lasting sandbox ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandEnd {
    pub exit: CommandExit,
    pub timed_out: bool,
}

/// A command that was started, with our ends of its pipes.
pub struct RemoteCommand {
    pub(super) connection: RemoteConnection,
    pub(super) stdin: Option<PipeWriter>,
    pub(super) stdout: PipeReader,
    pub(super) stderr: PipeReader,
}

/// The connection of one command. When it is dropped, the command is killed with everything that it started.
pub struct RemoteConnection {
    pub(super) stream: UnixStream,
    id: String,
}

impl SandboxClient {
    pub fn open(found: &LastingSandbox) -> Result<Self, SandboxClientError> {
        let manifest = &found.manifest;
        if found.state != LastingState::Running {
            return Err(SandboxClientError::NotRunning { id: manifest.id.clone() });
        }
        if manifest.protocol != PROTOCOL {
            let fullsend = manifest.fullsend.clone();
            return Err(SandboxClientError::OtherVersion { id: manifest.id.clone(), fullsend });
        }
        Ok(Self { path: found.path.clone(), id: manifest.id.clone() })
    }

    fn failed(&self) -> impl Fn(io::Error) -> SandboxClientError {
        let id = self.id.clone();
        move |source| SandboxClientError::Connection { id: id.clone(), source }
    }

    /// Through the directory's descriptor, because the path of a socket has a short limit.
    fn connect(&self) -> io::Result<UnixStream> {
        let directory = std::fs::File::open(&self.path)?;
        UnixStream::connect(format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd()))
    }

    /// Starts a command with pipes of its own.
    pub fn exec(&self, spec: ExecSpec) -> Result<RemoteCommand, SandboxClientError> {
        let failed = self.failed();
        let (stdin_inside, stdin) = io::pipe().map_err(&failed)?;
        let (stdout, stdout_inside) = io::pipe().map_err(&failed)?;
        let (stderr, stderr_inside) = io::pipe().map_err(&failed)?;
        let inside = [stdin_inside.into(), stdout_inside.into(), stderr_inside.into()];
        let (connection, _) = self.start(spec, &inside)?;
        Ok(RemoteCommand { connection, stdin: Some(stdin), stdout, stderr })
    }

    /// Starts a command in a terminal of the sandbox's own, and returns the person's side of it.
    pub fn exec_in_terminal(
        &self,
        mut spec: ExecSpec,
    ) -> Result<(RemoteConnection, OwnedFd), SandboxClientError> {
        spec.terminal = true;
        let (connection, terminal) = self.start(spec, &[])?;
        let missing = || self.failed()(io::Error::other("it gave no terminal"));
        Ok((connection, terminal.ok_or_else(missing)?))
    }

    fn start(
        &self,
        spec: ExecSpec,
        inside: &[OwnedFd],
    ) -> Result<(RemoteConnection, Option<OwnedFd>), SandboxClientError> {
        let failed = self.failed();
        let stream = self.connect().map_err(&failed)?;
        stream.set_read_timeout(Some(START_LIMIT)).map_err(&failed)?;
        let descriptors: Vec<_> = inside.iter().map(AsFd::as_fd).collect();
        channel::send(&stream, &OwnerRequest::Exec(spec), &descriptors).map_err(&failed)?;
        let (reply, mut received) = self.reply(&stream)?;
        match reply {
            OwnerReply::Started { .. } => {}
            other => return Err(unexpected(other)),
        }
        stream.set_read_timeout(None).map_err(&failed)?;
        Ok((RemoteConnection { stream, id: self.id.clone() }, received.pop()))
    }

    fn reply(&self, stream: &UnixStream) -> Result<(OwnerReply, Vec<OwnedFd>), SandboxClientError> {
        let received = channel::receive(stream).map_err(self.failed())?;
        received.ok_or_else(|| SandboxClientError::NotRunning { id: self.id.clone() })
    }

    /// How many commands run now.
    pub fn status(&self) -> Result<u64, SandboxClientError> {
        match self.ask(&OwnerRequest::Status, START_LIMIT)? {
            OwnerReply::Status { commands } => Ok(commands),
            other => Err(unexpected(other)),
        }
    }

    /// Ends the sandbox and waits until it is gone.
    pub fn remove(&self) -> Result<(), SandboxClientError> {
        match self.ask(&OwnerRequest::Remove, REMOVE_LIMIT)? {
            OwnerReply::Removed => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    fn ask(&self, request: &OwnerRequest, limit: Duration) -> Result<OwnerReply, SandboxClientError> {
        let failed = self.failed();
        let stream = self.connect().map_err(&failed)?;
        stream.set_read_timeout(Some(limit)).map_err(&failed)?;
        channel::send(&stream, request, &[]).map_err(&failed)?;
        Ok(self.reply(&stream)?.0)
    }
}

fn unexpected(reply: OwnerReply) -> SandboxClientError {
    match reply {
        OwnerReply::Refused { message, errno } => SandboxClientError::Refused { message, errno },
        OwnerReply::Gone { how } => SandboxClientError::Gone { how },
        OwnerReply::Started { .. }
        | OwnerReply::Ended { .. }
        | OwnerReply::Removed
        | OwnerReply::Status { .. } => {
            SandboxClientError::Gone { how: "the sandbox answered something else".to_owned() }
        }
    }
}

impl RemoteCommand {
    /// A second handle of the connection. Shutting it down kills the command with everything that it started.
    pub fn duplicate_connection(&self) -> Option<UnixStream> {
        self.connection.stream.try_clone().ok()
    }
}

impl RemoteConnection {
    /// Whether the end can be read without waiting.
    pub fn has_ended(&self) -> bool {
        let mut polled = [PollFd::new(&self.stream, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut polled, Some(&now)), Ok(1..))
    }

    /// Waits for the end.
    pub fn end(&self) -> Result<CommandEnd, SandboxClientError> {
        match channel::receive(&self.stream) {
            Ok(Some((OwnerReply::Ended { exit, timed_out }, _))) => Ok(CommandEnd { exit, timed_out }),
            Ok(Some((other, _))) => Err(unexpected(other)),
            Ok(None) => Err(SandboxClientError::Gone { how: format!("the sandbox {} has ended", self.id) }),
            Err(source) => Err(SandboxClientError::Connection { id: self.id.clone(), source }),
        }
    }
}
