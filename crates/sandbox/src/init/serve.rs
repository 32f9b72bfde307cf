//! PID 1 at work: it starts what the host side asks for, passes signals on, and reaps every process that ends inside.
//! It is confined like everything it starts; when the host side's end of the socket closes, it ends, and all processes
//! inside end with it.

use super::command_tree::{self, CommandTree};
use super::probe;
use crate::channel;
use crate::command_exit::CommandExit;
use crate::message::{ExecRequest, InitReport, InitRequest, Stream};
use crate::step::{StartStep, StepContext, StepError};
use crate::sys;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

pub(super) struct Listener {
    child_ended: OwnedFd,
    /// Commands that still run, by pid.
    commands: HashMap<i32, u64>,
    /// Commands that can be ended with everything that they started.
    trees: Vec<CommandTree>,
}

impl Listener {
    pub(super) fn new() -> io::Result<Self> {
        sys::block_child_signal()?;
        Ok(Self { child_ended: sys::child_signal_descriptor()?, commands: HashMap::new(), trees: Vec::new() })
    }

    pub(super) fn run(mut self, control: &UnixStream) -> Result<Infallible, StepError> {
        loop {
            let (asked, ended) = self.wait(control).at(StartStep::Serve, "poll")?;
            self.report_trees(control).at(StartStep::Serve, "reporting an exit")?;
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
                    Some((InitRequest::KillTree { id }, _)) => self.kill_tree(id),
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
        let reports: Vec<_> = self.trees.iter().map(CommandTree::reports).collect();
        let mut polled =
            vec![PollFd::new(control, PollFlags::IN), PollFd::new(&self.child_ended, PollFlags::IN)];
        polled.extend(reports.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
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
        let report = match self.start(request, descriptors) {
            Ok(Some(pid)) => InitReport::Started { id: request.id, pid },
            Ok(None) => {
                self.kill_orphans();
                channel::send(control, &InitReport::Started { id: request.id, pid: 0 }, &[])?;
                let exit = CommandExit::Signal(Signal::KILL.as_raw());
                InitReport::Exited { id: request.id, exit }
            }
            Err(e) => InitReport::NotStarted { id: request.id, errno: e.raw_os_error().unwrap_or(libc::EIO) },
        };
        channel::send(control, &report, &[])
    }

    /// The command's pid; `None` if it is gone already.
    fn start(&mut self, request: &ExecRequest, descriptors: Vec<OwnedFd>) -> io::Result<Option<i32>> {
        let mut command = prepare(request, descriptors)?;
        if request.whole_tree {
            let tree = CommandTree::start(request.id, command, request.terminal)?;
            let pid = tree.as_ref().and_then(|tree| tree.command);
            self.trees.extend(tree);
            return Ok(pid);
        }
        let child = sys::spawn_in_session(&mut command, request.terminal)?;
        let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
        self.commands.insert(pid, request.id);
        Ok(Some(pid))
    }

    /// Kills processes that belong to no known command. They are left when an adopter is killed.
    fn kill_orphans(&self) {
        let known = self.trees.iter().map(|tree| tree.adopter).chain(self.commands.keys().copied());
        command_tree::kill_below(&BTreeSet::from([1]), &known.collect());
    }

    fn process_of(&self, id: u64) -> Option<Pid> {
        let plain = self.commands.iter().find(|(_, other)| **other == id).map(|(pid, _)| *pid);
        let tree = || self.trees.iter().find(|tree| tree.id == id).and_then(|tree| tree.command);
        plain.or_else(tree).and_then(Pid::from_raw)
    }

    fn kill_tree(&self, id: u64) {
        match self.trees.iter().find(|tree| tree.id == id) {
            Some(tree) => tree.kill(),
            None => self.signal(id, Signal::KILL.as_raw()),
        }
    }

    fn report_trees(&mut self, control: &UnixStream) -> io::Result<()> {
        for tree in &mut self.trees {
            if let Some(exit) = tree.ended() {
                channel::send(control, &InitReport::Exited { id: tree.id, exit }, &[])?;
            }
        }
        Ok(())
    }

    /// Forgets a tree whose adopter has ended. If the adopter was killed, its orphans belong to no tree any more and
    /// are killed.
    fn end_tree(&mut self, adopter: i32, status: WaitStatus, control: &UnixStream) -> io::Result<()> {
        let Some(index) = self.trees.iter().position(|tree| tree.adopter == adopter) else { return Ok(()) };
        let mut tree = self.trees.swap_remove(index);
        let reported = tree.ended();
        if status.exit_status() != Some(0) {
            self.kill_orphans();
        }
        let killed = tree.command.map(|_| CommandExit::Signal(Signal::KILL.as_raw()));
        if let Some(exit) = reported.or(killed) {
            channel::send(control, &InitReport::Exited { id: tree.id, exit }, &[])?;
        }
        Ok(())
    }

    fn signal(&self, id: u64, signal: i32) {
        let group = self.process_of(id);
        if let (Some(group), Some(signal)) = (group, Signal::from_named_raw(signal)) {
            // It fails only when the group has just ended, so the error can be ignored.
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }

    fn reap(&mut self, control: &UnixStream) -> io::Result<()> {
        let mut drained = [0; 1024];
        // Only empties the descriptor. Several exits may arrive as one signal, so the loop below asks for each.
        let _ = rustix::io::read(&self.child_ended, &mut drained);
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            let pid = pid.as_raw_nonzero().get();
            match self.commands.remove(&pid) {
                Some(id) => channel::send(control, &InitReport::Exited { id, exit: exit_of(status) }, &[])?,
                None => self.end_tree(pid, status, control)?,
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

fn prepare(request: &ExecRequest, descriptors: Vec<OwnedFd>) -> io::Result<Command> {
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
    Ok(command)
}
