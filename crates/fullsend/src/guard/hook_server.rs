//! Answers hooks: a Unix socket that is mounted into the sandbox, served by threads on the host. A request is one line with
//! the runtime and the run's token, then the hook's input; the answer is the hook's exit code and its output. Everything is
//! bounded, and every failure is a refusal.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::dialect::HookAnswer;
use super::rate_limit::RateLimit;
use super::run_socket::{RunListener, RunSocket};
use super::{Guard, hook_client};

/// Hooks that ask at the same time; further ones wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 16;
const TIMEOUT: Duration = Duration::from_secs(10);
/// A caller names itself at once: a silent one must not hold a thread.
const HEAD_TIMEOUT: Duration = Duration::from_secs(1);
/// Hooks are sometimes given whole files.
const MAX_BODY: u64 = 64 << 20;
const MAX_HEAD: u64 = 256;
/// Larger bodies are judged one at a time: parsed, they need many times their size.
const SMALL_BODY: u64 = 1 << 20;
/// More than any real hook has.
const MAX_VALUES: usize = 200_000;
/// For a whole body, so that a slow sender does not keep large ones waiting.
const BODY_TIME: Duration = Duration::from_secs(30);

const NAME: &str = "guard.sock";

/// A guard that listens. Dropping it removes the socket.
pub struct HookServer {
    socket: RunSocket,
}

impl HookServer {
    /// Starts to listen in `directory`, which must be a real directory, private to its owner.
    pub fn start(directory: &Path, guard: &Guard) -> io::Result<Self> {
        let (socket, listener) = RunSocket::bind(directory, NAME)?;
        let shared = Arc::new(Shared {
            guard: guard.clone(),
            accepting: Mutex::new((listener, RateLimit::new(Instant::now()))),
            threads: AtomicUsize::new(0),
            idle: AtomicUsize::new(0),
            large: Mutex::new(()),
        });
        // The second waits for a connection while the first answers.
        start_thread(&shared)?;
        start_thread(&shared)?;
        Ok(Self { socket })
    }

    /// The socket on the host.
    pub fn path(&self) -> &Path {
        self.socket.path()
    }
}

/// What the threads share. One waits for the next hook while others answer, so that no hook waits for a thread to start.
struct Shared {
    guard: Guard,
    /// The thread that holds it waits for the next hook.
    accepting: Mutex<(RunListener, RateLimit)>,
    threads: AtomicUsize,
    /// Threads that answer no hook.
    idle: AtomicUsize,
    /// Held while a large body is read and judged.
    large: Mutex<()>,
}

impl Shared {
    /// The next hook, when its turn comes; `None` when the server is closed.
    fn next(&self) -> Option<UnixStream> {
        let mut accepting = self.accepting.lock().unwrap_or_else(PoisonError::into_inner);
        let (listener, rate_limit) = &mut *accepting;
        let stream = listener.next()?;
        std::thread::sleep(rate_limit.next(Instant::now()));
        Some(stream)
    }
}

/// Starts one more thread, up to the limit.
fn start_thread(shared: &Arc<Shared>) -> io::Result<()> {
    let more = |threads| (threads < MAX_CONNECTIONS).then_some(threads + 1);
    if shared.threads.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_err() {
        return Ok(());
    }
    shared.idle.fetch_add(1, Ordering::SeqCst);
    let own = Arc::clone(shared);
    let spawned = std::thread::Builder::new().name("guard".to_owned()).spawn(move || serve(&own));
    if spawned.is_err() {
        shared.idle.fetch_sub(1, Ordering::SeqCst);
        shared.threads.fetch_sub(1, Ordering::SeqCst);
    }
    spawned.map(|_| ())
}

fn serve(shared: &Arc<Shared>) {
    while let Some(stream) = shared.next() {
        if shared.idle.fetch_sub(1, Ordering::SeqCst) == 1 {
            // Otherwise the next hook would wait until this one is answered.
            drop(start_thread(shared));
        }
        // A hook that went away gets no answer; its call has no verdict.
        drop(serve_one(&stream, shared));
        shared.idle.fetch_add(1, Ordering::SeqCst);
    }
}

fn serve_one(stream: &UnixStream, shared: &Shared) -> io::Result<()> {
    stream.set_read_timeout(Some(HEAD_TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let answer = read_and_judge(stream, shared).unwrap_or_else(|error| {
        HookAnswer::refusal(&format!("fullsend: the guard could not read the hook: {error}"))
    });
    let mut stream = stream;
    stream.write_all(&hook_client::encode(&answer))
}

/// The body is read only after the token is right.
fn read_and_judge(stream: &UnixStream, shared: &Shared) -> io::Result<HookAnswer> {
    let guard = &shared.guard;
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    (&mut reader).take(MAX_HEAD).read_line(&mut head)?;
    let Some(caller) = guard.caller(head.trim_end()) else {
        return Ok(HookAnswer::refusal("fullsend: the guard does not know this hook"));
    };
    stream.set_read_timeout(Some(TIMEOUT))?;
    let deadline = Instant::now() + BODY_TIME;
    let mut body = Vec::new();
    read_until(&mut reader, &mut body, SMALL_BODY, deadline)?;
    let is_large = body.len() as u64 > SMALL_BODY;
    let _alone = is_large.then(|| shared.large.lock().unwrap_or_else(PoisonError::into_inner));
    if is_large {
        read_until(&mut reader, &mut body, MAX_BODY, Instant::now() + BODY_TIME)?;
    }
    if body.len() as u64 > MAX_BODY {
        return Err(io::Error::other(format!("it is larger than {MAX_BODY} bytes")));
    }
    // The guard itself refuses a body that is not JSON.
    if let Err(error) = model::check_json(&body, MAX_VALUES)
        && error.is_data()
    {
        return Err(io::Error::other(error));
    }
    Ok(guard.answer(caller, &body))
}

/// Reads to the end, or until there is one byte more than `most`.
fn read_until(reader: &mut impl Read, body: &mut Vec<u8>, most: u64, deadline: Instant) -> io::Result<()> {
    let mut portion = [0; 16 << 10];
    while body.len() as u64 <= most {
        let read = reader.read(&mut portion)?;
        if read == 0 {
            return Ok(());
        }
        body.extend_from_slice(&portion[..read]);
        if Instant::now() > deadline {
            return Err(io::Error::other("it did not arrive in time"));
        }
    }
    Ok(())
}
