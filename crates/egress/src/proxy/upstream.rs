//! The way out that a request takes: a socket, a TLS session, or the model gateway in this very process.

use crate::http1::HeadReader;
use std::pin::Pin;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite, ReadHalf, WriteHalf};

/// Bytes in both directions, whatever carries them.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

pub type BoxStream = Box<dyn Stream>;

/// Serves one connection to the model gateway until it ends. The gateway runs in this process but in another crate.
pub type GatewayService = Arc<dyn Fn(BoxStream) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// A connection that requests are written to and answers read from.
pub(super) struct Upstream {
    pub(super) reader: HeadReader<ReadHalf<BoxStream>>,
    pub(super) writer: WriteHalf<BoxStream>,
}

const GATEWAY_BUFFER: usize = 64 << 10;

impl Upstream {
    pub(super) fn new(stream: BoxStream) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        Self { reader: HeadReader::new(reader), writer }
    }

    pub(super) fn gateway(gateway: &GatewayService) -> Self {
        let (near, far) = tokio::io::duplex(GATEWAY_BUFFER);
        tokio::spawn(gateway(Box::new(far)));
        Self::new(Box::new(near))
    }

    /// Whether a request may still be written: an idle server says nothing and has not gone.
    pub(super) async fn is_usable(&mut self) -> bool {
        if !self.reader.buffered().is_empty() {
            return false;
        }
        tokio::select! {
            biased;
            // An end, or bytes that nobody asked for.
            _ = self.reader.peek_any() => false,
            () = std::future::ready(()) => true,
        }
    }

    /// Back to one stream, with what the server sent already.
    pub(super) fn into_stream(self) -> (BoxStream, bytes::BytesMut) {
        let (reader, prefix) = self.reader.into_parts();
        (reader.unsplit(self.writer), prefix)
    }
}
