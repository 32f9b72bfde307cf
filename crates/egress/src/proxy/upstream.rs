//! The way out that a request takes: a socket, a TLS session, or the model's door in this very process.

use crate::door::{self, Door};
use crate::http1::HeadReader;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite, ReadHalf, WriteHalf};

pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

pub(super) type BoxStream = Box<dyn Stream>;

/// A connection that requests are written to and answers read from.
pub(super) struct Upstream {
    pub(super) reader: HeadReader<ReadHalf<BoxStream>>,
    pub(super) writer: WriteHalf<BoxStream>,
}

const DOOR_BUFFER: usize = 64 << 10;

impl Upstream {
    pub(super) fn new(stream: BoxStream) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        Self { reader: HeadReader::new(reader), writer }
    }

    pub(super) fn door(door: &Arc<Door>) -> Self {
        let (near, far) = tokio::io::duplex(DOOR_BUFFER);
        tokio::spawn(door::serve_stream(far, Arc::clone(door)));
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
