//! A Unix socket of one run that is mounted into its sandbox: the guard's and the one for skills.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};

/// A socket that listens. Dropping it removes the socket and ends its listener.
pub struct RunSocket {
    path: PathBuf,
    /// The open directory through which the socket is reached, however long its path is.
    short_path: ShortPath,
    closed: Arc<AtomicBool>,
}

/// The other half of a socket, for the thread that serves it.
pub struct RunListener {
    listener: UnixListener,
    closed: Arc<AtomicBool>,
}

impl RunSocket {
    /// Starts to listen in `directory`, which must be a real directory, private to its owner.
    pub fn bind(directory: &Path, name: &'static str) -> io::Result<(Self, RunListener)> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let short_path = ShortPath { directory: rustix::fs::open(directory, flags, Mode::empty())?, name };
        let listener = UnixListener::bind(short_path.get())?; // undone when the socket is dropped
        let path = directory.join(name);
        // The sandbox runs as another user, and reaches only what is mounted there.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666))?;
        let closed = Arc::new(AtomicBool::new(false));
        let listener = RunListener { listener, closed: Arc::clone(&closed) };
        Ok((Self { path, short_path, closed }, listener))
    }

    /// The socket on the host.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for RunSocket {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::SeqCst);
        // Wakes the thread that waits for a connection, so that it sees the flag.
        drop(UnixStream::connect(self.short_path.get()));
        drop(std::fs::remove_file(&self.path));
    }
}

impl RunListener {
    /// The next connection; `None` when the socket is closed.
    pub fn next(&self) -> Option<UnixStream> {
        while !self.closed.load(Ordering::SeqCst) {
            match self.listener.accept() {
                Ok((stream, _)) => return Some(stream).filter(|_| !self.closed.load(Ordering::SeqCst)),
                // Too many open files, or a client that disconnected: continue with later connections.
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        None
    }
}

/// The kernel takes 107 bytes of a socket's path; a run's directory is often longer.
struct ShortPath {
    directory: OwnedFd,
    name: &'static str,
}

impl ShortPath {
    fn get(&self) -> String {
        format!("/proc/self/fd/{}/{}", self.directory.as_raw_fd(), self.name)
    }
}
