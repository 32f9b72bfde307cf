//! A socket in front of a stream that is not one. What takes a server's connection watches and counts it as a socket, also behind
//! a proxy that is itself reached over TLS.

use std::io;
use std::net::Ipv4Addr;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

/// This process makes both ends. A connection of another process is not accepted.
pub(super) async fn of_stream<S>(mut stream: S) -> io::Result<TcpStream>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let near = TcpStream::connect(listener.local_addr()?).await?;
    let own = near.local_addr()?;
    let mut far = loop {
        let (far, peer) = listener.accept().await?;
        if peer == own {
            break far;
        }
    };
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    // Ends with either side.
    tokio::spawn(async move { drop(tokio::io::copy_bidirectional(&mut stream, &mut far).await) });
    Ok(near)
}
