//! Serves the sockets that were made inside the sandbox: one task each to accept, bounded in connections altogether. A
//! connection that panics or misbehaves ends alone; the sandbox has no other way out, whatever happens here.

use super::{Proxy, direct, forward};
use crate::names::{Answers, PlannedSocket, Purpose, serve_stream, serve_udp};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};

/// Answering names must not wait for connections that are slow.
const RESOLVER_CONNECTIONS: usize = 64;

/// A socket of the plan, as the sandbox handed it out.
pub enum ServedSocket {
    Tcp(std::net::TcpListener),
    Udp(std::net::UdpSocket),
}

/// Dropping it ends everything at once.
pub struct Serving {
    shutdown: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Serving {
    /// Takes no new connection and ends those that are open after `grace`; each says its event.
    pub async fn stop(mut self, grace: Duration) {
        self.shutdown.send_replace(true);
        drop(tokio::time::timeout(grace, &mut self.task).await);
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Every planned socket but the gateway's, which the gateway serves itself. Must be called within a tokio runtime.
pub fn start(proxy: &Arc<Proxy>, sockets: Vec<(PlannedSocket, ServedSocket)>) -> io::Result<Serving> {
    let answers = Arc::new(Answers::new(Arc::clone(&proxy.directory), Arc::clone(&proxy.on_event)));
    let places = Arc::new(Semaphore::new(proxy.limits.connections));
    let resolver_places = Arc::new(Semaphore::new(RESOLVER_CONNECTIONS));
    let (shutdown, stopping) = watch::channel(false);
    let mut tasks = JoinSet::new();
    for (planned, socket) in sockets {
        match (planned.purpose, socket) {
            (Purpose::ResolverUdp, ServedSocket::Udp(socket)) => {
                socket.set_nonblocking(true)?;
                tasks.spawn(until_stopped(
                    serve_udp(UdpSocket::from_std(socket)?, Arc::clone(&answers)),
                    stopping.clone(),
                ));
            }
            (purpose, ServedSocket::Tcp(listener)) => {
                listener.set_nonblocking(true)?;
                let listener = TcpListener::from_std(listener)?;
                let places = if purpose == Purpose::ResolverTcp { &resolver_places } else { &places };
                let line = Line { proxy: Arc::clone(proxy), answers: Arc::clone(&answers), purpose };
                tasks.spawn(accept(listener, line, Arc::clone(places), stopping.clone()));
            }
            (_, ServedSocket::Udp(_)) => {
                return Err(io::Error::other("the proxy has no use for this UDP socket"));
            }
        }
    }
    let task = tokio::spawn(async move { while tasks.join_next().await.is_some() {} });
    Ok(Serving { shutdown, task })
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

/// What is done with the connections of one listener.
#[derive(Clone)]
struct Line {
    proxy: Arc<Proxy>,
    answers: Arc<Answers>,
    purpose: Purpose,
}

impl Line {
    async fn serve(self, stream: TcpStream, peer: SocketAddr) {
        if stream.set_nodelay(true).is_err() {
            return;
        }
        match self.purpose {
            Purpose::Proxy => forward::serve(self.proxy, stream, peer).await,
            Purpose::Direct => direct::serve(self.proxy, stream, peer).await,
            Purpose::ResolverTcp => serve_stream(stream, self.answers).await,
            Purpose::Gateway | Purpose::ResolverUdp => {}
        }
    }
}

async fn accept(
    listener: TcpListener,
    line: Line,
    places: Arc<Semaphore>,
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
        // After the connection, not before: a listener that held a place while it waits would starve the others. One
        // connection of each listener waits here, the rest in the kernel's queue.
        let place = tokio::select! {
            () = stopped(&mut stopping) => break,
            place = Arc::clone(&places).acquire_owned() => place,
        };
        let work = line.clone().serve(stream, peer);
        connections.spawn(async move {
            let _place = place;
            work.await;
        });
    }
    drop(listener);
    connections.abort_all();
    while connections.join_next().await.is_some() {}
}
