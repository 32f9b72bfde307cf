//! A running sandbox on the host side: start, commands, sockets, description, end.

use crate::describe::Description;
use crate::error::{CloseError, ExecError, StartError};
use crate::identity::{self, Mapping};
use crate::message::{ExecRequest, Request, Stream};
use crate::process::{Command, Process};
use crate::proof::{ProbeRequest, Proof, ProofError, ProofSpec};
use crate::shared::Shared;
use crate::spec::{SandboxSpec, SocketKind};
use crate::state;
use crate::step::{AtStep, Step};
use crate::streams;
use crate::supervisor::{self, Started};
use rustix::process::Pid;
use std::ffi::OsString;
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::Duration;

const EXEC_LIMIT: Duration = Duration::from_secs(10);
const CLOSE_LIMIT: Duration = Duration::from_secs(5);

/// A sandbox that is up. It ends with `close`, with this value, or with this process, whichever comes first.
pub struct Sandbox {
    shared: Arc<Shared>,
    pid: Pid,
    root: OwnedFd,
    sockets: Vec<Socket>,
    description: Description,
    environment: Vec<(OsString, OsString)>,
    state_directory: PathBuf,
    next_id: std::sync::atomic::AtomicU64,
    closed: bool,
}

/// A socket that lives in the sandbox's network and is served from here.
#[derive(Debug)]
pub enum Socket {
    Tcp(TcpListener),
    Udp(UdpSocket),
}

impl Sandbox {
    /// Builds the sandbox. When this returns an error, nothing of it is left.
    pub fn start(spec: SandboxSpec) -> Result<Self, StartError> {
        crate::check::check(&spec)?;
        let mapping = identity::choose();
        let state_directory = spec.state_directory.clone();
        state::make(&state_directory, mapping)?; // undone below or in `close`
        let started = Self::start_in_state(spec, mapping);
        if started.is_err() {
            drop(state::remove(&state_directory));
        }
        started
    }

    fn start_in_state(spec: SandboxSpec, mapping: Mapping) -> Result<Self, StartError> {
        let environment = spec.environment.clone();
        let state_directory = spec.state_directory.clone();
        let kinds: Vec<SocketKind> = spec.network.sockets.iter().map(|socket| socket.kind).collect();
        let (host, init) = UnixStream::pair().at(Step::Handshake, "the control socket")?;
        let shared = Arc::new(Shared::new(host));
        let (sender, receiver) = mpsc::channel();
        let for_thread = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("sandbox".to_owned())
            .spawn(move || supervisor::supervise(spec, mapping, init, &for_thread, &sender))
            .at(Step::Spawn, "the supervising thread")?;
        let gone = || StartError::InitDied { after: Step::Spawn, how: "lost its supervisor".to_owned() };
        let started = match receiver.recv().map_err(|_| gone()) {
            Ok(Ok(started)) => started,
            Ok(Err(error)) | Err(error) => {
                shared.wait_until_gone(CLOSE_LIMIT);
                return Err(error);
            }
        };
        let Started { pid, root, sockets, description } = started;
        let sockets = kinds.into_iter().zip(sockets).map(|(kind, fd)| Socket::new(kind, fd)).collect();
        Ok(Self {
            shared,
            pid,
            root,
            sockets,
            description,
            environment,
            state_directory,
            next_id: std::sync::atomic::AtomicU64::new(1),
            closed: false,
        })
    }

    /// The sockets of the spec, in its order. A second call gives none.
    pub fn take_sockets(&mut self) -> Vec<Socket> {
        std::mem::take(&mut self.sockets)
    }

    /// What is enforced, watched or absent, as it really is.
    pub fn describe(&self) -> &Description {
        &self.description
    }

