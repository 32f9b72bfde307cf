//! PID 1 at work: it starts what the host side asks for, passes signals on, and reaps every process that ends inside.
//! It is confined like everything it starts; when the host side's end of the socket closes, it ends and takes all along.

use super::probe;
use crate::channel;
use crate::command_exit::CommandExit;
use crate::message::{ExecRequest, InitReport, InitRequest, Stream};
use crate::step::{AtStep, StartStep, StepError};
use crate::sys;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

pub(super) struct Listener {
    child_ended: OwnedFd,
    /// Commands that still run, by pid.
    commands: HashMap<i32, u64>,
}

impl Listener {
    pub(super) fn new() -> io::Result<Self> {
        sys::block_child_signal()?;
        Ok(Self { child_ended: sys::child_signal_descriptor()?, commands: HashMap::new() })
    }

    pub(super) fn run(mut self, control: &UnixStream) -> Result<Infallible, StepError> {
        loop {
            let (asked, ended) = self.wait(control).at(StartStep::Serve, "poll")?;
            if ended {
                self.reap(control).at(StartStep::Serve, "reporting an exit")?;
            }
            if asked {
                let message = channel::receive(control).at(StartStep::Serve, "the control socket")?;
                match message {
                    Some((InitRequest::Exec(request), descriptors)) => {
                        self.exec(control, &request, descriptors)
                            .at(StartStep::Serve, "reporting a start")?;
                    }
                    Some((InitRequest::Prove(request), _)) => {
                        let report = match probe::run(&request) {
                            Ok(results) => InitReport::Proven { results },
                            Err(e) => InitReport::NotProven { why: e.to_string() },
                        };
                        channel::send(control, &report, &[]).at(StartStep::Serve, "reporting the proof")?;
                    }
                    Some((InitRequest::Signal { id, signal }, _)) => self.signal(id, signal),
                    Some((InitRequest::Begin { .. } | InitRequest::Mapped, _)) => {
                        return Err(io::Error::from(io::ErrorKind::InvalidData))
                            .at(StartStep::Serve, "a message of the handshake");
                    }
                    None => sys::exit_now(0),
                }
            }
        }
    }

    fn wait(&self, control: &UnixStream) -> io::Result<(bool, bool)> {
        let mut polled = [PollFd::new(control, PollFlags::IN), PollFd::new(&self.child_ended, PollFlags::IN)];
        match rustix::event::poll(&mut polled, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        Ok((!polled[0].revents().is_empty(), !polled[1].revents().is_empty()))
    }

    fn exec(
        &mut self,
        control: &UnixStream,
        request: &ExecRequest,
        descriptors: Vec<OwnedFd>,
    ) -> io::Result<()> {
        let report = match start(request, descriptors) {
            Ok(pid) => {
                self.commands.insert(pid, request.id);
                InitReport::Started { id: request.id, pid }
            }
            Err(e) => InitReport::NotStarted { id: request.id, errno: e.raw_os_error().unwrap_or(libc::EIO) },
        };
        channel::send(control, &report, &[])
    }

    fn signal(&self, id: u64, signal: i32) {
        let group =
            self.commands.iter().find(|(_, other)| **other == id).and_then(|(pid, _)| Pid::from_raw(*pid));
        if let (Some(group), Some(signal)) = (group, Signal::from_named_raw(signal)) {
            // It fails only when the group has just ended, which is what the sender wanted or will see.
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }

    fn reap(&mut self, control: &UnixStream) -> io::Result<()> {
        let mut drained = [0; 1024];
        // Only empties the descriptor; several ends may have become one signal, so the loop below asks.
        let _ = rustix::io::read(&self.child_ended, &mut drained);
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            if let Some(id) = self.commands.remove(&pid.as_raw_nonzero().get()) {
                channel::send(control, &InitReport::Exited { id, exit: exit_of(status) }, &[])?;
            }
        }
        Ok(())
    }
}

fn exit_of(status: WaitStatus) -> CommandExit {
    match status.terminating_signal() {
        Some(signal) => CommandExit::Signal(signal),
        None => CommandExit::Code(status.exit_status().unwrap_or(-1)),
    }
}

fn start(request: &ExecRequest, descriptors: Vec<OwnedFd>) -> io::Result<i32> {
    let mut passed = descriptors.into_iter();
    let mut stream = |stream: Stream| match stream {
        Stream::Null => Ok(Stdio::null()),
        Stream::Passed => passed.next().map(Stdio::from).ok_or(io::Error::from_raw_os_error(libc::EBADF)),
    };
    let [stdin, stdout, stderr] = request.streams;
    let (program, arguments) =
        request.arguments.split_first().ok_or(io::Error::from_raw_os_error(libc::EINVAL))?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(request.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(&request.working_directory)
        .stdin(stream(stdin)?)
        .stdout(stream(stdout)?)
        .stderr(stream(stderr)?);
    let child = sys::spawn_in_session(&mut command, request.terminal)?;
    i32::try_from(child.id()).map_err(io::Error::other)
}
