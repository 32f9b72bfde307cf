//! Reads an agent's output line by line, with timeouts. A line that is too long is dropped; silence and the deadline stop
//! the reading; memory is bounded to a few lines.

use std::io::Read;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Far above what runtimes print in one line. A file that an agent reads comes in one line.
pub const MAX_LINE: usize = 32 << 20;

/// Lines read ahead: at most this many are held, and the one that is being read.
const AHEAD: usize = 2;

/// How often `give_up` is asked.
const TICK: Duration = Duration::from_millis(100);

/// How long to wait.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    pub deadline: Instant,
    /// Until the first line.
    pub startup: Duration,
    /// Between two lines.
    pub idle: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    Closed,
    TimedOut,
    Silent(Duration),
    /// `give_up` returned true.
    Cancelled,
}

/// Passes every line to `on_line` until the stream ends or a timeout passes. The rest can be followed later.
pub fn follow(
    lines: &Receiver<Vec<u8>>,
    timeouts: Timeouts,
    give_up: &dyn Fn() -> bool,
    on_line: &mut dyn FnMut(&[u8]),
) -> StreamEnd {
    let mut allowed = timeouts.startup;
    let mut last = Instant::now();
    loop {
        match lines.recv_timeout(TICK) {
            Ok(line) => {
                allowed = timeouts.idle;
                last = Instant::now();
                on_line(&line);
            }
            Err(RecvTimeoutError::Disconnected) => return StreamEnd::Closed,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if give_up() {
            return StreamEnd::Cancelled;
        }
        if Instant::now() >= timeouts.deadline {
            return StreamEnd::TimedOut;
        }
        if last.elapsed() >= allowed {
            return StreamEnd::Silent(allowed);
        }
    }
}

/// On its own thread, so that a silent program cannot block the run. It ends with the stream or its receiver.
pub fn read_ahead(stream: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = sync_channel(AHEAD);
    let spawned = std::thread::Builder::new().name("stream".to_owned()).spawn(move || split(stream, &sender));
    // Without a thread the channel is closed, and the stream counts as ended.
    drop(spawned);
    receiver
}

fn split(mut stream: impl Read, sender: &SyncSender<Vec<u8>>) {
    let mut lines = Lines::default();
    let mut portion = vec![0; 64 << 10];
    loop {
        let length = match stream.read(&mut portion) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        if !lines.push(&portion[..length], &mut |line| sender.send(line).is_ok()) {
            return;
        }
    }
    lines.end(&mut |line| sender.send(line).is_ok());
}

/// Splits portions into lines.
#[derive(Default)]
pub struct Lines {
    begun: Vec<u8>,
    too_long: bool,
}

impl Lines {
    /// `false` as soon as `emit` returns false.
    pub fn push(&mut self, portion: &[u8], emit: &mut dyn FnMut(Vec<u8>) -> bool) -> bool {
        let mut rest = portion;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.add(&rest[..end]);
            rest = &rest[end + 1..];
            if !self.end(emit) {
                return false;
            }
        }
        self.add(rest);
        true
    }

    /// The last line needs no newline.
    pub fn end(&mut self, emit: &mut dyn FnMut(Vec<u8>) -> bool) -> bool {
        let line = std::mem::take(&mut self.begun);
        let left_out = std::mem::take(&mut self.too_long) || line.is_empty();
        left_out || emit(line)
    }

    fn add(&mut self, bytes: &[u8]) {
        if self.too_long || self.begun.len() + bytes.len() > MAX_LINE {
            self.too_long = true;
            self.begun = Vec::new();
        } else {
            self.begun.extend_from_slice(bytes);
        }
    }
}

