//! HTTP/1.1 towards a server over a stream that is already connected: used by the upstreams and by the agent's client.

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

const MAX_HEAD_BYTES: usize = 128 << 10;

/// Sends requests on one connection, one after the other.
pub(crate) type RequestSender = SendRequest<Full<Bytes>>;

pub(crate) async fn handshake<S>(stream: S) -> Result<RequestSender, hyper::Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = Builder::new();
    builder.max_buf_size(MAX_HEAD_BYTES);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
    // The task ends with the connection. The sender reports its errors.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}
