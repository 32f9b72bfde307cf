//! The end of the tunnel inside: `fullsend __tunnel`. It ends with its input, that is with the run.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use super::{Frame, Kind, ListenOrder, MAX_CONNECTIONS, MAX_WAITING, PIECE, Place};
use crate::event::exit::Exit;

pub(crate) fn main() -> ExitCode {
    match serve(io::stdin().lock()) {
        Ok(()) => Exit::Done.into(),
        Err(error) => {
            drop(writeln!(io::stderr(), "{error}"));
            Exit::Failed.into()
        }
    }
}

fn serve(mut input: impl BufRead) -> io::Result<()> {
    let mut line = String::new();
    (&mut input).take(1 << 16).read_line(&mut line)?;
    let orders: ListenOrder = serde_json::from_str(&line)?;
    let tunnel = Arc::new(Tunnel::default());
    for (service, place) in (0..).zip(&orders.listen) {
        listen(place, service, &tunnel)?;
    }
    tunnel.send(&Frame::new(Kind::Ready, 0, orders.token));
    while let Some(frame) = Frame::read(&mut input)? {
        tunnel.receive(frame);
    }
    Ok(())
}

fn listen(place: &Place, service: u8, tunnel: &Arc<Tunnel>) -> io::Result<()> {
    let tunnel = Arc::clone(tunnel);
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{place:?}: {error}"));
    match place {
        Place::Tcp(address) => {
            let listener = TcpListener::bind(address).map_err(named)?;
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    tunnel.open(Stream::Tcp(stream), service);
                }
            });
        }
        Place::Unix(path) => {
            drop(std::fs::remove_file(path)); // one that an earlier attempt left
            let listener = UnixListener::bind(path).map_err(named)?;
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    tunnel.open(Stream::Unix(stream), service);
                }
            });
        }
    }
    Ok(())
}

/// The connections that are open.
#[derive(Default)]
struct Tunnel {
    next: AtomicU32,
    open: Mutex<BTreeMap<u32, Open>>,
}

/// What the other side sends to one connection.
struct Open {
    to: mpsc::Sender<Vec<u8>>,
    stream: Stream,
    waiting: Arc<AtomicUsize>,
}

impl Tunnel {
    /// Sends one whole frame. If the host is gone, the end of our input ends this process.
    fn send(&self, frame: &Frame) {
        let mut out = io::stdout().lock();
        drop(out.write_all(&frame.encode()).and_then(|()| out.flush()));
    }

    fn connections(&self) -> std::sync::MutexGuard<'_, BTreeMap<u32, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(self: &Arc<Self>, stream: Stream, service: u8) {
        let Ok([reader, writer]) = stream.both() else { return };
        let connection = self.next.fetch_add(1, Ordering::Relaxed);
        let (to, from) = mpsc::channel::<Vec<u8>>();
        let waiting = Arc::new(AtomicUsize::new(0));
        {
            let mut open = self.connections();
            if open.len() >= MAX_CONNECTIONS {
                return;
            }
            open.insert(connection, Open { to, stream, waiting: Arc::clone(&waiting) });
        }
        self.send(&Frame::new(Kind::Open, connection, [service]));
        std::thread::spawn(move || write(writer, &from, &waiting));
        let tunnel = Arc::clone(self);
        std::thread::spawn(move || tunnel.read(reader, connection));
    }

    fn read(&self, mut reader: Stream, connection: u32) {
        let mut piece = vec![0; PIECE];
        loop {
            match reader.read(&mut piece) {
                Ok(0) => return self.send(&Frame::new(Kind::End, connection, [])),
                Ok(length) => self.send(&Frame::new(Kind::Data, connection, &piece[..length])),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.send(&Frame::new(Kind::Reset, connection, [])),
            }
        }
    }

    fn receive(&self, frame: Frame) {
        let mut open = self.connections();
        let Some(connection) = open.get(&frame.connection) else { return };
        match frame.kind {
            Kind::Data => {
                let length = frame.bytes.len();
                let waiting = connection.waiting.fetch_add(length, Ordering::Relaxed) + length;
                if waiting > MAX_WAITING || connection.to.send(frame.bytes).is_err() {
                    connection.stream.close();
                    open.remove(&frame.connection);
                }
            }
            // The channel closes, and the writer after what is left in it.
            Kind::End => drop(open.remove(&frame.connection)),
            Kind::Reset => {
                connection.stream.close();
                open.remove(&frame.connection);
            }
            Kind::Ready | Kind::Open => {}
        }
    }
}

fn write(mut writer: Stream, from: &mpsc::Receiver<Vec<u8>>, waiting: &AtomicUsize) {
    for bytes in from {
        if writer.write_all(&bytes).is_err() {
            return writer.close();
        }
        waiting.fetch_sub(bytes.len(), Ordering::Relaxed);
    }
    writer.end();
}

/// A connection of a program inside.
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// A handle to read from, and one to write to.
    fn both(&self) -> io::Result<[Self; 2]> {
        let one = || match self {
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
        };
        Ok([one()?, one()?])
    }

    /// A connection that has ended already counts as closed.
    fn shut(&self, how: Shutdown) {
        drop(match self {
            Self::Tcp(stream) => stream.shutdown(how),
            Self::Unix(stream) => stream.shutdown(how),
        });
    }

    fn end(&self) {
        self.shut(Shutdown::Write);
    }

    fn close(&self) {
        self.shut(Shutdown::Both);
    }

    fn read(&mut self, piece: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(piece),
            Self::Unix(stream) => stream.read(piece),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.write_all(bytes),
            Self::Unix(stream) => stream.write_all(bytes),
        }
    }
}
