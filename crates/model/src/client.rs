//! The client of our own agent loop: it asks the model through the gateway. Blocking, plain HTTP/1.1 to an address, no name
//! resolution, no TLS and no key: the gateway has those.

use crate::http;
use crate::wire::assemble::{AnswerAssembler, AssembleError, answer_deltas};
use crate::wire::codec::{self, FrameReader};
use crate::wire::fault::{Fault, FaultKind};
use crate::wire::sse::SseDecoder;
use crate::wire::{Delta, ModelAnswer, ModelRequest, Wire, WireError};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderValue};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;

/// The longest answer; far above what any model returns.
const MAX_ANSWER_BYTES: usize = 64 << 20;

#[derive(Debug, Clone)]
pub struct ModelClient {
    pub address: SocketAddr,
    pub wire: Wire,
    pub connect_time: Duration,
    /// Between two chunks of the answer.
    pub idle_time: Duration,
}

#[derive(Debug)]
pub enum ClientError {
    Runtime(io::Error),
    Connect {
        address: SocketAddr,
        source: io::Error,
    },
    /// The connection broke, or what came back is not HTTP.
    Http(hyper::Error),
    Timeout,
    Wire(WireError),
    FrameTooLarge,
    TooLarge,
    /// The gateway or the model answered with an error.
    Fault {
        status: u16,
        fault: Fault,
    },
    Answer(AssembleError),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Runtime(source) => write!(f, "the client of the model cannot start: {source}"),
            Self::Connect { address, source } => {
                write!(f, "cannot reach the model gateway at {address}: {source}")
            }
            Self::Http(source) => write!(f, "the connection to the model gateway broke: {source}"),
            Self::Timeout => f.write_str("the model gateway did not answer in time"),
            Self::Wire(error) => write!(f, "the answer of the model cannot be read: {error}"),
            Self::FrameTooLarge => f.write_str("the answer of the model has a frame that is too large"),
            Self::TooLarge => write!(f, "the answer of the model is larger than {MAX_ANSWER_BYTES} bytes"),
            Self::Fault { status, fault } => write!(f, "HTTP {status}, {fault}"),
            Self::Answer(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ClientError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Runtime(source) | Self::Connect { source, .. } => Some(source),
            Self::Http(source) => Some(source),
            Self::Wire(error) => Some(error),
            Self::Fault { fault, .. } => Some(fault),
            Self::Answer(error) => Some(error),
            Self::Timeout | Self::FrameTooLarge | Self::TooLarge => None,
        }
    }
}

impl ClientError {
    /// Whether the same request may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Http(_) | Self::Timeout | Self::Answer(AssembleError::Cut) => true,
            Self::Fault { fault, .. } | Self::Answer(AssembleError::Fault(fault)) => matches!(
                fault.kind,
                FaultKind::RateLimit | FaultKind::Overloaded | FaultKind::Timeout | FaultKind::Upstream
            ),
            Self::Runtime(_) | Self::Wire(_) | Self::FrameTooLarge | Self::TooLarge | Self::Answer(_) => {
                false
            }
        }
    }
}

impl ModelClient {
    pub fn new(address: SocketAddr, wire: Wire) -> Self {
        Self { address, wire, connect_time: Duration::from_secs(10), idle_time: Duration::from_secs(660) }
    }

    /// Asks and waits for the whole answer; `on_delta` sees it arrive. Must not be called within a tokio runtime.
    pub fn ask(
        &self,
        request: &ModelRequest,
        on_delta: &mut dyn FnMut(&Delta),
    ) -> Result<ModelAnswer, ClientError> {
        let executor = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(ClientError::Runtime)?;
        executor.block_on(self.exchange(request, on_delta))
    }

    async fn exchange(
        &self,
        request: &ModelRequest,
        on_delta: &mut dyn FnMut(&Delta),
    ) -> Result<ModelAnswer, ClientError> {
        let body = codec::write_request(self.wire, request).to_string();
        let response = self.post(body.into()).await?;
        let status = response.status().as_u16();
        let content_type = response.headers().get(CONTENT_TYPE).cloned();
        let mut chunks = Chunks { body: response.into_body(), idle_time: self.idle_time, total: 0 };
        if status != 200 {
            let fault = codec::read_fault(self.wire, status, &chunks.collect().await?);
            return Err(ClientError::Fault { status, fault });
        }
        if content_type.is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream")) {
            return self.read_stream(&mut chunks, on_delta).await;
        }
        let answer = codec::read_answer(self.wire, &chunks.collect().await?).map_err(ClientError::Wire)?;
        answer_deltas(&answer).iter().for_each(on_delta);
        Ok(answer)
    }

    async fn post(&self, body: Bytes) -> Result<hyper::Response<Incoming>, ClientError> {
        let address = self.address;
        let refused = |source| ClientError::Connect { address, source };
        let connecting = tokio::time::timeout(self.connect_time, TcpStream::connect(address));
        let stream =
            connecting.await.map_err(|_| refused(io::ErrorKind::TimedOut.into()))?.map_err(refused)?;
        stream.set_nodelay(true).map_err(refused)?;
        let mut sender = http::handshake(stream).await.map_err(ClientError::Http)?;
        let request = self.request(body);
        let sending = tokio::time::timeout(self.idle_time, sender.send_request(request));
        sending.await.map_err(|_| ClientError::Timeout)?.map_err(ClientError::Http)
    }

    fn request(&self, body: Bytes) -> hyper::Request<Full<Bytes>> {
        let mut request = hyper::Request::new(Full::new(body));
        *request.method_mut() = hyper::Method::POST;
        *request.uri_mut() = hyper::Uri::from_static(self.wire.path());
        let headers = request.headers_mut();
        if let Ok(host) = HeaderValue::from_str(&self.address.to_string()) {
            headers.insert(HOST, host);
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
        headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        request
    }

    async fn read_stream(
        &self,
        chunks: &mut Chunks,
        on_delta: &mut dyn FnMut(&Delta),
    ) -> Result<ModelAnswer, ClientError> {
        let mut decoder = SseDecoder::default();
        let mut assembler = AnswerAssembler::default();
        let mut reader = FrameReader::new(self.wire);
        while !assembler.has_ended() {
            let Some(chunk) = chunks.next().await? else { break };
            decoder.push(&chunk).map_err(|_| ClientError::FrameTooLarge)?;
            while let Some(frame) = decoder.next_frame() {
                for delta in reader.read(&frame).map_err(ClientError::Wire)? {
                    on_delta(&delta);
                    assembler.push(delta).map_err(ClientError::Answer)?;
                }
            }
        }
        assembler.finish().map_err(ClientError::Answer)
    }
}

/// The body of an answer, bounded in size and in the time between two chunks.
struct Chunks {
    body: Incoming,
    idle_time: Duration,
    total: usize,
}

impl Chunks {
    async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        loop {
            let waiting = tokio::time::timeout(self.idle_time, self.body.frame());
            let Some(frame) = waiting.await.map_err(|_| ClientError::Timeout)? else { return Ok(None) };
            let Ok(data) = frame.map_err(ClientError::Http)?.into_data() else { continue };
            self.total += data.len();
            return if self.total > MAX_ANSWER_BYTES { Err(ClientError::TooLarge) } else { Ok(Some(data)) };
        }
    }

    async fn collect(&mut self) -> Result<Vec<u8>, ClientError> {
        let mut all = Vec::new();
        while let Some(chunk) = self.next().await? {
            all.extend_from_slice(&chunk);
        }
        Ok(all)
    }
}
