//! Relays bodies: read by their framing, written with our own. Chunk extensions and trailers are dropped.

use super::reader::HeadReader;
use std::borrow::Cow;
use std::fmt;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use zeroize::Zeroizing;

const MAX_CHUNK_LINE: usize = 512;
const MAX_TRAILER_LINES: usize = 64;
const PORTION: usize = 64 << 10;
/// Of a body that is too large.
const MAX_DRAINED: u64 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    None,
    Length(u64),
    Chunked,
    /// Only in responses.
    UntilClose,
}

#[derive(Debug)]
pub enum BodyError {
    Read(io::Error),
    Write(io::Error),
    /// The sender's connection ended too early.
    Cut,
    /// The chunks of the body cannot be parsed.
    Chunk,
    Timeout,
    /// The check refused a portion.
    Refused,
    TooLarge,
    /// A body that is held whole found no memory.
    NoMemory,
}

/// Gets every portion of a body before it is written.
pub trait BodyFilter: Send {
    /// The bytes to write instead; `None` refuses the portion and ends the relay. The number of bytes may differ, if
    /// `finish` makes up for it.
    fn filter<'a>(&mut self, portion: &'a [u8]) -> Option<Cow<'a, [u8]>>;

    /// The bytes to write at the end.
    fn finish(&mut self) -> Vec<u8> {
        Vec::new()
    }
}

/// Changes nothing; `true` refuses.
impl<F: FnMut(&[u8]) -> bool + Send> BodyFilter for F {
    fn filter<'a>(&mut self, portion: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        (!self(portion)).then_some(Cow::Borrowed(portion))
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(source) | Self::Write(source) => write!(f, "{source}"),
            Self::Cut => f.write_str("the body was cut off"),
            Self::Chunk => f.write_str("the chunks of the body are malformed"),
            Self::Timeout => f.write_str("no byte of the body moved for too long"),
            Self::Refused => f.write_str("the body holds something that must not leave"),
            Self::TooLarge => f.write_str("the body is too large to have its placeholders replaced"),
            Self::NoMemory => f.write_str("no memory is left to hold the body"),
        }
    }
}

impl std::error::Error for BodyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read(source) | Self::Write(source) => Some(source),
            Self::Cut | Self::Chunk | Self::Timeout | Self::Refused | Self::TooLarge | Self::NoMemory => None,
        }
    }
}

/// Returns the number of body bytes.
pub async fn relay_body<R, W>(
    from: &mut HeadReader<R>,
    to: &mut W,
    framing: Framing,
    idle: Duration,
    filter: &mut dyn BodyFilter,
) -> Result<u64, BodyError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let sent = match framing {
        Framing::None => 0,
        Framing::Length(length) => {
            relay_length(from, to, length, PortionFraming::AsIs, idle, filter).await?;
            length
        }
        Framing::Chunked => relay_chunks(from, to, idle, filter).await?,
        Framing::UntilClose => relay_rest(from, to, idle, filter).await?,
    };
    write(to, &filter.finish(), PortionFraming::of(framing), idle).await?;
    if framing == Framing::Chunked {
        put(to, b"0\r\n\r\n", idle).await?;
    }
    to.flush().await.map_err(BodyError::Write)?;
    Ok(sent)
}

/// Relays a head and its body. The part of the body that was read ahead is written together with the head: one system call
/// less, which is half of them for small messages. Returns the number of body bytes.
pub async fn relay_message<R, W>(
    head: &[u8],
    from: &mut HeadReader<R>,
    to: &mut W,
    framing: Framing,
    idle: Duration,
    filter: &mut dyn BodyFilter,
) -> Result<u64, BodyError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut first = Zeroizing::new(head.to_vec());
    let (here, rest) = match framing {
        Framing::Length(length) => {
            let here = from.take_buffered(length);
            let taken = here.len() as u64;
            (here, Framing::Length(length - taken))
        }
        framing => (bytes::BytesMut::new(), framing),
    };
    first.extend_from_slice(&filter.filter(&here).ok_or(BodyError::Refused)?);
    put(to, &first, idle).await?;
    to.flush().await.map_err(BodyError::Write)?;
    Ok(here.len() as u64 + relay_body(from, to, rest, idle, filter).await?)
}

/// Reads a whole body, if it is not larger than `most` and `has_memory` for each of its portions. Of a body that is not
/// held some more is taken in: a client that is still sending would not read why its body is refused.
pub async fn collect_body<R: AsyncRead + Unpin>(
    from: &mut HeadReader<R>,
    framing: Framing,
    most: u64,
    idle: Duration,
    has_memory: &mut (dyn FnMut(u64) -> bool + Send),
) -> Result<Vec<u8>, BodyError> {
    let mut out = Vec::new();
    let mut taken = 0;
    let mut dropped = 0;
    let mut lacks_memory = false;
    let mut check = |portion: &[u8]| {
        let length = portion.len() as u64;
        taken += length;
        lacks_memory = lacks_memory || (taken <= most && !has_memory(length));
        if taken <= most && !lacks_memory {
            out.extend_from_slice(portion);
        } else {
            out = Vec::new();
            dropped += length;
        }
        dropped > MAX_DRAINED
    };
    match relay_body(from, &mut tokio::io::sink(), framing, idle, &mut check).await {
        Ok(_) | Err(BodyError::Refused) if lacks_memory => Err(BodyError::NoMemory),
        Ok(_) if taken <= most => Ok(out),
        Ok(_) | Err(BodyError::Refused) => Err(BodyError::TooLarge),
        Err(error) => Err(error),
    }
}

