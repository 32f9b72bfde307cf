//! Accepts connections on a socket that was made inside the sandbox and hands their requests to the gateway. Bounded in
//! connections and time; a connection that misbehaves affects no other.

use super::Gateway;
use super::client::{CheckClient, GatewayClient};
use super::exchange;
use egress::proxy::{GatewayConnection, GatewayService};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};

const HEAD_TIME: Duration = Duration::from_secs(15);
const MAX_HEAD_BYTES: usize = 64 << 10;

/// A gateway that is being served. Dropping it stops everything at once.
pub struct GatewayServer {
    shutdown: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// Must be called within a tokio runtime.
pub fn start(
    listener: std::net::TcpListener,
    gateway: Arc<Gateway>,
    check: Option<CheckClient>,
) -> io::Result<GatewayServer> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let (shutdown, stopping) = watch::channel(false);
    let task = tokio::spawn(accept(listener, gateway, check, stopping));
    Ok(GatewayServer { shutdown, task })
}

impl GatewayServer {
    /// Accepts no new request, lets pending ones end within `grace`, then aborts them.
    pub async fn stop(mut self, grace: Duration) {
        self.shutdown.send_replace(true);
        // After the grace, dropping `self` aborts what is left.
        let _ended = tokio::time::timeout(grace, &mut self.task).await;
    }
}

impl Drop for GatewayServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(
    listener: TcpListener,
    gateway: Arc<Gateway>,
    check: Option<CheckClient>,
    mut stopping: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(gateway.limits.connections));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stopped(&mut stopping) => break,
            Some(_) = connections.join_next() => {}
            accepted = next(&listener, &places) => match accepted {
                Ok((stream, peer, place)) => {
                    let Ok(local) = stream.local_addr() else { continue };
                    let client = GatewayClient { peer, local, check: check.clone() };
                    connections.spawn(connection(stream, Arc::clone(&gateway), client, stopping.clone(), place));
                }
                // Out of descriptors, or the peer is gone: pause and continue.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            },
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Also when the handle is gone.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    drop(stopping.wait_for(|stop| *stop).await);
}

/// Waits for a free slot first: connections that cannot be served wait in the kernel's queue.
async fn next(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream, peer, place))
}

async fn connection(
    stream: TcpStream,
    gateway: Arc<Gateway>,
    client: GatewayClient,
    mut stopping: watch::Receiver<bool>,
    _place: OwnedSemaphorePermit,
) {
    let service = service_fn(move |request| exchange::answer(Arc::clone(&gateway), client.clone(), request));
    let serving = builder().serve_connection(TokioIo::new(stream), service);
    tokio::pin!(serving);
    let served = tokio::select! {
        served = serving.as_mut() => served,
        () = stopped(&mut stopping) => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    // The client broke off or did not speak HTTP. Its exchange, if any, has reported it.
    drop(served);
}

fn builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(MAX_HEAD_BYTES);
    builder
}

/// Serves connections that did not come through a listener: those of clients that ask the proxy for the model.
pub fn service(gateway: Arc<Gateway>, check: Option<CheckClient>) -> GatewayService {
    Arc::new(move |connection| Box::pin(serve_connection(connection, Arc::clone(&gateway), check.clone())))
}

async fn serve_connection(connection: GatewayConnection, gateway: Arc<Gateway>, check: Option<CheckClient>) {
    let GatewayConnection { stream, peer, local } = connection;
    let client = GatewayClient { peer, local, check };
    let service = service_fn(move |request| exchange::answer(Arc::clone(&gateway), client.clone(), request));
    // The exchange has reported what went wrong.
    drop(builder().serve_connection(TokioIo::new(stream), service).await);
}
