//! Accepts connections on the sockets that were made inside the sandbox: one task for each socket, and one bound for all
//! connections together. A connection that panics or misbehaves ends alone. If the proxy ends, nothing leaves the sandbox.

use super::config::Proxy;
use super::{direct, forward};
use crate::names::{NameServer, PlannedSocket, SocketPurpose, serve_stream, serve_udp};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};

/// DNS over TCP has its own bound, so that slow connections to the proxy do not stop name resolution.
const RESOLVER_CONNECTIONS: usize = 64;

/// A planned socket that the sandbox has opened.
pub enum ServedSocket {
    Tcp(std::net::TcpListener),
    Udp(std::net::UdpSocket),
}

/// Dropping it ends all connections at once.
pub struct RunningProxy {
    shutdown: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl RunningProxy {
    /// Accepts no new connection and ends the open ones; waits at most `grace` until each has emitted its event.
    pub async fn stop(mut self, grace: Duration) {
        self.shutdown.send_replace(true);
        drop(tokio::time::timeout(grace, &mut self.task).await);
    }
}

impl Drop for RunningProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves all planned sockets except the gateway's, which serves its own. Must be called within a tokio runtime.
pub fn start(proxy: &Arc<Proxy>, sockets: Vec<(PlannedSocket, ServedSocket)>) -> io::Result<RunningProxy> {
    let name_server =
        Arc::new(NameServer::new(Arc::clone(&proxy.config.directory), Arc::clone(&proxy.config.on_event)));
    let permits = Arc::new(Semaphore::new(proxy.config.limits.connections));
    let resolver_permits = Arc::new(Semaphore::new(RESOLVER_CONNECTIONS));
    let (shutdown, stopping) = watch::channel(false);
    let mut tasks = JoinSet::new();
    for (planned, socket) in sockets {
        match (planned.purpose, socket) {
            (SocketPurpose::ResolverUdp, ServedSocket::Udp(socket)) => {
                socket.set_nonblocking(true)?;
                tasks.spawn(until_stopped(
                    serve_udp(UdpSocket::from_std(socket)?, Arc::clone(&name_server)),
                    stopping.clone(),
                ));
            }
            (purpose, ServedSocket::Tcp(listener)) => {
                listener.set_nonblocking(true)?;
                let listener = TcpListener::from_std(listener)?;
                let permits =
                    if purpose == SocketPurpose::ResolverTcp { &resolver_permits } else { &permits };
                let served =
                    Listener { proxy: Arc::clone(proxy), name_server: Arc::clone(&name_server), purpose };
                tasks.spawn(accept(listener, served, Arc::clone(permits), stopping.clone()));
            }
            (_, ServedSocket::Udp(_)) => {
                return Err(io::Error::other("the proxy has no use for this UDP socket"));
            }
        }
    }
    let task = tokio::spawn(async move { while tasks.join_next().await.is_some() {} });
    Ok(RunningProxy { shutdown, task })
}

async fn until_stopped(work: impl Future<Output = ()>, mut stopping: watch::Receiver<bool>) {
    tokio::select! {
        () = work => {}
        () = stopped(&mut stopping) => {}
    }
}

async fn stopped(stopping: &mut watch::Receiver<bool>) {
    drop(stopping.wait_for(|stop| *stop).await);
}

/// How the connections of one listener are served.
#[derive(Clone)]
struct Listener {
    proxy: Arc<Proxy>,
    name_server: Arc<NameServer>,
    purpose: SocketPurpose,
}

impl Listener {
    async fn serve(self, stream: TcpStream, peer: SocketAddr) {
        if stream.set_nodelay(true).is_err() {
            return;
        }
        match self.purpose {
            SocketPurpose::Proxy => forward::serve(self.proxy, stream, peer).await,
            SocketPurpose::Direct => direct::serve(self.proxy, stream, peer).await,
            SocketPurpose::ResolverTcp => serve_stream(stream, self.name_server).await,
            SocketPurpose::Gateway | SocketPurpose::ResolverUdp => {}
        }
    }
}

async fn accept(
    listener: TcpListener,
    served: Listener,
    permits: Arc<Semaphore>,
    mut stopping: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = stopped(&mut stopping) => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, peer)) = accepted else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        // After the connection, not before: a listener that holds a permit while it waits would starve the others. One
        // connection of each listener waits here, the rest in the kernel's queue.
        let permit = tokio::select! {
            () = stopped(&mut stopping) => break,
            permit = Arc::clone(&permits).acquire_owned() => permit,
        };
        let work = served.clone().serve(stream, peer);
        connections.spawn(async move {
            let _permit = permit;
            work.await;
        });
    }
    drop(listener);
    connections.abort_all();
    while connections.join_next().await.is_some() {}
}
