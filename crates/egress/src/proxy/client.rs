//! The proxy's connection to a program inside the sandbox.

use super::record::ConnectionRecord;
use super::refusal::Refusal;
use super::stream::BoxStream;
use crate::http1::HeadReader;
use bytes::BytesMut;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::TcpStream;

/// How long a refused client on a direct connection has to show that it speaks HTTP.
const FIRST_BYTE_TIME: Duration = Duration::from_secs(2);
const DRAIN_TIME: Duration = Duration::from_secs(1);
const MAX_DRAIN_READS: usize = 64;

/// A client connection whose requests are read.
pub(super) struct ClientConnection {
    pub(super) reader: HeadReader<ReadHalf<BoxStream>>,
    pub(super) writer: WriteHalf<BoxStream>,
}

impl ClientConnection {
    pub(super) fn new(stream: BoxStream) -> Self {
        Self::with_prefix(stream, &[])
    }

    /// `prefix` was read from the stream already.
    pub(super) fn with_prefix(stream: BoxStream, prefix: &[u8]) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        Self { reader: HeadReader::with_prefix(reader, prefix), writer }
    }

    /// Records the refusal and sends it. It does not matter if the client has already gone.
    pub(super) async fn refuse(&mut self, record: &mut ConnectionRecord, refusal: &Refusal) {
        record.refused(refusal);
        if self.writer.write_all(&refusal.response()).await.is_ok() {
            drop(self.writer.flush().await);
        }
    }

    /// The stream, and the bytes that were read ahead.
    pub(super) fn into_stream(self) -> (BoxStream, BytesMut) {
        let (reader, prefix) = self.reader.into_parts();
        (reader.unsplit(self.writer), prefix)
    }
}

/// Whether the client waits for the response to its CONNECT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectReply {
    Established,
    Silent,
}

/// Refuses a client that has not started TLS. After a CONNECT the client reads the refusal as the response; on a direct
/// connection it is sent only if the client speaks plain HTTP.
pub(super) async fn refuse_before_tls(
    mut client: TcpStream,
    record: &mut ConnectionRecord,
    refusal: &Refusal,
    greeting: ConnectReply,
) {
    record.refused(refusal);
    if greeting == ConnectReply::Silent {
        let mut first = [0];
        let waiting = tokio::time::timeout(FIRST_BYTE_TIME, client.peek(&mut first));
        let speaks_http = matches!(waiting.await, Ok(Ok(1)) if first[0].is_ascii_uppercase());
        if !speaks_http {
            return;
        }
    }
    let response = match greeting {
        ConnectReply::Established => refusal.connect_response(),
        ConnectReply::Silent => refusal.response(),
    };
    if client.write_all(&response).await.is_ok() {
        drop(client.shutdown().await);
        drain(client).await;
    }
}

/// Closing a socket with unread bytes resets the connection, and the client would lose the refusal.
async fn drain(mut client: TcpStream) {
    // On the heap: every connection would have room for it otherwise.
    let mut buffer = vec![0; 4096];
    let reading = async {
        for _ in 0..MAX_DRAIN_READS {
            match client.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
    };
    drop(tokio::time::timeout(DRAIN_TIME, reading).await);
}
