//! What happens to an admitted connection: it becomes a tunnel if no rule has to read its requests; otherwise the proxy
//! ends TLS here and starts it anew towards the server. It asks the server first, so that the client is offered the
//! protocol that the server speaks.

use super::admission::AdmittedConnection;
use super::client::{ClientConnection, ConnectReply, refuse_before_tls};
use super::http2::{self, HTTP_2};
use super::outgoing_check::watch;
use super::outgoing_request::must_read_requests;
use super::record::ConnectionRecord;
use super::refusal::Refusal;
use super::requests;
use super::route::Routing;
use super::stream::BoxStream;
use super::tunnel::{ByteCounts, CountedRecord, TLS_HANDSHAKE, TunnelError, tunnel};
use super::upstream::{HTTP_1, UpstreamPool};
use policy::Host;
use rustls::server::{Acceptor, ClientHello};
use std::sync::Arc;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, StartHandshake};

pub(super) const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// `record` is the connection's; requests that are read have their own.
pub(super) async fn serve(
    mut connection: AdmittedConnection,
    mut client: TcpStream,
    greeting: ConnectReply,
    mut record: ConnectionRecord,
) {
    let config = &connection.proxy.config;
    let destination = &connection.destination;
    let dialled =
        config.dialer.connect(&destination.host_text(), &connection.addresses, destination.port).await;
    let server = match dialled {
        Ok(server) => server,
        Err(error) => return refuse_before_tls(client, &mut record, &Refusal::dial(&error), greeting).await,
    };
    if greeting == ConnectReply::Established && client.write_all(ESTABLISHED).await.is_err() {
        return;
    }
    if !must_read_requests(&connection) || connection.admitted.tls_skip() {
        return serve_tunnel(&connection, &client, &server, record).await;
    }
    let mut first = [0];
    match tokio::time::timeout(config.limits.idle, client.peek(&mut first)).await {
        Ok(Ok(1)) if first[0] == TLS_HANDSHAKE => {
            connection.tls = true;
            Box::pin(serve_tls(connection, client, server, record)).await;
        }
        Ok(Ok(1)) if first[0].is_ascii_alphabetic() => {
            record.discard();
            Box::pin(serve_requests(connection, Box::new(client), Box::new(server))).await;
        }
        // Requests are read only for credentials, and these bytes cannot hold a placeholder.
        Ok(Ok(1)) if !connection.admitted.reads_requests() => {
            serve_tunnel(&connection, &client, &server, record).await;
        }
        Ok(Ok(1)) => {
            let detail = "the endpoint's rules read HTTP requests, and this is neither TLS nor HTTP";
            record.refused(&Refusal::unreadable(detail.to_owned()));
        }
        _ => record.broken("the client sent nothing".to_owned()),
    }
}

async fn serve_requests(connection: AdmittedConnection, client: BoxStream, server: BoxStream) {
    let pool = UpstreamPool::with(connection.destination.clone(), server);
    let routing = Routing::Fixed(Arc::new(connection));
    requests::serve(&routing, ClientConnection::new(client), pool).await;
}

async fn serve_tunnel(
    connection: &AdmittedConnection,
    client: &TcpStream,
    server: &TcpStream,
    mut record: ConnectionRecord,
) {
    let config = &connection.proxy.config;
    record.allowed((config.locate)(&connection.admitted.cause()));
    let counts = ByteCounts::default();
    let counted = CountedRecord { record: &mut record, counts: &counts };
    let watcher = watch(config.leak_watcher.as_ref(), &connection.destination);
    let ended = tokio::select! {
        ended = tunnel(client, server, &counts, config.limits.tunnel_idle, watcher) => ended,
        refusal = connection.watch_caller(&counts) => Err(TunnelError::Refused(refusal)),
    };
    match ended {
        Ok(()) => {}
        Err(TunnelError::Broken(error)) => counted.record.broken(error.to_string()),
        Err(TunnelError::Leak(reason)) => counted.record.refused(&Refusal::leak(reason)),
        Err(TunnelError::Refused(refusal)) => counted.record.refused(&refusal),
    }
}

