//! A person's terminal while they talk to a program inside: raw, relayed byte by byte, and always restored. Both sides
//! are polled, so that neither waits for the other.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{OptionalActions, Termios, Winsize, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize};

/// How often the size of the window is checked.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// The most bytes that a person can type ahead.
const MAX_PENDING: usize = 1 << 16;

/// Raw until dropped.
struct Raw {
    before: Termios,
}

impl Raw {
    fn enter() -> io::Result<Self> {
        let before = tcgetattr(rustix::stdio::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &raw)?;
        Ok(Self { before })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // With the terminal gone there is nothing to put back.
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &self.before);
    }
}

/// Relays until `ended` returns a result, then prints the rest of the output. `None`: the person's terminal is gone.
pub fn relay<T>(outside: &OwnedFd, ended: impl Fn() -> Option<T>) -> io::Result<Option<T>> {
    let _raw = Raw::enter()?;
    let mut relay = Relay { outside, pending: Vec::new(), size: None };
    loop {
        relay.follow_size();
        if !relay.turn()? {
            return Ok(None);
        }
        if let Some(end) = ended() {
            while relay.copy_output()? {}
            return Ok(Some(end));
        }
    }
}

struct Relay<'a> {
    outside: &'a OwnedFd,
    /// Typed and not taken yet.
    pending: Vec<u8>,
    size: Option<Winsize>,
}

impl Relay<'_> {
    fn follow_size(&mut self) {
        let Ok(size) = tcgetwinsize(rustix::stdio::stdout()) else { return };
        let same = |old: &Winsize| (old.ws_row, old.ws_col) == (size.ws_row, size.ws_col);
        if !self.size.as_ref().is_some_and(same) && tcsetwinsize(self.outside, size).is_ok() {
            self.size = Some(size);
        }
    }

    /// Waits until one side is ready, and relays its bytes. False when the person is gone.
    fn turn(&mut self) -> io::Result<bool> {
        let mut wanted = PollFlags::IN;
        wanted.set(PollFlags::OUT, !self.pending.is_empty());
        let typing = if self.pending.len() < MAX_PENDING { PollFlags::IN } else { PollFlags::empty() };
        let keyboard = rustix::stdio::stdin();
        let mut polled = [PollFd::new(self.outside, wanted), PollFd::new(&keyboard, typing)];
        match poll(&mut polled, Some(&TICK)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        let inside = polled[0].revents();
        let person = polled[1].revents();
        if inside.intersects(PollFlags::IN | PollFlags::HUP)
            && !self.copy_output()?
            && inside.contains(PollFlags::HUP)
        {
            // The other end is closed; the command is about to end.
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        if inside.contains(PollFlags::OUT) {
            self.type_pending()?;
        }
        if person.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            return self.copy_input();
        }
        Ok(true)
    }

    /// Prints the next output from inside. False when there is none.
    fn copy_output(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 1 << 14];
        match rustix::io::read(self.outside, &mut buffer) {
            Ok(0) | Err(Errno::IO | Errno::AGAIN | Errno::INTR) => Ok(false),
            Ok(count) => write_all(rustix::stdio::stdout(), &buffer[..count]).map(|()| true),
            Err(e) => Err(e.into()),
        }
    }

    /// Reads what was typed. False when the input has ended.
    fn copy_input(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 4096];
        match rustix::io::read(rustix::stdio::stdin(), &mut buffer) {
            Ok(0) | Err(Errno::IO) => Ok(false),
            Ok(count) => {
                self.pending.extend_from_slice(&buffer[..count]);
                self.type_pending().map(|()| true)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(true),
            Err(e) => Err(e.into()),
        }
    }

    fn type_pending(&mut self) -> io::Result<()> {
        match rustix::io::write(self.outside, &self.pending) {
            Ok(count) => drop(self.pending.drain(..count)),
            Err(Errno::AGAIN | Errno::INTR) => {}
            // The command is gone; drop the input that was typed for it.
            Err(Errno::IO) => self.pending.clear(),
            Err(e) => return Err(e.into()),
        }
        Ok(())
    }
}

fn write_all(to: impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(&to, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}
