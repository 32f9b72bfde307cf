//! The end of the tunnel on this machine: each connection from inside reaches the service that it was opened for.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use egress::proxy::{BoxStream, GatewayConnection, GatewayService};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::{Frame, Frames, Kind, ListenOrder, MAX_CONNECTIONS, PIECE, Place};
use crate::backend::openshell::client::{self, ExecEvent, OpenshellError};
use crate::backend::openshell::files;
use crate::backend::openshell::grpc::{Answers, RequestSender};

/// Until it listens inside.
const START_TIME: Duration = Duration::from_secs(30);

/// How much may wait for one service. The whole tunnel then stops until the service has read it.
const WAITING: usize = 64;

/// A service of this machine and its place inside.
pub struct TunnelService {
    pub(in crate::backend::openshell) place: Place,
    target: Target,
}

#[derive(Clone)]
enum Target {
    /// A service of this process.
    Process { service: GatewayService, address: SocketAddr },
    /// A Unix socket of this machine.
    Socket(PathBuf),
}

impl TunnelService {
    pub fn process(service: GatewayService, inside: SocketAddr) -> Self {
        Self { place: Place::Tcp(inside), target: Target::Process { service, address: inside } }
    }

    pub fn socket(host: PathBuf, inside: &str) -> Self {
        Self { place: Place::Unix(inside.to_owned()), target: Target::Socket(host) }
    }
}

/// A tunnel that is open. Dropping it closes it.
pub(in crate::backend::openshell) struct Tunnel {
    task: JoinHandle<()>,
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Opens the tunnel over a command that was started, and waits until it listens inside.
pub(in crate::backend::openshell) async fn open(
    services: Vec<TunnelService>,
    calls: (RequestSender, Answers),
    lost: Arc<OnceLock<OpenshellError>>,
) -> Result<Tunnel, OpenshellError> {
    let (sender, answers) = calls;
    let token = uuid::Uuid::new_v4().simple().to_string();
    let listen = services.iter().map(|service| service.place.clone()).collect();
    let orders = ListenOrder { token: token.clone(), listen };
    let mut line = serde_json::to_vec(&orders).unwrap_or_default();
    line.push(b'\n');
    sender.send(client::input(&line)).await;
    let (ready, is_ready) = oneshot::channel();
    let targets = services.into_iter().map(|service| service.target).collect();
    let tunnel = Running { targets, sender, open: BTreeMap::new(), token, ready: Some(ready), lost };
    let task = tokio::spawn(tunnel.follow(answers));
    let tunnel = Tunnel { task };
    let failed = |why: &str| OpenshellError::Inside { what: "the tunnel".to_owned(), why: why.to_owned() };
    match tokio::time::timeout(START_TIME, is_ready).await {
        Ok(Ok(Ok(()))) => Ok(tunnel),
        Ok(Ok(Err(why))) => Err(failed(&why)),
        Ok(Err(_)) => Err(failed("it ended at once")),
        Err(_) => Err(failed("it does not listen")),
    }
}

struct Running {
    targets: Vec<Target>,
    sender: RequestSender,
    open: BTreeMap<u32, mpsc::Sender<Vec<u8>>>,
    token: String,
    /// Until the tunnel is ready.
    ready: Option<oneshot::Sender<Result<(), String>>>,
    /// Gets the reason if the tunnel ends before the run.
    lost: Arc<OnceLock<OpenshellError>>,
}

impl Running {
    async fn follow(mut self, mut answers: Answers) {
        let mut frames = Frames::default();
        let mut errors = String::new();
        let why = loop {
            let answer = match answers.next().await {
                Ok(Some(answer)) => answer,
                Ok(None) => break "its stream was cut".to_owned(),
                Err(error) => break error.to_string(),
            };
            match client::event(&answer) {
                Some(ExecEvent::Stdout(bytes)) => frames.add(bytes),
                Some(ExecEvent::Stderr(bytes)) if errors.len() < 1 << 12 => {
                    errors.push_str(&String::from_utf8_lossy(bytes));
                }
                Some(ExecEvent::Stderr(_)) | None => {}
                Some(ExecEvent::Exit(code)) => break format!("it ended with {code}. {}", errors.trim()),
            }
            if let Err(error) = self.receive(&mut frames).await {
                break error.to_string();
            }
        };
        match self.ready.take() {
            Some(ready) => drop(ready.send(Err(why))), // who waits may have given up
            // The first reason counts.
            None => drop(self.lost.set(OpenshellError::Inside { what: "the tunnel".to_owned(), why })),
        }
    }

