//! The client of our own agent loop: it asks the model through the gateway. Blocking, plain HTTP/1.1 to an address, no name
//! resolution, no TLS and no key: the gateway has those.

mod http;

use crate::wire::answer::{Fold, FoldError};
use crate::wire::codec::{self, FrameReader};
use crate::wire::fault::{Fault, FaultKind};
use crate::wire::sse::Decoder;
use crate::wire::{Answer, Delta, Request, Wire};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// A whole answer; far above what any model gives.
const MAX_ANSWER_BYTES: usize = 64 << 20;

#[derive(Debug, Clone)]
pub struct Client {
    pub address: SocketAddr,
    pub wire: Wire,
    pub connect_time: Duration,
    /// Between two portions of the answer.
    pub idle_time: Duration,
}

#[derive(Debug)]
pub enum ClientError {
    Connect {
        address: SocketAddr,
        source: io::Error,
    },
    Send(io::Error),
    Read(io::Error),
    /// The answer is not HTTP, or not in its format.
    Protocol(String),
    TooLarge,
    /// The gateway or the model answered with an error.
    Fault {
        status: u16,
        fault: Fault,
    },
    Answer(FoldError),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect { address, source } => {
                write!(f, "cannot reach the model gateway at {address}: {source}")
            }
            Self::Send(source) => write!(f, "the request could not be sent to the model gateway: {source}"),
            Self::Read(source) => write!(f, "the answer of the model broke off: {source}"),
            Self::Protocol(reason) => write!(f, "the answer of the model cannot be read: {reason}"),
            Self::TooLarge => write!(f, "the answer of the model is larger than {MAX_ANSWER_BYTES} bytes"),
            Self::Fault { status, fault } => write!(f, "HTTP {status}, {fault}"),
            Self::Answer(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ClientError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Connect { source, .. } | Self::Send(source) | Self::Read(source) => Some(source),
            Self::Fault { fault, .. } => Some(fault),
            Self::Answer(error) => Some(error),
            Self::Protocol(_) | Self::TooLarge => None,
        }
    }
}

impl ClientError {
    /// Whether the same request may succeed later.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Send(_) | Self::Read(_) | Self::Answer(FoldError::Cut) => true,
            Self::Fault { fault, .. } | Self::Answer(FoldError::Fault(fault)) => matches!(
                fault.kind,
                FaultKind::RateLimit | FaultKind::Overloaded | FaultKind::Timeout | FaultKind::Upstream
            ),
            Self::Protocol(_) | Self::TooLarge | Self::Answer(_) => false,
        }
    }
}

impl Client {
    pub fn new(address: SocketAddr, wire: Wire) -> Self {
        Self { address, wire, connect_time: Duration::from_secs(10), idle_time: Duration::from_secs(660) }
    }

    /// Asks and waits for the whole answer; `on_delta` sees it arrive.
    pub fn ask(&self, request: &Request, on_delta: &mut dyn FnMut(&Delta)) -> Result<Answer, ClientError> {
        let body = codec::write_request(self.wire, request).to_string();
        let mut reply = http::post(self, self.wire.path(), body.as_bytes())?;
        if reply.status != 200 {
            let body = reply.rest()?;
            let fault = codec::read_fault(self.wire, reply.status, &body);
            return Err(ClientError::Fault { status: reply.status, fault });
        }
        if reply.content_type.starts_with("text/event-stream") {
            return self.read_stream(&mut reply, on_delta);
        }
        let body = reply.rest()?;
        let answer =
            codec::read_answer(self.wire, &body).map_err(|e| ClientError::Protocol(e.to_string()))?;
        crate::wire::answer::unfold(&answer).iter().for_each(on_delta);
        Ok(answer)
    }

    fn read_stream(
        &self,
        reply: &mut http::Reply,
        on_delta: &mut dyn FnMut(&Delta),
    ) -> Result<Answer, ClientError> {
        let (mut decoder, mut fold) = (Decoder::default(), Fold::default());
        let mut reader = FrameReader::new(self.wire);
        let mut portion = vec![0; 16 << 10];
        let mut total = 0;
        while !fold.has_ended() {
            let length = reply.read(&mut portion)?;
            if length == 0 {
                break;
            }
            total += length;
            if total > MAX_ANSWER_BYTES {
                return Err(ClientError::TooLarge);
            }
            decoder.push(&portion[..length]).map_err(|error| ClientError::Protocol(error.to_string()))?;
            while let Some(frame) = decoder.next_frame() {
                let deltas = reader.read(&frame).map_err(|error| ClientError::Protocol(error.to_string()))?;
                for delta in deltas {
                    on_delta(&delta);
                    fold.push(delta).map_err(ClientError::Answer)?;
                }
            }
        }
        fold.finish().map_err(ClientError::Answer)
    }
}
