//! A running sandbox on the host side: commands, sockets, description, proof, end.

use crate::describe::Description;
use crate::error::{CloseError, ExecError};
use crate::identity::Mapping;
use crate::limits::{self, Cgroup, LimitExceeded};
use crate::message::{ExecRequest, InitRequest, Stream};
use crate::process::{Command, Process};
use crate::proof::{ProbeRequest, Proof, ProofError, ProofSpec};
use crate::shared::Shared;
use crate::state_directory::{self, StateDirectory};
use crate::terminal::{self, Terminal};
use crate::transfer::{self, Transfer, TransferCaps, TransferError};
use crate::{process_tree, streams};
use rustix::fs::{Mode, OFlags};
use rustix::process::Pid;
use std::ffi::OsString;
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

const EXEC_LIMIT: Duration = Duration::from_secs(10);
const CLOSE_LIMIT: Duration = Duration::from_secs(5);
/// How many processes a message names at most.
const MAX_NAMED: usize = 64;

/// A sandbox that is up. It ends with `close`, with this value, or with this process, whichever comes first.
pub struct Sandbox {
    parts: SandboxParts,
    next_id: AtomicU64,
    closed: bool,
}

/// The parts of a started sandbox.
pub(crate) struct SandboxParts {
    pub(crate) shared: Arc<Shared>,
    pub(crate) pid: Pid,
    pub(crate) mapping: Mapping,
    pub(crate) root: OwnedFd,
    pub(crate) sockets: Vec<Socket>,
    pub(crate) description: Description,
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) state: StateDirectory,
    /// The targets of views, and the numbers of their upper layers.
    pub(crate) uppers: Vec<(PathBuf, usize)>,
    pub(crate) cgroup: Arc<Cgroup>,
}

/// A socket that lives in the sandbox's network and is served from here.
#[derive(Debug)]
pub enum Socket {
    Tcp(TcpListener),
    Udp(UdpSocket),
}

impl Sandbox {
    pub(crate) fn new(parts: SandboxParts) -> Self {
        Self { parts, next_id: AtomicU64::new(1), closed: false }
    }

    /// Takes the sockets of the spec, in its order. A second call returns none.
    pub fn take_sockets(&mut self) -> Vec<Socket> {
        std::mem::take(&mut self.parts.sockets)
    }

    /// What is really enforced, watched or absent.
    pub fn describe(&self) -> &Description {
        &self.parts.description
    }

    /// PID 1 of the sandbox, as the host numbers it; its descendants are everything inside.
    pub fn host_pid(&self) -> u32 {
        self.parts.pid.as_raw_nonzero().get().cast_unsigned()
    }

