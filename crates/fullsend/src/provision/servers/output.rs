//! Saves a server's output in the run's directory: redacted and bounded. It reads to the end of the output, so that the server
//! does not wait for a full pipe.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redact::StreamRedactor;

use crate::guard::Guard;

const MAX_BYTES: usize = 1 << 20;

const PIECE: usize = 8 << 10;

/// How long to wait for the last output; only a process that outlives the supervisor could keep a stream open.
const LAST_OUTPUT_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) struct Output {
    log: Arc<Mutex<Log>>,
    guard: Guard,
    /// Each receives when a stream was read to its end.
    readers: Vec<Receiver<()>>,
}

struct Log {
    file: File,
    left: usize,
}

impl Output {
    pub(super) fn create(path: &Path, guard: &Guard) -> std::io::Result<Self> {
        // A fresh attempt restarts the servers and appends to their logs.
        let log = Log { file: File::options().create(true).append(true).open(path)?, left: MAX_BYTES };
        Ok(Self { log: Arc::new(Mutex::new(log)), guard: guard.clone(), readers: Vec::new() })
    }

    /// Both streams of a server go into one log, each line whole.
    pub(super) fn keep(&mut self, stream: Option<impl Read + Send + 'static>) {
        let Some(stream) = stream else { return };
        let log = Arc::clone(&self.log);
        let guard = self.guard.clone();
        let (done, reader) = mpsc::channel();
        self.readers.push(reader);
        std::thread::spawn(move || {
            pass(stream, &guard, |text| log.lock().unwrap_or_else(PoisonError::into_inner).write(text));
            drop(done);
        });
    }

    /// Waits until all output is saved.
    pub(super) fn finish(self) {
        for reader in self.readers {
            let _ended = reader.recv_timeout(LAST_OUTPUT_TIMEOUT);
        }
    }
}

/// Reads a stream to its end and gives what may be kept of it, line by line.
fn pass(mut stream: impl Read, guard: &Guard, mut keep: impl FnMut(&str)) {
    let mut held = StreamRedactor::default();
    let mut piece = [0; PIECE];
    while let Ok(length) = stream.read(&mut piece)
        && length > 0
    {
        guard.redact_piece(&mut held, Some(&piece[..length])).split_inclusive('\n').for_each(&mut keep);
    }
    guard.redact_piece(&mut held, None).split_inclusive('\n').for_each(keep);
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
