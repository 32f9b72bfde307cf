//! One client's connection to the owner: a command from its start to its end, the sandbox's status, or its removal.
//! When a client disconnects, its command is killed.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sandbox::{Command, CommandExit, ExecError, Process, Stdio, WaitError, channel};

use super::owned::{OwnedSandbox, STACK_BYTES};
use super::protocol::{ExecPurpose, ExecSpec, OwnerReply, OwnerRequest};
use crate::event::exit::{exited, signalled};
use crate::event::lasting::TransferDirection;
use crate::event::{LastingEvent, RunEvent};

/// How long to wait for a client's first message.
const FIRST_REQUEST_LIMIT: Duration = Duration::from_secs(5);
/// How long a killed tree may take to die.
const KILL_LIMIT: Duration = Duration::from_secs(10);
/// The most commands that may run at once.
const MAX_COMMANDS: u64 = 256;
/// The most bytes of a command line that are recorded.
const MAX_ARGUMENTS: usize = 50;

pub fn serve(stream: UnixStream, owner: &OwnedSandbox) {
    if stream.set_read_timeout(Some(FIRST_REQUEST_LIMIT)).is_err() {
        return;
    }
    let Ok(Some((request, descriptors))) = channel::receive::<OwnerRequest>(&stream) else { return };
    // If the client is gone, the answer is not needed.
    match request {
        OwnerRequest::Exec(spec) => exec(&stream, owner, &spec, descriptors),
        OwnerRequest::Remove => owner.remove(stream),
        OwnerRequest::Status => {
            let commands = owner.commands.load(Ordering::SeqCst);
            drop(channel::send(&stream, &OwnerReply::Status { commands }, &[]));
        }
        OwnerRequest::Signal { .. } => refuse(&stream, "a signal needs a command"),
    }
}

fn refuse(stream: &UnixStream, message: impl Into<String>) {
    drop(channel::send(stream, &OwnerReply::Refused { message: message.into(), errno: None }, &[]));
}

fn not_started(stream: &UnixStream, error: &ExecError) {
    let errno = match error {
        ExecError::NotStarted { source, .. } => source.raw_os_error(),
        ExecError::Descriptor { .. } | ExecError::Gone { .. } | ExecError::Timeout { .. } => None,
    };
    drop(channel::send(stream, &OwnerReply::Refused { message: error.to_string(), errno }, &[]));
}

/// Counts a command while it runs.
struct RunningCount<'a>(&'a OwnedSandbox);

impl<'a> RunningCount<'a> {
    fn new(owner: &'a OwnedSandbox) -> Option<Self> {
        let before = owner.commands.fetch_add(1, Ordering::SeqCst);
        let counted = Self(owner);
        (before < MAX_COMMANDS).then_some(counted)
    }
}

impl Drop for RunningCount<'_> {
    fn drop(&mut self) {
        self.0.commands.fetch_sub(1, Ordering::SeqCst);
    }
}

fn exec(stream: &UnixStream, owner: &OwnedSandbox, spec: &ExecSpec, descriptors: Vec<OwnedFd>) {
    let Some(_counted) = RunningCount::new(owner) else {
        return refuse(stream, format!("{MAX_COMMANDS} commands run in this sandbox already; try again"));
    };
    let mut outside = None;
    let command = match command(owner, spec, descriptors, &mut outside) {
        Ok(command) => command,
        Err(message) => return refuse(stream, message),
    };
    let process = match owner.policy_sandbox.sandbox.exec(command) {
        Ok(process) => process,
        Err(error) => return not_started(stream, &error),
    };
    let number = owner.next_command.fetch_add(1, Ordering::SeqCst);
    let started = Instant::now();
    record_start(owner, number, spec);
    let terminal: Vec<_> = outside.iter().map(std::os::fd::AsFd::as_fd).collect();
    let sent = channel::send(stream, &OwnerReply::Started { pid: process.pid() }, &terminal);
    drop(outside);
    if sent.is_err() || stream.set_read_timeout(None).is_err() {
        drop(process.kill_tree());
    }
    let is_over = AtomicBool::new(false);
    let (ended, timed_out) = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        let listening = thread.spawn_scoped(scope, || listen(stream, &process, &is_over));
        if listening.is_err() {
            drop(process.kill_tree());
        }
        let ended = wait(&process, spec.timeout_ms);
        is_over.store(true, Ordering::SeqCst);
        let reply = match &ended.0 {
            Ok(exit) => OwnerReply::Ended { exit: *exit, timed_out: ended.1 },
            Err(error) => OwnerReply::Gone { how: error.to_string() },
        };
        drop(channel::send(stream, &reply, &[]));
        // Ends the thread that listens.
        drop(stream.shutdown(std::net::Shutdown::Both));
        ended
    });
    record_end(owner, number, &spec.purpose, ended.ok(), timed_out, started.elapsed());
}

