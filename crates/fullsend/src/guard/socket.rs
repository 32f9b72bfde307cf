//! The guard's ear: a Unix socket that is lent to the sandbox, served by threads of the host. A request is one line with
//! the runtime and the run's token, then what the hook was given; the answer is the hook's exit code and its words.
//! Everything is bounded, and whatever goes wrong is a refusal.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};

use super::dialect::HookAnswer;
use super::pace::Pace;
use super::{Guard, client};

/// Hooks that ask at the same time; further ones wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 16;
const PATIENCE: Duration = Duration::from_secs(10);
/// Who connects says at once who it is: a place is not kept for the silent.
const HEAD_PATIENCE: Duration = Duration::from_secs(1);
/// A hook is given whole files at times.
const MAX_BODY: u64 = 64 << 20;
const MAX_HEAD: u64 = 256;

const NAME: &str = "guard.sock";

/// A guard that listens. Dropping it ends the listening and removes the socket.
pub struct Listening {
    path: PathBuf,
    directory: OwnedFd,
    closed: Arc<AtomicBool>,
}

impl Listening {
    /// The socket on the host.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::SeqCst);
        // Wakes the thread that waits for a connection, so that it sees the flag.
        drop(UnixStream::connect(short(&self.directory)));
        drop(std::fs::remove_file(&self.path));
    }
}

/// Starts to listen in `directory`, which must be real and private to its owner.
pub fn listen(directory: &Path, guard: &Guard) -> io::Result<Listening> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(directory, flags, Mode::empty())?;
    let listener = UnixListener::bind(short(&opened))?; // undone when `Listening` is dropped
    let path = directory.join(NAME);
    // The sandbox has an identity of its own; only what the mount shows it can be reached by it.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666))?;
    let closed = Arc::new(AtomicBool::new(false));
    let ear = Arc::new(Ear {
        guard: guard.clone(),
        accepting: Mutex::new((listener, Pace::new(Instant::now()))),
        closed: Arc::clone(&closed),
        threads: AtomicUsize::new(0),
        idle: AtomicUsize::new(0),
    });
    // The second waits until the first has a hook to answer.
    start(&ear)?;
    start(&ear)?;
    Ok(Listening { path, directory: opened, closed })
}

/// The kernel takes 107 bytes of a socket's path; a run's directory is often longer.
fn short(directory: &OwnedFd) -> String {
    format!("/proc/self/fd/{}/{NAME}", directory.as_raw_fd())
}

/// What the threads of one guard share. One of them waits for the next hook while others answer: a thread that had to be
/// started first would make every hook wait for it.
struct Ear {
    guard: Guard,
    /// Whoever has it waits for the next hook.
    accepting: Mutex<(UnixListener, Pace)>,
    closed: Arc<AtomicBool>,
    threads: AtomicUsize,
    /// Threads that answer nobody.
    idle: AtomicUsize,
}

impl Ear {
    /// The next hook, when it is its turn; none when the listening is over.
    fn next(&self) -> Option<UnixStream> {
        let mut accepting = self.accepting.lock().unwrap_or_else(PoisonError::into_inner);
        let (listener, pace) = &mut *accepting;
        while !self.closed.load(Ordering::SeqCst) {
            let Ok((stream, _)) = listener.accept() else {
                std::thread::sleep(Duration::from_millis(20));
                continue;
            };
            std::thread::sleep(pace.next(Instant::now()));
            return Some(stream);
        }
        None
    }
}

/// Starts one more thread, unless there are as many as there may be.
fn start(ear: &Arc<Ear>) -> io::Result<()> {
    let more = |threads| (threads < MAX_CONNECTIONS).then_some(threads + 1);
    if ear.threads.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_err() {
        return Ok(());
    }
    ear.idle.fetch_add(1, Ordering::SeqCst);
    let own = Arc::clone(ear);
    let spawned = std::thread::Builder::new().name("guard".to_owned()).spawn(move || serve(&own));
    if spawned.is_err() {
        ear.idle.fetch_sub(1, Ordering::SeqCst);
        ear.threads.fetch_sub(1, Ordering::SeqCst);
    }
    spawned.map(|_| ())
}

fn serve(ear: &Arc<Ear>) {
    while let Some(stream) = ear.next() {
        if ear.idle.fetch_sub(1, Ordering::SeqCst) == 1 {
            // Without one more, the next hook waits until this one has its answer.
            drop(start(ear));
        }
        // A hook that went away needs no answer; it counts as one that was never asked.
        drop(answer(&stream, &ear.guard));
        ear.idle.fetch_add(1, Ordering::SeqCst);
    }
}

fn answer(stream: &UnixStream, guard: &Guard) -> io::Result<()> {
    stream.set_read_timeout(Some(HEAD_PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let said = judge(stream, guard).unwrap_or_else(|error| {
        HookAnswer::refusal(&format!("fullsend: the guard could not read the hook: {error}"))
    });
    let mut stream = stream;
    stream.write_all(&client::encode(&said))
}

/// What a stranger sends is not even read.
fn judge(stream: &UnixStream, guard: &Guard) -> io::Result<HookAnswer> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    (&mut reader).take(MAX_HEAD).read_line(&mut head)?;
    let Some(asker) = guard.asker(head.trim_end()) else {
        return Ok(HookAnswer::refusal("fullsend: the guard does not know this hook"));
    };
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut body = Vec::new();
    reader.take(MAX_BODY + 1).read_to_end(&mut body)?;
    if body.len() as u64 > MAX_BODY {
        return Err(io::Error::other(format!("it is larger than {MAX_BODY} bytes")));
    }
    Ok(guard.answer(asker, &body))
}
