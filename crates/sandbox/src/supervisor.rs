//! The one thread that a sandbox has on the host side: it spawns `__init`, speaks the handshake, passes on PID 1's
//! reports, and waits until all processes have ended. The kernel kills `__init` when this thread ends, so it lives as
//! long as the sandbox; nothing else is ever spawned from it.

use crate::channel::{self, Received};
use crate::describe::Description;
use crate::error::StartError;
use crate::identity::Mapping;
use crate::limits::Cgroup;
use crate::message::{InitReport, InitRequest};
use crate::shared::{ProcessState, Shared};
use crate::spec::{InitProgram, SandboxIdentity, SandboxSpec};
use crate::step::{StartStep, StepContext};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// The longest pause between two messages of the handshake.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// What the thread needs.
pub(crate) struct SupervisorTask {
    pub(crate) spec: SandboxSpec,
    pub(crate) mapping: Mapping,
    pub(crate) cgroup: Arc<Cgroup>,
    pub(crate) init_socket: UnixStream,
}

/// The result of the handshake.
pub(crate) struct SupervisorHandshake {
    pub(crate) pid: Pid,
    pub(crate) root: OwnedFd,
    pub(crate) sockets: Vec<OwnedFd>,
    pub(crate) description: Description,
}

/// The body of the thread. The outcome of the start goes through `outcome`; then it serves until the end.
pub(crate) fn supervise(
    work: SupervisorTask,
    shared: &Arc<Shared>,
    outcome: &Sender<Result<SupervisorHandshake, StartError>>,
) {
    let mut handshake = Handshake::new(&work);
    let result = handshake.run(work, shared);
    let failed = result.is_err();
    if failed {
        handshake.kill();
    }
    // The receiver exists as long as the start, which waits for us.
    drop(outcome.send(result));
    if !failed {
        dispatch_reports(shared);
    }
    shared.mark_gone(&reap());
}

struct Handshake {
    identity: (SandboxIdentity, Mapping),
    pid: Option<Pid>,
    sockets: Vec<OwnedFd>,
    init: Option<std::process::Child>,
}

impl Handshake {
    fn new(work: &SupervisorTask) -> Self {
        Self { identity: (work.spec.identity, work.mapping), pid: None, sockets: Vec::new(), init: None }
    }

    fn run(&mut self, work: SupervisorTask, shared: &Shared) -> Result<SupervisorHandshake, StartError> {
        let SupervisorTask { spec, mapping, cgroup, init_socket } = work;
        let socket = &shared.socket;
        spec.defences.reach(StartStep::Spawn)?;
        self.init = Some(spawn_init(&spec.init, init_socket)?);
        socket.set_read_timeout(Some(HANDSHAKE_LIMIT)).at(StartStep::Handshake, "the control socket")?;
        spec.defences.reach(StartStep::Handshake)?;
        let admissions = cgroup.admissions().into_iter().map(OsString::from).collect();
        let begin = InitRequest::Begin { spec: Box::new(spec), mapping, admissions };
        channel::send(socket, &begin, &[]).at(StartStep::Handshake, "sending the spec")?;
        loop {
            if let Some(started) = self.next(shared)? {
                socket.set_read_timeout(None).at(StartStep::Handshake, "the control socket")?;
                return Ok(started);
            }
        }
    }

