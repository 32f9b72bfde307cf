//! Reads heads from a connection, bounded in bytes and time, and keeps the bytes after them.

use bytes::BytesMut;
use std::fmt;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};

pub const MAX_HEAD_BYTES: usize = 32 << 10;

#[derive(Debug)]
pub enum ReadHeadError {
    TooLarge,
    Timeout,
    /// The connection ended within a head.
    Cut,
    Io(io::Error),
}

impl fmt::Display for ReadHeadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge => write!(f, "the head is larger than {MAX_HEAD_BYTES} bytes"),
            Self::Timeout => f.write_str("the head did not arrive in time"),
            Self::Cut => f.write_str("the connection ended within a head"),
            Self::Io(source) => write!(f, "{source}"),
        }
    }
}

impl std::error::Error for ReadHeadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(source) => Some(source),
            Self::TooLarge | Self::Timeout | Self::Cut => None,
        }
    }
}

/// The reading half of a connection, with the bytes that were read ahead.
pub struct HeadReader<R> {
    inner: R,
    buffer: BytesMut,
}

impl<R: AsyncRead + Unpin> HeadReader<R> {
    pub fn new(inner: R) -> Self {
        Self { inner, buffer: BytesMut::new() }
    }

    pub fn with_prefix(inner: R, prefix: &[u8]) -> Self {
        Self { inner, buffer: BytesMut::from(prefix) }
    }

    /// `None`: the connection ended before a head, or no byte came within `idle`. `head_time` runs from the first byte.
    pub async fn read_head(
        &mut self,
        idle: Duration,
        head_time: Duration,
    ) -> Result<Option<Vec<u8>>, ReadHeadError> {
        if self.buffer.is_empty() {
            match tokio::time::timeout(idle, self.fill()).await {
                Err(_) | Ok(Ok(0)) => return Ok(None),
                Ok(Err(error)) if has_left(&error) => return Ok(None),
                Ok(read) => read.map_err(ReadHeadError::Io)?,
            };
        }
        tokio::time::timeout(head_time, self.rest_of_head())
            .await
            .map_err(|_| ReadHeadError::Timeout)?
            .map(Some)
    }

    async fn rest_of_head(&mut self) -> Result<Vec<u8>, ReadHeadError> {
        let mut searched = 0;
        loop {
            if let Some(length) = end_of_head(&self.buffer, searched) {
                return Ok(self.buffer.split_to(length).to_vec());
            }
            if self.buffer.len() >= MAX_HEAD_BYTES {
                return Err(ReadHeadError::TooLarge);
            }
            searched = self.buffer.len().saturating_sub(3);
            if self.fill().await.map_err(ReadHeadError::Io)? == 0 {
                return Err(ReadHeadError::Cut);
            }
        }
    }

    async fn fill(&mut self) -> io::Result<usize> {
        self.buffer.reserve(8 << 10);
        self.inner.read_buf(&mut self.buffer).await
    }

    /// Some bytes, at most `most`; empty at the end of the connection.
    pub async fn read_some(&mut self, most: usize) -> io::Result<BytesMut> {
        if self.buffer.is_empty() {
            self.buffer.reserve(16 << 10);
            self.inner.read_buf(&mut self.buffer).await?;
        }
        let length = self.buffer.len().min(most);
        Ok(self.buffer.split_to(length))
    }

    /// At most `most` of the bytes that were read ahead.
    pub fn take_buffered(&mut self, most: u64) -> BytesMut {
        let length = usize::try_from(most).unwrap_or(usize::MAX).min(self.buffer.len());
        self.buffer.split_to(length)
    }

    /// Waits for a byte, the end or an error, and consumes nothing.
    pub async fn peek_any(&mut self) -> io::Result<Option<u8>> {
        if self.buffer.is_empty() && self.fill().await? == 0 {
            return Ok(None);
        }
        Ok(self.buffer.first().copied())
    }

    /// One line that ends in CRLF, returned without it.
    pub async fn read_line(&mut self, most: usize) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(at) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(at + 1);
                return Ok(line
                    .strip_suffix(b"\r\n")
                    .filter(|line| !line.contains(&b'\r'))
                    .map(<[u8]>::to_vec));
            }
            if self.buffer.len() > most || self.fill().await? == 0 {
                return Ok(None);
            }
        }
    }

    pub fn buffered(&self) -> &[u8] {
        &self.buffer
    }

    pub fn into_parts(self) -> (R, BytesMut) {
        (self.inner, self.buffer)
    }
}

/// The other side closed the connection its own way: many TLS clients close without `close_notify`.
fn has_left(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset)
}

/// Also finds the ends that a lenient parser would see (`LF LF`, `LF CR LF`). Such a head is then refused as a whole,
/// instead of being read further than a server would read it.
fn end_of_head(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from.saturating_sub(1);
    while let Some(next) = bytes[at..].iter().position(|byte| *byte == b'\n') {
        let end = at + next;
        let rest = &bytes[end + 1..];
        if rest.starts_with(b"\n") {
            return Some(end + 2);
        }
        if rest.starts_with(b"\r\n") {
            return Some(end + 3);
        }
        at = end + 1;
    }
    None
}
