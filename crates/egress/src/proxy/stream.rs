//! A byte stream in both directions over any transport: a socket, a TLS session, or a pipe to the model gateway.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};

pub trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for T {}

pub type BoxStream = Box<dyn ByteStream>;

/// A connection to a service of this process, such as the model gateway, with the addresses of the client's connection.
pub struct GatewayConnection {
    pub stream: BoxStream,
    pub peer: SocketAddr,
    pub local: SocketAddr,
}

/// Serves one connection to a service of this process until it ends. The model gateway is in another crate.
pub type GatewayService =
    Arc<dyn Fn(GatewayConnection) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;