    fn next(&mut self, shared: &Shared) -> Result<Option<SupervisorHandshake>, StartError> {
        let received = match channel::receive_from::<InitReport>(&shared.socket) {
            Ok(Some(message)) => message,
            Ok(None) => return Err(self.start_failure("closed its socket")),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                return Err(StartError::Timeout { after: self.last_step(), limit: HANDSHAKE_LIMIT });
            }
            Err(e) if e.kind() == io::ErrorKind::ConnectionReset => return Err(self.start_failure("died")),
            Err(source) => {
                return Err(StartError::Step {
                    step: StartStep::Handshake,
                    on: "a report".to_owned(),
                    source,
                });
            }
        };
        let Received { message, descriptors, sender } = received;
        match message {
            InitReport::PidOne => {
                let pid = sender.ok_or_else(|| self.start_failure("has no pid here"))?;
                let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty());
                self.pid = Some(pid);
                shared.set_pidfd(pidfd.at(StartStep::BecomePidOne, "a descriptor for PID 1")?);
                Ok(None)
            }
            InitReport::Unshared => {
                self.map_identity()?;
                channel::send(&shared.socket, &InitRequest::Mapped, &[])
                    .at(StartStep::MapIdentity, "telling so")?;
                Ok(None)
            }
            InitReport::Sockets { .. } => {
                self.sockets.extend(descriptors);
                Ok(None)
            }
            InitReport::Ready { description } => self.ready(description, descriptors).map(Some),
            InitReport::Failed { step, on, errno } => {
                Err(StartError::Step { step, on, source: io::Error::from_raw_os_error(errno) })
            }
            InitReport::Started { .. }
            | InitReport::NotStarted { .. }
            | InitReport::Exited { .. }
            | InitReport::Proven { .. }
            | InitReport::NotProven { .. } => Err(self.start_failure("sent an unexpected message")),
        }
    }

    fn ready(
        &mut self,
        description: Description,
        descriptors: Vec<OwnedFd>,
    ) -> Result<SupervisorHandshake, StartError> {
        let root = descriptors.into_iter().next();
        let (Some(pid), Some(root)) = (self.pid, root) else {
            return Err(self.start_failure("reported that it is ready without a pid or a root"));
        };
        Ok(SupervisorHandshake { pid, root, sockets: std::mem::take(&mut self.sockets), description })
    }

    /// Writes the identity map. Only a process outside the new user namespace may do this.
    fn map_identity(&self) -> Result<(), StartError> {
        let (identity, Mapping::Fresh { id }) = self.identity else {
            return Err(self.start_failure("asked for an identity map that it can write itself"));
        };
        let Some(init) = &self.init else {
            return Err(self.start_failure("asked for an identity map before it was started"));
        };
        let maps = [("uid_map", identity.uid), ("gid_map", identity.gid)];
        for (name, inside) in maps {
            let path = format!("/proc/{}/{name}", init.id());
            std::fs::write(&path, format!("{inside} {id} 1")).at(StartStep::MapIdentity, path)?;
        }
        Ok(())
    }

    fn last_step(&self) -> StartStep {
        if self.pid.is_some() { StartStep::BecomePidOne } else { StartStep::Handshake }
    }

    fn start_failure(&self, how: &str) -> StartError {
        StartError::InitDied { after: self.last_step(), how: how.to_owned() }
    }

    fn kill(&mut self) {
        // A process that cannot be signalled has ended already; `reap` waits for all of them.
        if let Some(pid) = self.pid {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        if let Some(init) = &mut self.init {
            drop(init.kill());
        }
    }
}

/// Sets no working directory and runs no code between fork and exec, so that the standard library need not copy this
/// process, which may be large.
fn spawn_init(init: &InitProgram, socket: UnixStream) -> Result<std::process::Child, StartError> {
    let child = std::process::Command::new(&init.path)
        .arg(&init.argument)
        .env_clear()
        .stdin(OwnedFd::from(socket))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .at(StartStep::Spawn, init.path.display())?;
    Ok(child)
}

fn dispatch_reports(shared: &Shared) {
    while let Ok(Some((report, _))) = channel::receive::<InitReport>(&shared.socket) {
        match report {
            InitReport::Started { id, pid } => shared.update(id, ProcessState::Running { pid }),
            InitReport::NotStarted { id, errno } => shared.update(id, ProcessState::NotStarted { errno }),
            InitReport::Exited { id, exit } => shared.update(id, ProcessState::Exited(exit)),
            InitReport::Proven { results } => shared.proven(Ok(results)),
            InitReport::NotProven { why } => shared.proven(Err(why)),
            // Only valid during the handshake; later PID 1 is broken.
            InitReport::Unshared
            | InitReport::PidOne
            | InitReport::Sockets { .. }
            | InitReport::Ready { .. }
            | InitReport::Failed { .. } => {
                break;
            }
        }
    }
    // Without its channel PID 1 is useless, whether it closed the channel or broke the protocol.
    shared.kill();
}

/// Waits until every child of this thread has ended: `__init` and PID 1, which ends after everything inside has.
fn reap() -> String {
    /// Only children of this very thread; others belong to other parts of the program.
    const NOT_OF_OTHER_THREADS: u32 = 0x2000_0000;
    let mut how = "it never started".to_owned();
    loop {
        match rustix::process::wait(WaitOptions::from_bits_retain(NOT_OF_OTHER_THREADS)) {
            Ok(Some((_, status))) => how = describe_status(status),
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return how,
        }
    }
}

fn describe_status(status: rustix::process::WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("PID 1 exited with {code}"),
        (None, Some(signal)) => format!("PID 1 was killed by signal {signal}"),
        (None, None) => "PID 1 ended".to_owned(),
    }
}