/// Keeps the end of a stream, where programs print why they failed.
pub fn keep_end(mut stream: impl Read + Send + 'static) -> Receiver<String> {
    const KEPT: usize = 16 << 10;
    let (sender, receiver) = sync_channel(1);
    let spawned = std::thread::Builder::new().name("stderr".to_owned()).spawn(move || {
        let mut kept = Vec::new();
        let mut portion = [0; 4096];
        while let Ok(length @ 1..) = stream.read(&mut portion) {
            kept.extend_from_slice(&portion[..length]);
            let extra = kept.len().saturating_sub(KEPT);
            kept.drain(..extra);
        }
        drop(sender.send(String::from_utf8_lossy(&kept).into_owned()));
    });
    drop(spawned);
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(portions: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut lines = Lines::default();
        let mut out = Vec::new();
        for portion in portions {
            lines.push(portion, &mut |line| {
                out.push(line);
                true
            });
        }
        lines.end(&mut |line| {
            out.push(line);
            true
        });
        out
    }

    #[test]
    fn lines_do_not_depend_on_portions() {
        let text = b"one\n\ntwo\nthree";
        for first in 0..text.len() {
            for second in first..text.len() {
                let portions = [&text[..first], &text[first..second], &text[second..]];
                assert_eq!(all(&portions), [&b"one"[..], b"two", b"three"]);
            }
        }
    }

    #[test]
    fn a_line_too_long_is_left_out_and_the_next_is_whole() {
        let long = vec![b'x'; MAX_LINE + 1];
        assert_eq!(all(&[b"a\n", &long, b"yz\nb\n"]), [b"a", b"b"]);
        let longest = vec![b'x'; MAX_LINE];
        assert_eq!(all(&[&longest, b"\nb"]).len(), 2);
    }

    /// An endless stream without a line break uses no more memory than one line.
    #[test]
    fn buffered_bytes_are_bounded() {
        let mut lines = Lines::default();
        let portion = vec![b'x'; 1 << 20];
        for _ in 0..256 {
            assert!(lines.push(&portion, &mut |_| unreachable!("there is no line")));
            assert!(lines.begun.capacity() <= 2 * MAX_LINE, "{}", lines.begun.capacity());
        }
        assert_eq!(lines.begun.capacity(), 0, "what is left out is not kept");
        // Nobody receives: the reader holds a few lines and stops reading.
        let (reader, mut writer) = std::io::pipe().unwrap();
        let unheard = read_ahead(reader);
        let written = std::thread::spawn(move || {
            use std::io::Write;
            (0..100).take_while(|_| writer.write_all(&[&[b'y'; 65535][..], b"\n"].concat()).is_ok()).count()
        });
        std::thread::sleep(Duration::from_secs(1));
        assert!(!written.is_finished(), "a hundred lines were taken in");
        drop(unheard);
        assert!(written.join().unwrap() < 100);
    }

    fn timeouts(milliseconds: u64) -> Timeouts {
        let long = Duration::from_secs(60);
        Timeouts { deadline: Instant::now() + Duration::from_millis(milliseconds), startup: long, idle: long }
    }

    #[test]
    fn silence_the_deadline_and_giving_up_end_the_waiting() {
        let (quiet, kept) = std::io::pipe().unwrap();
        let quiet = read_ahead(quiet);
        assert_eq!(follow(&quiet, timeouts(150), &|| false, &mut |_| {}), StreamEnd::TimedOut);
        let short = Duration::from_millis(120);
        let silent = Timeouts { startup: short, ..timeouts(60_000) };
        assert_eq!(follow(&quiet, silent, &|| false, &mut |_| {}), StreamEnd::Silent(short));
        assert_eq!(follow(&quiet, timeouts(60_000), &|| true, &mut |_| {}), StreamEnd::Cancelled);
        drop(kept);
        assert_eq!(follow(&quiet, timeouts(60_000), &|| false, &mut |_| {}), StreamEnd::Closed);
        let mut count = 0;
        let lines = read_ahead(&b"a\nb"[..]);
        assert_eq!(follow(&lines, timeouts(60_000), &|| false, &mut |_| count += 1), StreamEnd::Closed);
        assert_eq!(count, 2);
    }
}