/// Everything that the command needs; a terminal's outer side goes to `outside`.
fn command(
    owner: &OwnedSandbox,
    spec: &ExecSpec,
    descriptors: Vec<OwnedFd>,
    outside: &mut Option<OwnedFd>,
) -> Result<Command, String> {
    let mut command = Command::new(spec.arguments.clone());
    command.environment.clone_from(&spec.environment);
    command.working_directory =
        spec.working_directory.clone().unwrap_or_else(|| owner.policy_sandbox.directory.clone());
    if command.working_directory.is_relative() {
        command.working_directory = owner.policy_sandbox.directory.join(&command.working_directory);
    }
    command.whole_tree = true;
    command.terminal = spec.terminal;
    let mut streams = descriptors.into_iter();
    if spec.terminal {
        let no_terminal = |error: std::io::Error| format!("cannot open a terminal in the sandbox: {error}");
        let both = owner.policy_sandbox.sandbox.open_terminal().map_err(no_terminal)?;
        let output = both.inside.try_clone().map_err(no_terminal)?;
        let error = both.inside.try_clone().map_err(no_terminal)?;
        streams = vec![both.inside, output, error].into_iter();
        *outside = Some(both.outside);
    }
    let mut next = || streams.next().map(Stdio::Descriptor).ok_or("the command has no streams");
    command.stdin = next()?;
    command.stdout = next()?;
    command.stderr = next()?;
    Ok(command)
}

/// Waits until the command ends. After its timeout, everything that it started is killed.
fn wait(process: &Process, timeout_ms: Option<u64>) -> (Result<CommandExit, WaitError>, bool) {
    let limit = timeout_ms.map_or(Duration::MAX, Duration::from_millis);
    match process.wait(limit) {
        Err(WaitError::Deadline { .. }) => {}
        ended => return (ended, false),
    }
    drop(process.kill_tree());
    (process.wait(KILL_LIMIT), true)
}

/// Passes signals on. If the client is gone, the command is killed.
fn listen(stream: &UnixStream, process: &Process, is_over: &AtomicBool) {
    while let Ok(Some((request, _))) = channel::receive::<OwnerRequest>(stream) {
        if let OwnerRequest::Signal { signal } = request {
            drop(process.signal(signal));
        }
    }
    if !is_over.load(Ordering::SeqCst) {
        drop(process.kill_tree());
    }
}

fn record_start(owner: &OwnedSandbox, number: u64, spec: &ExecSpec) {
    if spec.purpose != ExecPurpose::Command {
        return;
    }
    let words = spec.arguments.iter().take(MAX_ARGUMENTS);
    let directory = spec.working_directory.as_ref().map(|path: &PathBuf| path.display().to_string());
    let event = LastingEvent::CommandStarted {
        command: number,
        arguments: words.map(|word| word.to_string_lossy().into_owned()).collect(),
        directory: directory.unwrap_or_default(),
    };
    owner.emit.emit(RunEvent::Lasting { event });
}

fn record_end(
    owner: &OwnedSandbox,
    number: u64,
    purpose: &ExecPurpose,
    exit: Option<CommandExit>,
    timed_out: bool,
    took: Duration,
) {
    let ok = exit.is_some_and(CommandExit::success);
    let moved =
        |direction, path: &String| LastingEvent::FilesTransferred { direction, path: path.clone(), ok };
    let event = match purpose {
        ExecPurpose::Put { path } => moved(TransferDirection::Put, path),
        ExecPurpose::Get { path } => moved(TransferDirection::Get, path),
        ExecPurpose::Command => LastingEvent::CommandFinished {
            command: number,
            exit: match exit {
                Some(CommandExit::Code(code)) => exited(code),
                Some(CommandExit::Signal(signal)) => signalled(signal),
                None => signalled(rustix::process::Signal::KILL.as_raw()),
            },
            timed_out,
            duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        },
    };
    owner.emit.emit(RunEvent::Lasting { event });
}
