//! Reads frames from a connection: a head of at most 14 bytes, then the payload in portions of the requested size.

use super::frame::{FrameError, FrameHead};
use bytes::BytesMut;
use std::fmt;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt};

const READ_AHEAD: usize = 16 << 10;

pub struct WebSocketFrameReader<R> {
    inner: R,
    buffer: BytesMut,
}

#[derive(Debug)]
pub enum FrameReadError {
    Frame(FrameError),
    /// The connection ended within a frame.
    Cut,
    Io(io::Error),
}

impl fmt::Display for FrameReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frame(error) => error.fmt(f),
            Self::Cut => f.write_str("the connection ended within a frame"),
            Self::Io(source) => source.fmt(f),
        }
    }
}

impl std::error::Error for FrameReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Frame(error) => Some(error),
            Self::Io(source) => Some(source),
            Self::Cut => None,
        }
    }
}

impl<R: AsyncRead + Unpin> WebSocketFrameReader<R> {
    pub fn new(inner: R, prefix: BytesMut) -> Self {
        Self { inner, buffer: prefix }
    }

    /// `None` at the end of the connection. It can be cancelled without losing bytes.
    pub async fn head(&mut self) -> Result<Option<FrameHead>, FrameReadError> {
        loop {
            if let Some((head, length)) = FrameHead::parse(&self.buffer).map_err(FrameReadError::Frame)? {
                drop(self.buffer.split_to(length));
                return Ok(Some(head));
            }
            if self.fill().await? == 0 {
                return if self.buffer.is_empty() { Ok(None) } else { Err(FrameReadError::Cut) };
            }
        }
    }

    /// Some bytes of the payload, at most `most`, which is not 0.
    pub async fn portion(&mut self, most: u64) -> Result<BytesMut, FrameReadError> {
        if self.buffer.is_empty() && self.fill().await? == 0 {
            return Err(FrameReadError::Cut);
        }
        let length = usize::try_from(most).unwrap_or(usize::MAX).min(self.buffer.len());
        Ok(self.buffer.split_to(length))
    }

    async fn fill(&mut self) -> Result<usize, FrameReadError> {
        self.buffer.reserve(READ_AHEAD);
        self.inner.read_buf(&mut self.buffer).await.map_err(FrameReadError::Io)
    }
}
