//! The way from inside back to this machine: to the guard, the model gateway and API servers. `fullsend __tunnel`
//! listens inside and carries connections over its own standard streams, which are a command of the gateway: no port is
//! open on this machine, and the gateway has authenticated us. The first line of its input is a token. The host ignores
//! its output until it has repeated that token.

pub(in crate::backend::openshell) mod host;
pub(crate) mod inside;

use std::io::{self, Read};
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

pub use host::TunnelService;

/// The hidden command.
pub(crate) const COMMAND: &str = "__tunnel";

/// The most bytes of one frame.
const PIECE: usize = 32 << 10;

/// The most connections at the same time.
const MAX_CONNECTIONS: usize = 256;

/// How much may wait for one slow reader. Beyond this its connection is closed.
const MAX_WAITING: usize = 64 << 20;

/// The first line: where to listen, in the order of the services.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ListenOrder {
    token: String,
    listen: Vec<Place>,
}

/// Where a service is inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Place {
    Tcp(SocketAddr),
    Unix(String),
}

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Everything listens; the bytes are the token.
    Ready = 0,
    /// A connection; the byte is the number of its service.
    Open = 1,
    Data = 2,
    /// This side sends nothing more.
    End = 3,
    /// The connection is over in both directions.
    Reset = 4,
}

impl Kind {
    fn of(byte: u8) -> Option<Self> {
        [Self::Ready, Self::Open, Self::Data, Self::End, Self::Reset]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

/// One piece of one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Frame {
    kind: Kind,
    connection: u32,
    bytes: Vec<u8>,
}

const HEAD: usize = 9;

impl Frame {
    fn new(kind: Kind, connection: u32, bytes: impl Into<Vec<u8>>) -> Self {
        Self { kind, connection, bytes: bytes.into() }
    }

    fn encode(&self) -> Vec<u8> {
        let length = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        [&[self.kind as u8][..], &self.connection.to_be_bytes(), &length.to_be_bytes(), &self.bytes].concat()
    }

    fn head(head: [u8; HEAD]) -> io::Result<(Kind, u32, usize)> {
        let [kind, c0, c1, c2, c3, l0, l1, l2, l3] = head;
        let kind = Kind::of(kind).ok_or_else(|| io::Error::other("an unknown frame"))?;
        let length = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
        if length > PIECE {
            return Err(io::Error::other("a frame that is too long"));
        }
        Ok((kind, u32::from_be_bytes([c0, c1, c2, c3]), length))
    }

    /// The next frame; `None` at the end.
    fn read(from: &mut impl Read) -> io::Result<Option<Self>> {
        let mut head = [0; HEAD];
        match from.read_exact(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let (kind, connection, length) = Self::head(head)?;
        let mut bytes = vec![0; length];
        from.read_exact(&mut bytes)?;
        Ok(Some(Self { kind, connection, bytes }))
    }
}

/// Finds the frames in a stream that comes in pieces.
#[derive(Default)]
struct Frames(Vec<u8>);

impl Frames {
    fn add(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn next(&mut self) -> io::Result<Option<Frame>> {
        let Some((head, rest)) = self.0.split_first_chunk::<HEAD>() else { return Ok(None) };
        let (kind, connection, length) = Frame::head(*head)?;
        let Some(bytes) = rest.get(..length) else { return Ok(None) };
        let frame = Frame { kind, connection, bytes: bytes.to_vec() };
        self.0.drain(..HEAD + length);
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_found_in_any_pieces() {
        let sent = [
            Frame::new(Kind::Open, 7, [1]),
            Frame::new(Kind::Data, 7, *b"hello"),
            Frame::new(Kind::End, 7, []),
        ];
        let bytes: Vec<u8> = sent.iter().flat_map(Frame::encode).collect();
        for size in 1..=bytes.len() {
            let mut frames = Frames::default();
            let mut found = Vec::new();
            for piece in bytes.chunks(size) {
                frames.add(piece);
                while let Some(frame) = frames.next().unwrap() {
                    found.push(frame);
                }
            }
            assert_eq!(found, sent, "pieces of {size}");
        }
        let mut reader = &bytes[..];
        let mut read = Vec::new();
        while let Some(frame) = Frame::read(&mut reader).unwrap() {
            read.push(frame);
        }
        assert_eq!(read, sent);
    }

    #[test]
    fn a_frame_that_no_one_sends_is_refused() {
        assert!(Frame::read(&mut &[9, 0, 0, 0, 0, 0, 0, 0, 0][..]).is_err(), "of an unknown kind");
        assert!(Frame::read(&mut &[2, 0, 0, 0, 0, 0x7f, 0, 0, 0][..]).is_err(), "too long");
        let mut frames = Frames::default();
        frames.add(&[9; 9]);
        assert!(frames.next().is_err());
    }
}
