//! A proxy on the loopback interface before a server's socket: it passes bytes on, holds them back, or cuts connections.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What the proxy does with bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Traffic {
    Passes,
    /// Nothing arrives on either side, and no connection ends.
    Stalls,
    /// Requests arrive, and replies do not.
    LosesReplies,
}

pub(crate) struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    traffic: AtomicU8,
    socket: PathBuf,
    open: Mutex<Vec<TcpStream>>,
    accepted: AtomicUsize,
}

impl Proxy {
    /// A proxy before the PostgreSQL socket in this directory. It lives as long as the process.
    pub(crate) fn start(directory: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            traffic: AtomicU8::new(Traffic::Passes as u8),
            socket: directory.join(".s.PGSQL.5432"),
            open: Mutex::default(),
            accepted: AtomicUsize::new(0),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                accepting.accepted.fetch_add(1, Ordering::SeqCst);
                accepting.serve(stream);
            }
        });
        Self { port, shared }
    }

    pub(crate) fn set(&self, traffic: Traffic) {
        self.shared.traffic.store(traffic as u8, Ordering::SeqCst);
    }

    /// Ends every connection.
    pub(crate) fn cut(&self) {
        for stream in self.shared.open.lock().unwrap().drain(..) {
            drop(stream.shutdown(Shutdown::Both));
        }
    }

    pub(crate) fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// The address of a database through this proxy.
    pub(crate) fn url(&self, database: &str) -> String {
        let (_, name) = database.rsplit_once('/').unwrap();
        format!("postgres://fullsend@127.0.0.1:{}/{name}", self.port)
    }
}

impl Shared {
    fn serve(self: &Arc<Self>, client: TcpStream) {
        let Ok(server) = UnixStream::connect(&self.socket) else { return };
        self.open.lock().unwrap().push(client.try_clone().unwrap());
        let requests = client.try_clone().unwrap();
        let to_server = server.try_clone().unwrap();
        let shared = Arc::clone(self);
        thread::spawn(move || {
            let end = to_server.try_clone();
            shared.pass_on(requests, to_server, Traffic::LosesReplies);
            drop(end.map(|end| end.shutdown(Shutdown::Both)));
        });
        let shared = Arc::clone(self);
        thread::spawn(move || {
            let end = client.try_clone();
            shared.pass_on(server, client, Traffic::Passes);
            drop(end.map(|end| end.shutdown(Shutdown::Both)));
        });
    }

    /// Copies until one side ends. `worst` is the worst traffic in which this direction still passes.
    fn pass_on(&self, mut from: impl Read, mut to: impl Write, worst: Traffic) {
        let mut buffer = [0; 16_384];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            while !self.passes(worst) {
                thread::sleep(Duration::from_millis(5));
            }
            if to.write_all(&buffer[..length]).is_err() {
                break;
            }
        }
    }

    fn passes(&self, worst: Traffic) -> bool {
        let now = self.traffic.load(Ordering::SeqCst);
        now == Traffic::Passes as u8 || now == worst as u8
    }
}
