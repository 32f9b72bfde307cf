//! What a server says, kept in the run's directory: redacted line by line, and bounded. It is always read to its end, so
//! that a server never waits for a full pipe.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::guard::Guard;

const MAX_BYTES: usize = 1 << 20;

/// A longer line is kept in pieces.
const MAX_LINE: u64 = 64 << 10;

pub(super) struct Output {
    log: Arc<Mutex<Log>>,
    guard: Guard,
}

struct Log {
    file: File,
    left: usize,
}

impl Output {
    pub(super) fn create(path: &Path, guard: &Guard) -> std::io::Result<Self> {
        // A fresh attempt starts the servers anew, and goes on with their logs.
        let log = Log { file: File::options().create(true).append(true).open(path)?, left: MAX_BYTES };
        Ok(Self { log: Arc::new(Mutex::new(log)), guard: guard.clone() })
    }

    /// Both streams of a server go into one log, each line whole.
    pub(super) fn keep(&self, stream: Option<impl Read + Send + 'static>) {
        let Some(stream) = stream else { return };
        let (log, guard) = (Arc::clone(&self.log), self.guard.clone());
        std::thread::spawn(move || {
            let mut reader = BufReader::new(stream);
            let mut line = Vec::new();
            while (&mut reader).take(MAX_LINE).read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
                let text = String::from_utf8_lossy(&line);
                log.lock().unwrap_or_else(PoisonError::into_inner).write(&guard.redact(&text));
                line.clear();
            }
        });
    }
}

impl Log {
    fn write(&mut self, text: &str) {
        if text.len() <= self.left {
            self.left -= text.len();
            drop(self.file.write_all(text.as_bytes()));
        } else if self.left > 0 {
            self.left = 0;
            drop(self.file.write_all(b"[the rest is left out]\n"));
        }
    }
}