async fn some<R: AsyncRead + Unpin>(
    from: &mut HeadReader<R>,
    most: u64,
    idle: Duration,
) -> Result<bytes::BytesMut, BodyError> {
    let most = usize::try_from(most).unwrap_or(usize::MAX).min(PORTION);
    let read = tokio::time::timeout(idle, from.read_some(most)).await.map_err(|_| BodyError::Timeout)?;
    read.map_err(BodyError::Read)
}

async fn put<W: AsyncWrite + Unpin>(to: &mut W, bytes: &[u8], idle: Duration) -> Result<(), BodyError> {
    let written = tokio::time::timeout(idle, to.write_all(bytes)).await.map_err(|_| BodyError::Timeout)?;
    written.map_err(BodyError::Write)
}

/// How a portion is written.
#[derive(Clone, Copy)]
enum PortionFraming {
    AsIs,
    AsChunk,
}

impl PortionFraming {
    fn of(framing: Framing) -> Self {
        if framing == Framing::Chunked { Self::AsChunk } else { Self::AsIs }
    }
}

/// An empty portion is not written: an empty chunk would end the body.
async fn write<W: AsyncWrite + Unpin>(
    to: &mut W,
    portion: &[u8],
    written: PortionFraming,
    idle: Duration,
) -> Result<(), BodyError> {
    if portion.is_empty() {
        return Ok(());
    }
    match written {
        PortionFraming::AsIs => put(to, portion, idle).await,
        PortionFraming::AsChunk => {
            put(to, format!("{:x}\r\n", portion.len()).as_bytes(), idle).await?;
            put(to, portion, idle).await?;
            put(to, b"\r\n", idle).await
        }
    }
}

async fn relay_length<R, W>(
    from: &mut HeadReader<R>,
    to: &mut W,
    length: u64,
    written: PortionFraming,
    idle: Duration,
    filter: &mut dyn BodyFilter,
) -> Result<(), BodyError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut left = length;
    while left > 0 {
        let portion = some(from, left, idle).await?;
        if portion.is_empty() {
            return Err(BodyError::Cut);
        }
        write(to, &filter.filter(&portion).ok_or(BodyError::Refused)?, written, idle).await?;
        left -= portion.len() as u64;
    }
    Ok(())
}

async fn relay_rest<R, W>(
    from: &mut HeadReader<R>,
    to: &mut W,
    idle: Duration,
    filter: &mut dyn BodyFilter,
) -> Result<u64, BodyError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut sent = 0;
    loop {
        let portion = some(from, u64::MAX, idle).await?;
        if portion.is_empty() {
            return Ok(sent);
        }
        put(to, &filter.filter(&portion).ok_or(BodyError::Refused)?, idle).await?;
        sent += portion.len() as u64;
    }
}

async fn relay_chunks<R, W>(
    from: &mut HeadReader<R>,
    to: &mut W,
    idle: Duration,
    filter: &mut dyn BodyFilter,
) -> Result<u64, BodyError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut sent = 0;
    loop {
        let size = chunk_size(&line(from, idle).await?)?;
        if size == 0 {
            break;
        }
        relay_length(from, to, size, PortionFraming::AsChunk, idle, filter).await?;
        sent += size;
        if !line(from, idle).await?.is_empty() {
            return Err(BodyError::Chunk);
        }
        to.flush().await.map_err(BodyError::Write)?;
    }
    for _ in 0..MAX_TRAILER_LINES {
        if line(from, idle).await?.is_empty() {
            return Ok(sent);
        }
    }
    Err(BodyError::Chunk)
}

async fn line<R: AsyncRead + Unpin>(from: &mut HeadReader<R>, idle: Duration) -> Result<Vec<u8>, BodyError> {
    let read =
        tokio::time::timeout(idle, from.read_line(MAX_CHUNK_LINE)).await.map_err(|_| BodyError::Timeout)?;
    read.map_err(BodyError::Read)?.ok_or(BodyError::Chunk)
}

/// Only hexadecimal digits before an extension: no sign, no prefix, no space.
fn chunk_size(line: &[u8]) -> Result<u64, BodyError> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
    let clean = !digits.is_empty() && digits.len() <= 15 && digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits).ok().filter(|_| clean).ok_or(BodyError::Chunk)?;
    u64::from_str_radix(text, 16).map_err(|_| BodyError::Chunk)
}
