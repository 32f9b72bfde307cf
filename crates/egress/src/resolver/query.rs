//! One question to one name server: a datagram from a fresh port with an unguessable id, and TCP where the reply was too
//! long for it.

use crate::dns::{DnsQuestion, DnsReply, QuestionType, read_reply, write_question};
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

const MAX_DATAGRAM_BYTES: usize = 4096;

#[derive(Debug)]
pub(super) enum DnsQueryError {
    Name,
    Io(io::Error),
    Random,
}

impl fmt::Display for DnsQueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name => f.write_str("not a host name"),
            Self::Io(source) => write!(f, "{source}"),
            Self::Random => f.write_str("the system gave no random number"),
        }
    }
}

impl std::error::Error for DnsQueryError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(source) => Some(source),
            Self::Name | Self::Random => None,
        }
    }
}

impl From<io::Error> for DnsQueryError {
    fn from(source: io::Error) -> Self {
        Self::Io(source)
    }
}

pub(super) async fn query(
    server: SocketAddr,
    name: &str,
    kind: QuestionType,
) -> Result<DnsReply, DnsQueryError> {
    let mut id = [0; 2];
    getrandom::fill(&mut id).map_err(|_| DnsQueryError::Random)?;
    let question = DnsQuestion { id: u16::from_be_bytes(id), name: name.to_ascii_lowercase(), kind };
    let bytes = write_question(&question).map_err(|_| DnsQueryError::Name)?;
    let reply = by_datagram(server, &question, &bytes).await?;
    if reply.truncated { by_stream(server, &question, &bytes).await } else { Ok(reply) }
}

async fn by_datagram(
    server: SocketAddr,
    question: &DnsQuestion,
    bytes: &[u8],
) -> Result<DnsReply, DnsQueryError> {
    let local: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(local).await?;
    socket.connect(server).await?;
    socket.send(bytes).await?;
    let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
    loop {
        let length = socket.recv(&mut buffer).await?;
        // Anything else is a forged or a late reply: keep waiting.
        if let Ok(reply) = read_reply(&buffer[..length], question) {
            return Ok(reply);
        }
    }
}

async fn by_stream(
    server: SocketAddr,
    question: &DnsQuestion,
    bytes: &[u8],
) -> Result<DnsReply, DnsQueryError> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(bytes.len()).map_err(|_| DnsQueryError::Name)?;
    stream.write_all(&length.to_be_bytes()).await?;
    stream.write_all(bytes).await?;
    let mut length = [0; 2];
    stream.read_exact(&mut length).await?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut message).await?;
    read_reply(&message, question).map_err(|error| io::Error::other(error).into())
}
