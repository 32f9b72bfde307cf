//! Connections to servers, and the one that a client connection keeps open between its requests.

use super::admission::AdmittedConnection;
use super::destination::Destination;
use super::refusal::Refusal;
use super::route::GatewayTarget;
use super::stream::{BoxStream, GatewayConnection};
use crate::http1::HeadReader;
use bytes::BytesMut;
use tokio::io::{ReadHalf, WriteHalf};

pub(super) const HTTP_1: &[u8] = b"http/1.1";
const GATEWAY_BUFFER_BYTES: usize = 64 << 10;

/// A connection that requests are written to and responses are read from.
pub(super) struct Upstream {
    pub(super) reader: HeadReader<ReadHalf<BoxStream>>,
    pub(super) writer: WriteHalf<BoxStream>,
}

impl Upstream {
    fn new(stream: BoxStream) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        Self { reader: HeadReader::new(reader), writer }
    }

    /// Whether another request may be written: an idle server has sent nothing and has not closed.
    async fn is_usable(&mut self) -> bool {
        if !self.reader.buffered().is_empty() {
            return false;
        }
        tokio::select! {
            biased;
            // The end of the connection, or bytes that no request asked for.
            _ = self.reader.peek_any() => false,
            () = std::future::ready(()) => true,
        }
    }

    /// The stream, and the bytes that were read ahead.
    pub(super) fn into_stream(self) -> (BoxStream, BytesMut) {
        let (reader, prefix) = self.reader.into_parts();
        (reader.unsplit(self.writer), prefix)
    }
}

/// The upstream connection of one client connection. It is kept while the requests go to the same destination.
#[derive(Default)]
pub(super) struct UpstreamPool {
    open: Option<(Destination, Upstream)>,
}

impl UpstreamPool {
    /// Starts with a connection that was made already.
    pub(super) fn with(destination: Destination, stream: BoxStream) -> Self {
        Self { open: Some((destination, Upstream::new(stream))) }
    }

    /// The open connection, or a new one.
    pub(super) async fn server(&mut self, connection: &AdmittedConnection) -> Result<&mut Upstream, Refusal> {
        let reusable = match &mut self.open {
            Some((open, upstream)) => *open == connection.destination && upstream.is_usable().await,
            None => false,
        };
        let kept = match self.open.take() {
            Some((_, upstream)) if reusable => upstream,
            _ => Upstream::new(dial(connection, HTTP_1).await?),
        };
        Ok(&mut self.open.insert((connection.destination.clone(), kept)).1)
    }

    pub(super) fn gateway(&mut self, target: &GatewayTarget) -> &mut Upstream {
        let GatewayTarget { service, destination, peer, local, .. } = target;
        let kept = match self.open.take() {
            Some((open, upstream)) if open == *destination => upstream,
            _ => {
                let (near, far) = tokio::io::duplex(GATEWAY_BUFFER_BYTES);
                tokio::spawn(service(GatewayConnection {
                    stream: Box::new(far),
                    peer: *peer,
                    local: *local,
                }));
                Upstream::new(Box::new(near))
            }
        };
        &mut self.open.insert((destination.clone(), kept)).1
    }

    pub(super) fn into_upstream(self) -> Option<Upstream> {
        self.open.map(|(_, upstream)| upstream)
    }
}

/// Dials one of the addresses that were checked when the connection was admitted.
pub(super) async fn dial(connection: &AdmittedConnection, protocol: &[u8]) -> Result<BoxStream, Refusal> {
    let AdmittedConnection { proxy, destination, addresses, tls, .. } = connection;
    let dialer = &proxy.config.dialer;
    let host = destination.host_text();
    let connected = dialer.connect(&host, addresses, destination.port).await;
    let stream = connected.map_err(|error| Refusal::dial(&error))?;
    if !tls {
        return Ok(Box::new(stream));
    }
    let secured = dialer.secure(stream, &host, &[protocol]).await.map_err(|error| Refusal::dial(&error))?;
    // A server that chooses no protocol speaks HTTP/1.1.
    if secured.get_ref().1.alpn_protocol().unwrap_or(HTTP_1) != protocol {
        return Err(Refusal::upstream("the server speaks another protocol than before".to_owned()));
    }
    Ok(Box::new(secured))
}
