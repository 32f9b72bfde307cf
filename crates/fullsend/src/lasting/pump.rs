//! Moves the bytes of one command in a lasting sandbox: input in, both outputs out, in one loop without threads. It ends when
//! the command has ended, even if something that it started still holds its output open.

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::client::{CommandEnd, RemoteCommand, SandboxClientError};

const CHUNK: usize = 1 << 16;

/// What a command reads.
pub enum CommandInput {
    Nothing,
    Bytes(Vec<u8>),
    Descriptor(OwnedFd),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStream {
    Stdout,
    Stderr,
}

/// Passes everything on to `sink` until the command has ended. When `sink` fails, the command is killed with everything
/// that it started.
pub fn run(
    command: RemoteCommand,
    input: CommandInput,
    sink: &mut dyn FnMut(OutputStream, &[u8]) -> io::Result<()>,
) -> Result<CommandEnd, SandboxClientError> {
    let RemoteCommand { connection, stdin, stdout, stderr } = command;
    let broken = |source: io::Error| SandboxClientError::Gone {
        how: format!("the command's streams broke: {source}"),
    };
    let mut feed = Feed::new(input, stdin).map_err(broken)?;
    let mut outputs = [Output::new(OutputStream::Stdout, stdout), Output::new(OutputStream::Stderr, stderr)];
    for output in &outputs {
        output.set_nonblocking().map_err(broken)?;
    }
    loop {
        let is_over = wait(connection.stream.as_fd(), &feed, &outputs).map_err(broken)?;
        for output in &mut outputs {
            output.drain(sink).map_err(broken)?;
        }
        if is_over {
            let end = connection.end()?;
            // What the command wrote before it ended is in the pipes by now.
            for output in &mut outputs {
                output.drain(sink).map_err(broken)?;
            }
            return Ok(end);
        }
        feed.push().map_err(broken)?;
    }
}

/// Waits until a stream is ready. Returns whether the owner has sent the end.
fn wait(control: BorrowedFd<'_>, feed: &Feed, outputs: &[Output; 2]) -> io::Result<bool> {
    let mut polled = vec![PollFd::from_borrowed_fd(control, PollFlags::IN)];
    polled.extend(
        outputs.iter().filter_map(|output| {
            Some(PollFd::from_borrowed_fd(output.pipe.as_ref()?.as_fd(), PollFlags::IN))
        }),
    );
    polled.extend(feed.wanted());
    match poll(&mut polled, None) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(!polled[0].revents().is_empty())
}

struct Output {
    stream: OutputStream,
    /// `None` when its writers have closed it.
    pipe: Option<PipeReader>,
}

impl Output {
    fn new(stream: OutputStream, pipe: PipeReader) -> Self {
        Self { stream, pipe: Some(pipe) }
    }

    fn set_nonblocking(&self) -> io::Result<()> {
        match &self.pipe {
            Some(pipe) => Ok(rustix::io::ioctl_fionbio(pipe, true)?),
            None => Ok(()),
        }
    }

    /// Passes on what is there now.
    fn drain(&mut self, sink: &mut dyn FnMut(OutputStream, &[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut buffer = vec![0; CHUNK];
        while let Some(pipe) = &self.pipe {
            match rustix::io::read(pipe, &mut buffer) {
                Ok(0) => self.pipe = None,
                Ok(count) => sink(self.stream, &buffer[..count])?,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// The command's input: what is pending, where more comes from, and the pipe that it goes to.
struct Feed {
    pending: Vec<u8>,
    /// How much of `pending` was written.
    written: usize,
    source: Option<OwnedFd>,
    pipe: Option<PipeWriter>,
}

impl Feed {
    fn new(input: CommandInput, pipe: Option<PipeWriter>) -> io::Result<Self> {
        let (pending, source) = match input {
            CommandInput::Nothing => (Vec::new(), None),
            CommandInput::Bytes(bytes) => (bytes, None),
            CommandInput::Descriptor(source) => (Vec::new(), Some(source)),
        };
        if let Some(pipe) = &pipe {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        let mut feed = Self { pending, written: 0, source, pipe };
        feed.close_at_end();
        Ok(feed)
    }

    fn is_empty(&self) -> bool {
        self.written >= self.pending.len()
    }

    fn close_at_end(&mut self) {
        if self.is_empty() && self.source.is_none() {
            self.pipe = None;
        }
    }

    /// The pipe while something is pending, the source otherwise.
    fn wanted(&self) -> Option<PollFd<'_>> {
        let pipe = self.pipe.as_ref()?;
        if self.is_empty() {
            return Some(PollFd::from_borrowed_fd(self.source.as_ref()?.as_fd(), PollFlags::IN));
        }
        Some(PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::OUT))
    }

    /// Does what can be done without waiting: one read of the source, or one write to the pipe.
    fn push(&mut self) -> io::Result<()> {
        let Some(pipe) = &self.pipe else { return Ok(()) };
        if !self.is_empty() {
            match rustix::io::write(pipe, &self.pending[self.written..]) {
                Ok(count) => self.written += count,
                Err(Errno::AGAIN | Errno::INTR) => {}
                // The command does not read any more; drop the rest.
                Err(_) => {
                    self.pipe = None;
                    self.source = None;
                }
            }
        } else if self.is_readable()? {
            self.fill();
        }
        self.close_at_end();
        Ok(())
    }

    fn is_readable(&self) -> io::Result<bool> {
        let Some(source) = &self.source else { return Ok(false) };
        let mut polled = [PollFd::new(source, PollFlags::IN)];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(&mut polled, Some(&now)) {
            Ok(count) => Ok(count > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn fill(&mut self) {
        let Some(source) = &self.source else { return };
        let mut buffer = vec![0; CHUNK];
        match rustix::io::read(source, &mut buffer) {
            Ok(count @ 1..) => {
                buffer.truncate(count);
                self.pending = buffer;
                self.written = 0;
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            // The end of the input, or an error: the command's input ends in both cases.
            Ok(_) | Err(_) => self.source = None,
        }
    }
}