    /// PID 1 of the sandbox, as the host numbers it; its descendants are everything inside.
    pub fn host_pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().cast_unsigned()
    }

    /// The sandbox's root directory, for descriptor-relative access from outside.
    pub fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Starts a command in the sandbox's full confinement.
    pub fn exec(&self, command: Command) -> Result<Process, ExecError> {
        let Command { arguments, environment, working_directory, stdin, stdout, stderr, terminal } = command;
        let program = arguments.first().map(|first| first.to_string_lossy().into_owned()).unwrap_or_default();
        let stdin = streams::input(stdin)?;
        let stdout = streams::output(stdout)?;
        let stderr = streams::output(stderr)?;
        let inside = [&stdin.inside, &stdout.inside, &stderr.inside];
        let streams = inside.map(|fd| if fd.is_some() { Stream::Passed } else { Stream::Null });
        let descriptors: Vec<BorrowedFd<'_>> = inside.into_iter().flatten().map(AsFd::as_fd).collect();
        let id = self.next_id.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let request = Request::Exec(ExecRequest {
            id,
            arguments,
            environment: streams::merged(&self.environment, &environment),
            working_directory: working_directory.into_os_string(),
            streams,
            terminal,
        });
        self.shared.expect(id);
        let sent = self.shared.send(&request, &descriptors);
        sent.map_err(|_| ExecError::Gone { how: self.shared.how_it_ended() })?;
        let pid = self.shared.wait_for_start(id, &program, EXEC_LIMIT)?;
        Ok(Process {
            stdin: stdin.outside,
            stdout: stdout.outside,
            stderr: stderr.outside,
            id,
            pid,
            shared: Arc::clone(&self.shared),
        })
    }

    /// Shows from inside that the isolation holds: a secret is planted in the state directory, and a process inside
    /// tries to reach it and much else. Anything unexpected is an error, and then nothing else may run in here.
    pub fn prove(&self, spec: &ProofSpec) -> Result<Proof, ProofError> {
        let ProofSpec { unreachable, unresolvable, readable, writable } = spec.clone();
        let secret = self.state_directory.join("proof-secret");
        fs::write(&secret, "a sandbox must not read this")
            .map_err(|e| ProofError::NotDone { why: e.to_string() })?;
        let request = ProbeRequest {
            secret_path: secret.clone().into_os_string(),
            unreachable,
            unresolvable,
            readable: readable.map(PathBuf::into_os_string),
            writable: writable.map(PathBuf::into_os_string),
        };
        let results = self.shared.prove(request, EXEC_LIMIT);
        // It goes with the state directory at the latest.
        drop(fs::remove_file(&secret));
        let proof = Proof { results: results.map_err(|why| ProofError::NotDone { why })? };
        if proof.results.iter().all(|result| result.held) {
            Ok(proof)
        } else {
            Err(ProofError::NotHeld { proof })
        }
    }

    /// Kills everything inside, at once and without waiting.
    pub fn kill(&self) {
        self.shared.kill();
    }

    /// Kills everything, waits until it is gone (at most five seconds), and removes the state directory.
    pub fn close(mut self) -> Result<(), CloseError> {
        self.take_down()
    }

    fn take_down(&mut self) -> Result<(), CloseError> {
        self.closed = true;
        self.shared.kill();
        if !self.shared.wait_until_gone(CLOSE_LIMIT) {
            return Err(CloseError::Alive {
                pids: crate::tree::processes_under(self.pid),
                limit: CLOSE_LIMIT,
            });
        }
        state::remove(&self.state_directory)
            .map_err(|source| CloseError::State { path: self.state_directory.clone(), source })
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if !self.closed {
            // A caller that wants to know calls `close`.
            drop(self.take_down());
        }
    }
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sandbox")
            .field("pid", &self.pid)
            .field("state", &self.state_directory)
            .finish_non_exhaustive()
    }
}

impl Socket {
    fn new(kind: SocketKind, fd: OwnedFd) -> Self {
        match kind {
            SocketKind::TcpListener => Self::Tcp(TcpListener::from(fd)),
            SocketKind::Udp => Self::Udp(UdpSocket::from(fd)),
        }
    }
}
