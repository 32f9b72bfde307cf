//! The proxy's own port, which programs know from `HTTP_PROXY` and the like: CONNECT for tunnels, and plain requests in
//! absolute form, each of which may go to another server.

use super::admission::{ClientSocket, identify_caller};
use super::client::{ClientConnection, ConnectReply, refuse_before_tls};
use super::config::Proxy;
use super::destination::Destination;
use super::inspect::{self, ESTABLISHED};
use super::record::ConnectionRecord;
use super::refusal::Refusal;
use super::requests;
use super::route::{ForwardConnection, Routing, admit_forward, gateway_at};
use super::stream::{GatewayConnection, GatewayService};
use super::upstream::UpstreamPool;
use crate::event::ProxyMode;
use crate::http1::{HeadReader, RequestHead, RequestTarget};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

pub(super) async fn serve(proxy: Arc<Proxy>, mut stream: TcpStream, peer: SocketAddr) {
    let Ok(local) = stream.local_addr() else { return };
    let limits = proxy.config.limits;
    let forward = ForwardConnection { proxy, ends: ClientSocket { peer, local } };
    let mut reader = HeadReader::new(&mut stream);
    // The first request has to come at once; only between requests may a client wait.
    let read = reader.read_head(limits.head_time, limits.head_time).await;
    let ahead = reader.into_parts().1;
    let bytes = match read {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return,
        Err(error) => return refuse(&forward, stream, &Refusal::unreadable(error.to_string())).await,
    };
    let target = match RequestHead::parse(&bytes) {
        Err(error) => return refuse(&forward, stream, &Refusal::head(error)).await,
        Ok(head) => head.target,
    };
    match target {
        RequestTarget::Authority(authority) if ahead.is_empty() => {
            // A tunnel may last for hours: it keeps no buffer of its head, and not the space that reading requests needs.
            drop(bytes);
            drop(ahead);
            connect(&forward, stream, &authority).await;
        }
        // The CONNECT is not granted yet, so these bytes belong to no tunnel.
        RequestTarget::Authority(_) => {
            let detail = "bytes follow a CONNECT before it was answered";
            refuse(&forward, stream, &Refusal::unreadable(detail.to_owned())).await;
        }
        _ => {
            let client = ClientConnection::with_prefix(Box::new(stream), &[&bytes[..], &ahead].concat());
            let routing = Routing::ByTarget(forward);
            Box::pin(requests::serve(&routing, client, UpstreamPool::default())).await;
        }
    }
}

/// The proxy for connections that do not come through a socket of the sandbox. It takes plain requests in absolute form.
pub fn service(proxy: Arc<Proxy>) -> GatewayService {
    Arc::new(move |GatewayConnection { stream, peer, local }| {
        let forward = ForwardConnection { proxy: Arc::clone(&proxy), ends: ClientSocket { peer, local } };
        Box::pin(async move {
            let client = ClientConnection::new(stream);
            requests::serve(&Routing::ByTarget(forward), client, UpstreamPool::default()).await;
        })
    })
}

async fn refuse(forward: &ForwardConnection, stream: TcpStream, refusal: &Refusal) {
    let mut record = forward.new_record();
    // The event should name the program; the refusal does not depend on it.
    drop(identify_caller(&forward.proxy, forward.ends, &mut record).await);
    refuse_before_tls(stream, &mut record, refusal, ConnectReply::Established).await;
}

async fn connect(forward: &ForwardConnection, mut stream: TcpStream, authority: &str) {
    let destination = match Destination::from_authority(authority, None) {
        Ok(destination) => destination,
        Err(refusal) => return refuse(forward, stream, &refusal).await,
    };
    let proxy = &forward.proxy;
    if let Some(gateway) = gateway_at(proxy, &destination) {
        if stream.write_all(ESTABLISHED).await.is_ok() {
            let ClientSocket { peer, local } = forward.ends;
            gateway(GatewayConnection { stream: Box::new(stream), peer, local }).await;
        }
        return;
    }
    let host = destination.host.to_string();
    let mut record =
        ConnectionRecord::new(&proxy.config.on_event, ProxyMode::Connect, &host, destination.port);
    match admit_forward(forward, destination, ProxyMode::Connect, &mut record).await {
        Ok(connection) => inspect::serve(connection, stream, ConnectReply::Established, record).await,
        Err(refusal) => refuse_before_tls(stream, &mut record, &refusal, ConnectReply::Established).await,
    }
}
