//! A command in a sandbox of the gateway, with pipes on this side as for a command of this machine. Threads carry the
//! bytes between the pipes and the gateway's streams.

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use sandbox::{CommandExit, Stdio};
use tokio::runtime::Handle;

use super::client::{self, ExecEvent, OpenshellError};
use super::grpc::{Answers, CallError, RequestSender};

/// The most bytes in one message; gateways accept up to four mebibytes.
const PIECE: usize = 64 << 10;

/// A shell reports a signal as this number plus the signal's number.
const SIGNAL_CODES: std::ops::RangeInclusive<i32> = 129..=159;

/// How a command ended, once it has ended.
#[derive(Clone, Default)]
pub(in crate::backend) struct End(Arc<(Mutex<Option<CommandResult>>, Condvar)>);

type CommandResult = Result<CommandExit, OpenshellError>;

impl End {
    fn set(&self, end: Result<CommandExit, OpenshellError>) {
        let (known, changed) = &*self.0;
        known.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(end);
        changed.notify_all();
    }

    /// `None` if it still runs after `limit`.
    pub(in crate::backend) fn wait(&self, limit: Duration) -> Option<Result<CommandExit, OpenshellError>> {
        let (known, changed) = &*self.0;
        let deadline = Instant::now() + limit;
        let mut end = known.lock().unwrap_or_else(PoisonError::into_inner);
        while end.is_none() {
            let left = deadline.checked_duration_since(Instant::now())?;
            end = changed.wait_timeout(end, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        end.clone()
    }
}

/// The three streams of a command, as the caller wants them.
pub(super) struct Streams {
    pub(super) stdin: Stdio,
    pub(super) stdout: Stdio,
    pub(super) stderr: Stdio,
}

/// The caller's ends.
pub(in crate::backend) struct Pipes {
    pub(in crate::backend) stdin: Option<PipeWriter>,
    pub(in crate::backend) stdout: Option<PipeReader>,
    pub(in crate::backend) stderr: Option<PipeReader>,
}

/// What is known about a command whose stream broke.
pub(super) struct Watched {
    /// Its name, for messages.
    pub(super) what: String,
    /// Gets the reason.
    pub(super) lost: Arc<OnceLock<OpenshellError>>,
    /// When its streams are closed, even if it still runs. `None`: the caller sets the limit.
    pub(super) limit: Option<Duration>,
}

/// Connects the streams of a command that was started.
pub(super) fn connect(
    streams: Streams,
    calls: (RequestSender, Answers),
    watched: Watched,
    executor: &Handle,
) -> std::io::Result<(Pipes, End)> {
    let (sender, answers) = calls;
    let (stdin, input) = match streams.stdin {
        Stdio::Null => (None, None),
        Stdio::Descriptor(descriptor) => (None, Some(PipeReader::from(descriptor))),
        Stdio::Pipe => {
            let (reader, writer) = std::io::pipe()?;
            (Some(writer), Some(reader))
        }
    };
    let (stdout, to_stdout) = output(streams.stdout)?;
    let (stderr, to_stderr) = output(streams.stderr)?;
    let end = End::default();
    // Without input the sender is dropped, which ends the command's input.
    if let Some(input) = input {
        let executor = executor.clone();
        std::thread::spawn(move || send(input, &sender, &executor));
    }
    let receiver = Receiver { stdout: to_stdout, stderr: to_stderr, end: end.clone(), watched };
    let executor = executor.clone();
    std::thread::spawn(move || receiver.follow(answers, &executor));
    Ok((Pipes { stdin, stdout, stderr }, end))
}

fn output(stdio: Stdio) -> std::io::Result<(Option<PipeReader>, Option<PipeWriter>)> {
    Ok(match stdio {
        Stdio::Null => (None, None),
        Stdio::Descriptor(descriptor) => (None, Some(PipeWriter::from(descriptor))),
        Stdio::Pipe => {
            let (reader, writer) = std::io::pipe()?;
            (Some(reader), Some(writer))
        }
    })
}

fn send(mut input: PipeReader, sender: &RequestSender, executor: &Handle) {
    let mut piece = vec![0; PIECE];
    while let Ok(length @ 1..) = input.read(&mut piece) {
        executor.block_on(sender.send(client::input(&piece[..length])));
    }
}

struct Receiver {
    stdout: Option<PipeWriter>,
    stderr: Option<PipeWriter>,
    end: End,
    watched: Watched,
}

impl Receiver {
    fn too_long(&self) -> OpenshellError {
        let seconds = self.watched.limit.map_or(0, |limit| limit.as_secs());
        let why = format!("it still runs after {seconds} seconds");
        OpenshellError::Inside { what: self.watched.what.clone(), why }
    }

    fn follow(mut self, mut answers: Answers, executor: &Handle) {
        let deadline = self.watched.limit.map(|limit| tokio::time::Instant::now() + limit);
        let ended = loop {
            let Some(answer) = executor.block_on(next_until(&mut answers, deadline)) else {
                break Err(self.too_long());
            };
            let answer = match answer {
                Ok(Some(answer)) => answer,
                Ok(None) => break Err(OpenshellError::Cut { what: self.watched.what.clone() }),
                Err(error) => break Err(error.into()),
            };
            match client::event(&answer) {
                Some(ExecEvent::Stdout(bytes)) => write(&mut self.stdout, bytes),
                Some(ExecEvent::Stderr(bytes)) => write(&mut self.stderr, bytes),
                Some(ExecEvent::Exit(code)) if SIGNAL_CODES.contains(&code) => {
                    break Ok(CommandExit::Signal(code - 128));
                }
                Some(ExecEvent::Exit(code)) => break Ok(CommandExit::Code(code)),
                None => {}
            }
        };
        if let Err(error) = &ended {
            drop(self.watched.lost.set(error.clone())); // the first reason counts
        }
        // Set this before the pipes close: a reader that sees their end asks how the command ended.
        self.end.set(ended);
    }
}

/// `None`: the deadline has passed.
async fn next_until(
    answers: &mut Answers,
    deadline: Option<tokio::time::Instant>,
) -> Option<Result<Option<bytes::Bytes>, CallError>> {
    match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline, answers.next()).await.ok(),
        None => Some(answers.next().await),
    }
}

/// A reader that has gone needs nothing more.
fn write(to: &mut Option<PipeWriter>, bytes: &[u8]) {
    if to.as_mut().is_some_and(|pipe| pipe.write_all(bytes).is_err()) {
        *to = None;
    }
}