    /// The sandbox's root directory, for descriptor-relative access from outside.
    pub fn root(&self) -> BorrowedFd<'_> {
        self.parts.root.as_fd()
    }

    /// The upper layer of the view at `target`: only paths in this layer differ from the host's directory. `None` where
    /// it is not on disk, or the view is a copy.
    pub fn changed_below(&self, target: &Path) -> Option<OwnedFd> {
        let (_, index) = self.parts.uppers.iter().find(|(place, _)| place == target)?;
        let path = state_directory::layers(self.parts.state.path()).join(state_directory::upper(*index));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, Mode::empty()).ok()
    }

    /// Starts a command in the sandbox's full confinement.
    pub fn exec(&self, command: Command) -> Result<Process, ExecError> {
        let Command {
            arguments,
            environment,
            working_directory,
            stdin,
            stdout,
            stderr,
            terminal,
            whole_tree,
        } = command;
        let program = arguments.first().map(|first| first.to_string_lossy().into_owned()).unwrap_or_default();
        let stdin = streams::input(stdin)?;
        let stdout = streams::output(stdout)?;
        let stderr = streams::output(stderr)?;
        let inside = [&stdin.inside, &stdout.inside, &stderr.inside];
        let streams = inside.map(|fd| if fd.is_some() { Stream::Passed } else { Stream::Null });
        let descriptors: Vec<BorrowedFd<'_>> = inside.into_iter().flatten().map(AsFd::as_fd).collect();
        let id = self.next_id.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let request = InitRequest::Exec(ExecRequest {
            id,
            arguments,
            environment: streams::merged(&self.parts.environment, &environment),
            working_directory: working_directory.into_os_string(),
            streams,
            terminal,
            whole_tree,
        });
        self.parts.shared.expect(id);
        let sent = self.parts.shared.send(&request, &descriptors);
        sent.map_err(|_| ExecError::Gone { how: self.parts.shared.how_it_ended() })?;
        let pid = self.parts.shared.wait_for_start(id, &program, EXEC_LIMIT)?;
        Ok(Process {
            stdin: stdin.outside,
            stdout: stdout.outside,
            stderr: stderr.outside,
            id,
            pid,
            shared: Arc::clone(&self.parts.shared),
        })
    }

    /// A terminal of the sandbox's own, for a command that a person talks to.
    pub fn open_terminal(&self) -> std::io::Result<Terminal> {
        terminal::open(self.root(), self.parts.mapping)
    }

    /// Tests the isolation from inside: a secret is placed in the state directory, and a process inside tries to reach
    /// it and other things. Any unexpected result is an error; then nothing else may run in the sandbox.
    pub fn prove(&self, spec: &ProofSpec) -> Result<Proof, ProofError> {
        let ProofSpec { unreachable, unresolvable, readable, writable } = spec.clone();
        let secret = self.parts.state.path().join("proof-secret");
        fs::write(&secret, "a sandbox must not read this")
            .map_err(|e| ProofError::NotDone { why: e.to_string() })?;
        let request = ProbeRequest {
            secret_path: secret.clone().into_os_string(),
            unreachable,
            unresolvable,
            readable: readable.map(PathBuf::into_os_string),
            writable: writable.map(PathBuf::into_os_string),
        };
        let results = self.parts.shared.prove(request, EXEC_LIMIT);
        // If this fails, it is removed with the state directory.
        drop(fs::remove_file(&secret));
        let proof = Proof { results: results.map_err(|why| ProofError::NotDone { why })? };
        if proof.results.iter().all(|result| result.held) {
            Ok(proof)
        } else {
            Err(ProofError::NotHeld { proof })
        }
    }

    /// Copies a file or a tree of the host to a new path inside. Links in it are left out.
    pub fn upload(&self, from: &Path, to: &Path, caps: TransferCaps) -> Result<Transfer, TransferError> {
        transfer::upload(self.root(), self.parts.mapping, from, to, caps)
    }

    /// Copies a file or a tree from inside to a new path on the host. Links and special files in it are left out.
    pub fn download(&self, from: &Path, to: &Path, caps: TransferCaps) -> Result<Transfer, TransferError> {
        transfer::download(self.root(), from, to, caps)
    }

    /// Kills everything inside, at once and without waiting.
    pub fn kill(&self) {
        self.parts.shared.kill();
    }

    /// Kills everything, waits until it is gone (at most five seconds), and removes the state directory.
    pub fn close(mut self) -> Result<(), CloseError> {
        self.take_down()
    }

    /// The limits that were reached so far, as the watchdog and the kernel counted them.
    pub fn exceeded(&self) -> Vec<LimitExceeded> {
        self.parts.shared.exceeded().into_iter().chain(self.parts.cgroup.exceeded()).collect()
    }

    fn take_down(&mut self) -> Result<(), CloseError> {
        self.closed = true;
        let SandboxParts { shared, pid, state, cgroup, .. } = &self.parts;
        shared.kill();
        if !shared.wait_until_gone(CLOSE_LIMIT) {
            return Err(CloseError::Alive {
                pids: process_tree::processes_under(*pid, MAX_NAMED),
                limit: CLOSE_LIMIT,
            });
        }
        let fail = |path: &Path| {
            let path = path.to_path_buf();
            move |source| CloseError::State { path, source }
        };
        for directory in cgroup.directories() {
            limits::remove_cgroup(directory).map_err(fail(directory))?;
        }
        state.remove().map_err(fail(state.path()))
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if !self.closed {
            // A caller that needs the result calls `close`.
            drop(self.take_down());
        }
    }
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sandbox")
            .field("pid", &self.parts.pid)
            .field("state", &self.parts.state.path())
            .finish_non_exhaustive()
    }
}