    async fn receive(&mut self, frames: &mut Frames) -> std::io::Result<()> {
        while let Some(Frame { kind, connection, bytes }) = frames.next()? {
            if kind == Kind::Ready && bytes == self.token.as_bytes() {
                self.ready.take().map(|ready| ready.send(Ok(())));
                continue;
            }
            if self.ready.is_some() {
                return Err(std::io::Error::other("it did not give the token"));
            }
            match kind {
                Kind::Open => self.serve(connection, bytes.first().copied()).await,
                Kind::Data => {
                    if let Some(to) = self.open.get(&connection) {
                        drop(to.send(bytes).await); // one that has ended takes nothing more
                    }
                }
                // The channel closes, and the service sees the end after what is left in it.
                Kind::End | Kind::Reset => drop(self.open.remove(&connection)),
                Kind::Ready => {}
            }
        }
        Ok(())
    }

    async fn serve(&mut self, connection: u32, service: Option<u8>) {
        self.open.retain(|_, to| !to.is_closed());
        let target = service.and_then(|service| self.targets.get(usize::from(service))).cloned();
        let Some(target) = target.filter(|_| self.open.len() < MAX_CONNECTIONS) else {
            return send(&self.sender, Frame::new(Kind::Reset, connection, [])).await;
        };
        let (to, from) = mpsc::channel(WAITING);
        self.open.insert(connection, to);
        let sender = self.sender.clone();
        tokio::spawn(async move {
            match target.connect().await {
                Ok(stream) => carry(stream, connection, from, sender).await,
                Err(_) => send(&sender, Frame::new(Kind::Reset, connection, [])).await,
            }
        });
    }
}

impl Target {
    async fn connect(self) -> std::io::Result<BoxStream> {
        match self {
            Self::Socket(path) => Ok(Box::new(connect_socket(&path).await?)),
            Self::Process { service, address } => {
                let (ours, theirs) = tokio::io::duplex(PIECE * 2);
                let connection =
                    GatewayConnection { stream: Box::new(theirs), peer: address, local: address };
                tokio::spawn(service(connection));
                Ok(Box::new(ours))
            }
        }
    }
}

/// The kernel takes 107 bytes of a socket's path; a run's directory is often longer.
async fn connect_socket(path: &Path) -> std::io::Result<UnixStream> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    let directory = files::open_directory(parent)?; // open until the connection is made
    let name = path.file_name().unwrap_or_default();
    let short = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name);
    UnixStream::connect(short).await
}

async fn carry(stream: BoxStream, connection: u32, from: mpsc::Receiver<Vec<u8>>, sender: RequestSender) {
    let (reader, writer) = tokio::io::split(stream);
    let inwards = tokio::spawn(answer(reader, connection, sender));
    request(writer, from).await;
    drop(inwards.await); // a task that panicked has sent what it could
}

async fn request(mut writer: WriteHalf<BoxStream>, mut from: mpsc::Receiver<Vec<u8>>) {
    while let Some(bytes) = from.recv().await {
        if writer.write_all(&bytes).await.is_err() {
            return;
        }
    }
    drop(writer.shutdown().await); // the other half reports what is wrong
}

async fn answer(mut reader: ReadHalf<BoxStream>, connection: u32, sender: RequestSender) {
    let mut piece = vec![0; PIECE];
    loop {
        match reader.read(&mut piece).await {
            Ok(0) => return send(&sender, Frame::new(Kind::End, connection, [])).await,
            Ok(length) => send(&sender, Frame::new(Kind::Data, connection, &piece[..length])).await,
            Err(_) => return send(&sender, Frame::new(Kind::Reset, connection, [])).await,
        }
    }
}

async fn send(sender: &RequestSender, frame: Frame) {
    sender.send(client::input(&frame.encode())).await;
}
