//! Copies bytes between two sockets, unchanged. It allocates only while bytes wait for a slow reader: a thousand quiet
//! tunnels cost little more than their sockets.

use super::outgoing_check::MessageWatcher;
use super::record::ConnectionRecord;
use super::refusal::Refusal;
use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::TcpStream;

pub(super) const TLS_HANDSHAKE: u8 = 0x16;
const BUFFER_BYTES: usize = 256 << 10;
/// Reads in a row before other tasks may run.
const READS_PER_TURN: usize = 8;

thread_local! {
    /// One for all tunnels of a thread: it is never in use across an await.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; BUFFER_BYTES]);
}

#[derive(Debug, Default)]
pub(super) struct ByteCounts {
    pub(super) out: AtomicU64,
    pub(super) inward: AtomicU64,
}

impl ByteCounts {
    pub(super) fn totals(&self) -> (u64, u64) {
        (self.out.load(Ordering::Relaxed), self.inward.load(Ordering::Relaxed))
    }

    pub(super) fn sum(&self) -> u64 {
        let (out, inward) = self.totals();
        out.wrapping_add(inward)
    }
}

/// Adds the bytes that moved to the record, even when the tunnel's task is cancelled.
pub(super) struct CountedRecord<'a> {
    pub(super) record: &'a mut ConnectionRecord,
    pub(super) counts: &'a ByteCounts,
}

impl Drop for CountedRecord<'_> {
    fn drop(&mut self) {
        let (out, inward) = self.counts.totals();
        self.record.add_bytes(out, inward);
    }
}

/// Returns when both directions have ended, one has broken, or nothing moved for `idle`.
pub(super) async fn tunnel(
    client: &TcpStream,
    server: &TcpStream,
    counts: &ByteCounts,
    idle: Duration,
    watcher: MessageWatcher,
) -> Result<(), TunnelError> {
    let out = copy(client, server, &counts.out, counts, idle, Some(watcher));
    let inward = copy(server, client, &counts.inward, counts, idle, None);
    tokio::try_join!(out, inward).map(|_| ())
}

/// Why a tunnel ended before both sides had ended it.
pub(super) enum TunnelError {
    Broken(io::Error),
    /// The leak watcher found something that must not leave.
    Leak(String),
    /// Another program holds the connection now.
    Refused(Refusal),
}

impl From<io::Error> for TunnelError {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

async fn copy(
    from: &TcpStream,
    to: &TcpStream,
    count: &AtomicU64,
    counts: &ByteCounts,
    idle: Duration,
    mut watcher: Option<MessageWatcher>,
) -> Result<(), TunnelError> {
    loop {
        let before = counts.sum();
        match tokio::time::timeout(idle, from.readable()).await {
            Ok(ready) => ready?,
            Err(_) if counts.sum() != before => continue,
            Err(_) => return Err(io::Error::from(io::ErrorKind::TimedOut).into()),
        }
        match copy_portions(from, to, count, &mut watcher)? {
            CopyProgress::End => return Ok(shut_down(to)?),
            CopyProgress::Leak(reason) => return Err(TunnelError::Leak(reason)),
            CopyProgress::Everything => {}
            CopyProgress::OneTurn => tokio::task::yield_now().await,
            CopyProgress::Blocked(rest) => write_rest(to, &rest, idle).await?,
        }
    }
}

/// How far one round of copying came.
enum CopyProgress {
    /// There is nothing more to read for now.
    Everything,
    /// There may be more, but other tasks wait.
    OneTurn,
    /// The sender has ended.
    End,
    Leak(String),
    /// The receiver is slow and has not accepted these bytes.
    Blocked(Vec<u8>),
}

fn copy_portions(
    from: &TcpStream,
    to: &TcpStream,
    count: &AtomicU64,
    watcher: &mut Option<MessageWatcher>,
) -> io::Result<CopyProgress> {
    BUFFER.with_borrow_mut(|buffer| {
        for _ in 0..READS_PER_TURN {
            let length = match from.try_read(buffer) {
                Ok(0) => return Ok(CopyProgress::End),
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(CopyProgress::Everything);
                }
                Err(error) => return Err(error),
            };
            // A tunnel that starts with a TLS handshake is encrypted; watching it finds nothing.
            let starts = count.fetch_add(length as u64, Ordering::Relaxed) == 0;
            watcher.take_if(|_| starts && buffer[0] == TLS_HANDSHAKE);
            if let Some(reason) = watcher.as_mut().and_then(|watcher| watcher(&buffer[..length])) {
                return Ok(CopyProgress::Leak(reason));
            }
            let mut rest = &buffer[..length];
            while !rest.is_empty() {
                match to.try_write(rest) {
                    Ok(written) => rest = &rest[written..],
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        return Ok(CopyProgress::Blocked(rest.to_vec()));
                    }
                    Err(error) => return Err(error),
                }
            }
            if length < buffer.len() {
                return Ok(CopyProgress::Everything);
            }
        }
        Ok(CopyProgress::OneTurn)
    })
}

async fn write_rest(to: &TcpStream, mut rest: &[u8], idle: Duration) -> io::Result<()> {
    while !rest.is_empty() {
        tokio::time::timeout(idle, to.writable())
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        match to.try_write(rest) {
            Ok(written) => rest = &rest[written..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Ends one direction; the other may go on.
fn shut_down(to: &TcpStream) -> io::Result<()> {
    match rustix::net::shutdown(to, rustix::net::Shutdown::Write) {
        Ok(()) | Err(rustix::io::Errno::NOTCONN) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
