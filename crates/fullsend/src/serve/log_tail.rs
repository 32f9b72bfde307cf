//! Reads a run's log part by part, also while it grows. A part is bounded in lines and bytes.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::PathBuf;

use crate::event::log::MAX_LINE_BYTES;
use crate::event::{Envelope, RunEvent};

/// The part of a log that was not read yet.
pub(super) struct LogTail {
    log: PathBuf,
    offset: u64,
    after: u64,
}

/// The result of one read.
#[derive(Default)]
pub(super) struct LogPart {
    pub(super) lines: Vec<LogLine>,
    /// The bounds ended the read, not the end of the log.
    pub(super) has_more: bool,
    /// The run's last event was read.
    pub(super) ended: bool,
}

pub(super) struct LogLine {
    pub(super) envelope: Envelope,
    /// The line as it is in the log, without its end.
    pub(super) bytes: Vec<u8>,
}

impl LogTail {
    /// Begins after this event.
    pub(super) fn new(log: PathBuf, after: u64) -> Self {
        Self { log, offset: 0, after }
    }

    /// Whether the log is longer than what was read. An idle reader costs only one `stat`.
    pub(super) fn has_grown(&self) -> bool {
        std::fs::metadata(&self.log).map_or(true, |about| about.len() > self.offset)
    }

    pub(super) fn read(&mut self, max_lines: usize, max_bytes: usize) -> std::io::Result<LogPart> {
        let mut file = File::open(&self.log)?;
        file.seek(SeekFrom::Start(self.offset))?;
        let mut reader = BufReader::new(file);
        let mut part = LogPart::default();
        let mut bytes = 0;
        while part.lines.len() < max_lines && bytes < max_bytes {
            let mut line = Vec::new();
            let length = reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
            // A line without its end is still being written.
            if line.pop_if(|last| *last == b'\n').is_none() {
                return Ok(part);
            }
            let envelope: Envelope = serde_json::from_slice(&line).map_err(std::io::Error::other)?;
            self.offset += length as u64;
            part.ended = matches!(envelope.event, RunEvent::RunFinished { .. });
            if envelope.seq > self.after {
                bytes += line.len();
                part.lines.push(LogLine { envelope, bytes: line });
            }
        }
        part.has_more = true;
        Ok(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::log::Emitter;

    #[test]
    fn a_log_is_read_in_bounded_parts_as_it_grows() {
        let place = tempfile::tempdir().unwrap();
        let log = place.path().join("events.jsonl");
        let emitter = Emitter::create(&log, |_| {}).unwrap();
        let emit = || emitter.emit(RunEvent::AgentStarted { iteration: 1 });
        (0..5).for_each(|_| emit());
        let mut tail = LogTail::new(log.clone(), 1);
        let mut read = |lines, bytes| {
            let part = tail.read(lines, bytes).unwrap();
            (
                part.lines.iter().map(|line| line.envelope.seq).collect::<Vec<_>>(),
                part.has_more,
                tail.has_grown(),
            )
        };
        assert_eq!(read(2, 1 << 20), (vec![2, 3], true, true));
        assert_eq!(read(9, 1), (vec![4], true, true), "one line may be longer than a part");
        assert_eq!(read(9, 1 << 20), (vec![5], false, false));
        emit();
        assert_eq!(read(9, 1 << 20), (vec![6], false, false));
        std::io::Write::write_all(&mut File::options().append(true).open(&log).unwrap(), b"{\"v\":1")
            .unwrap();
        assert_eq!(read(9, 1 << 20), (vec![], false, true), "a line without its end waits");
    }
}