async fn serve_tls(
    connection: AdmittedConnection,
    client: TcpStream,
    server: TcpStream,
    mut record: ConnectionRecord,
) {
    let hello = match read_hello(&connection, client).await {
        Ok(hello) => hello,
        Err(TlsFailure::Broken(reason)) => return record.broken(reason),
        Err(TlsFailure::Refused(refusal)) => return record.refused(&refusal),
    };
    let host = connection.destination.host_text();
    let offered = offered_protocols(&hello.client_hello());
    let secured = connection.proxy.config.dialer.secure(server, &host, &offered).await;
    let chosen = match &secured {
        Ok(server) => server.get_ref().1.alpn_protocol().map(<[u8]>::to_vec),
        // The server chose nothing; the client reads the refusal in a protocol that it offered.
        Err(_) => offered.last().map(|protocol| protocol.to_vec()),
    };
    // The handshake with the client is completed even if the server's failed: the client can read a refusal inside TLS,
    // but not the reason for a broken handshake.
    let client = match finish_handshake(&connection, hello, chosen.as_deref()).await {
        Ok(client) => client,
        Err(reason) => return record.broken(reason),
    };
    let speaks_http2 = chosen.as_deref() == Some(HTTP_2);
    match secured {
        Ok(server) if speaks_http2 => {
            record.discard();
            http2::serve(connection, Box::new(client), Box::new(server)).await;
        }
        Ok(server) => {
            record.discard();
            serve_requests(connection, Box::new(client), Box::new(server)).await;
        }
        Err(error) if speaks_http2 => {
            record.discard();
            http2::refuse_all(connection, Box::new(client), Refusal::dial(&error)).await;
        }
        Err(error) => refuse_first(&connection, client, &Refusal::dial(&error), record).await,
    }
}

enum TlsFailure {
    Broken(String),
    Refused(Refusal),
}

const LATE_HANDSHAKE: &str = "the client's TLS handshake did not finish in time";

/// Reads the client's hello. Its server name must be the host that the connection was admitted for.
async fn read_hello(
    connection: &AdmittedConnection,
    client: TcpStream,
) -> Result<StartHandshake<TcpStream>, TlsFailure> {
    let accepting = LazyConfigAcceptor::new(Acceptor::default(), client);
    let hello = tokio::time::timeout(connection.proxy.config.limits.head_time, accepting)
        .await
        .map_err(|_| TlsFailure::Broken(LATE_HANDSHAKE.to_owned()))?
        .map_err(|error| TlsFailure::Broken(format!("the client's TLS: {error}")))?;
    let destination = &connection.destination;
    if let Some(name) = hello.client_hello().server_name()
        && Host::parse(name).as_ref() != Ok(&destination.host)
    {
        let host = destination.host_text();
        let detail = format!("the TLS server name is {name}, the connection is for {host}");
        return Err(TlsFailure::Refused(Refusal::unreadable(detail)));
    }
    Ok(hello)
}

async fn finish_handshake(
    connection: &AdmittedConnection,
    hello: StartHandshake<TcpStream>,
    protocol: Option<&[u8]>,
) -> Result<TlsStream<TcpStream>, String> {
    let config = &connection.proxy.config;
    let host = connection.destination.host_text();
    let bare = host.trim_matches(['[', ']']);
    let authority = config.authority.as_ref().ok_or("this sandbox has no certificate authority")?;
    let server_config = authority.server_config(bare, protocol).map_err(|error| error.to_string())?;
    tokio::time::timeout(config.limits.head_time, hello.into_stream(server_config))
        .await
        .map_err(|_| LATE_HANDSHAKE.to_owned())?
        .map_err(|error| format!("the client's TLS: {error}"))
}

/// Refuses the first request, because there is no server to send it to.
async fn refuse_first(
    connection: &AdmittedConnection,
    client: TlsStream<TcpStream>,
    refusal: &Refusal,
    mut record: ConnectionRecord,
) {
    let limits = connection.proxy.config.limits;
    let mut client = ClientConnection::new(Box::new(client));
    if let Ok(Some(_)) = client.reader.read_head(limits.idle, limits.head_time).await {
        client.refuse(&mut record, refusal).await;
    } else {
        record.refused(refusal);
    }
}

/// Of the protocols that the client offers, those that the proxy can read, best first. A client that offers none speaks
/// HTTP/1.1.
fn offered_protocols(hello: &ClientHello<'_>) -> Vec<&'static [u8]> {
    let Some(named) = hello.alpn() else { return vec![HTTP_1] };
    let named: Vec<&[u8]> = named.collect();
    [HTTP_2, HTTP_1].into_iter().filter(|protocol| named.contains(protocol)).collect()
}
