//! Bytes from one socket to the other, untouched. Memory is taken only while bytes wait for a slow reader: a thousand
//! quiet tunnels cost little more than their sockets.

use super::lookout::Look;
use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::TcpStream;

pub(super) const TLS_HANDSHAKE: u8 = 0x16;
const BUFFER_BYTES: usize = 256 << 10;
/// Portions in a row before other tasks get their turn.
const TURN: usize = 8;

thread_local! {
    /// One for all tunnels of a thread: it is never held over a wait.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; BUFFER_BYTES]);
}

#[derive(Debug, Default)]
pub(super) struct Moved {
    pub(super) out: AtomicU64,
    pub(super) inward: AtomicU64,
}

impl Moved {
    pub(super) fn totals(&self) -> (u64, u64) {
        (self.out.load(Ordering::Relaxed), self.inward.load(Ordering::Relaxed))
    }

    fn sum(&self) -> u64 {
        let (out, inward) = self.totals();
        out.wrapping_add(inward)
    }
}

/// Until both directions have ended, one has broken, or nothing moved for `idle`.
pub(super) async fn tunnel(
    client: &TcpStream,
    server: &TcpStream,
    moved: &Moved,
    idle: Duration,
    look: Look,
) -> Result<(), Ended> {
    let out = pump(client, server, &moved.out, moved, idle, Some(look));
    let inward = pump(server, client, &moved.inward, moved, idle, None);
    tokio::try_join!(out, inward).map(|_| ())
}

/// Why a tunnel ended before both sides had ended it.
pub(super) enum Ended {
    Broken(io::Error),
    /// Something left that must not.
    Seen(String),
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

async fn pump(
    from: &TcpStream,
    to: &TcpStream,
    count: &AtomicU64,
    moved: &Moved,
    idle: Duration,
    mut look: Option<Look>,
) -> Result<(), Ended> {
    loop {
        let before = moved.sum();
        match tokio::time::timeout(idle, from.readable()).await {
            Ok(ready) => ready?,
            Err(_) if moved.sum() != before => continue,
            Err(_) => return Err(io::Error::from(io::ErrorKind::TimedOut).into()),
        }
        match move_portions(from, to, count, &mut look)? {
            Outcome::Ended => return Ok(shut_down(to)?),
            Outcome::Seen(reason) => return Err(Ended::Seen(reason)),
            Outcome::Emptied => {}
            Outcome::Turn => tokio::task::yield_now().await,
            Outcome::Blocked(rest) => write_rest(to, &rest, idle).await?,
        }
    }
}

enum Outcome {
    /// Nothing more to read for now.
    Emptied,
    /// There may be more, but others wait.
    Turn,
    Ended,
    Seen(String),
    /// The reader is slow; this is what it has not taken.
    Blocked(Vec<u8>),
}

fn move_portions(
    from: &TcpStream,
    to: &TcpStream,
    count: &AtomicU64,
    look: &mut Option<Look>,
) -> io::Result<Outcome> {
    BUFFER.with_borrow_mut(|buffer| {
        for _ in 0..TURN {
            let length = match from.try_read(buffer) {
                Ok(0) => return Ok(Outcome::Ended),
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Outcome::Emptied),
                Err(error) => return Err(error),
            };
            // Nobody can read what a TLS handshake begins with.
            let begins = count.fetch_add(length as u64, Ordering::Relaxed) == 0;
            look.take_if(|_| begins && buffer[0] == TLS_HANDSHAKE);
            if let Some(reason) = look.as_mut().and_then(|look| look(&buffer[..length])) {
                return Ok(Outcome::Seen(reason));
            }
            let mut rest = &buffer[..length];
            while !rest.is_empty() {
                match to.try_write(rest) {
                    Ok(written) => rest = &rest[written..],
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        return Ok(Outcome::Blocked(rest.to_vec()));
                    }
                    Err(error) => return Err(error),
                }
            }
            if length < buffer.len() {
                return Ok(Outcome::Emptied);
            }
        }
        Ok(Outcome::Turn)
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

/// One direction has ended; the other may go on.
fn shut_down(to: &TcpStream) -> io::Result<()> {
    match rustix::net::shutdown(to, rustix::net::Shutdown::Write) {
        Ok(()) | Err(rustix::io::Errno::NOTCONN) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
