//! Responses that the gateway writes: whole, or fed by a task in chunks. A fed body that is broken off breaks the
//! connection, so that the client notices that the answer is incomplete.

use crate::upstream::event_stream;
use crate::wire::fault::Fault;
use crate::wire::{Wire, codec};
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Response, StatusCode};
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// Chunks queued for one client: enough to keep the socket busy, few enough to bound memory.
const QUEUED_CHUNKS: usize = 16;

pub(super) type GatewayResponse = Response<AnswerBody>;

pub(super) fn respond(status: u16, headers: HeaderMap, body: AnswerBody) -> GatewayResponse {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    *response.headers_mut() = headers;
    response
}

/// The fault as the vendor of this wire format would write it.
pub(super) fn fault_response(wire: Wire, fault: &Fault) -> GatewayResponse {
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
    let body = AnswerBody::whole(codec::write_fault(wire, fault).to_string());
    respond(codec::fault_status(wire, fault), headers, body)
}

pub(super) enum AnswerBody {
    Whole(Option<Bytes>),
    Fed {
        /// Whole server-sent events in each.
        chunks: mpsc::Receiver<Result<Bytes, StreamAborted>>,
        framing: Framing,
    },
}

/// How a client gets the events of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    ServerSent,
    /// AWS's own.
    EventStream,
}

#[derive(Debug)]
pub(super) struct StreamAborted;

impl fmt::Display for StreamAborted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the answer was broken off")
    }
}

impl std::error::Error for StreamAborted {}

pub(super) type Feed = mpsc::Sender<Result<Bytes, StreamAborted>>;

impl AnswerBody {
    pub(super) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::Whole(Some(bytes.into()))
    }

    pub(super) fn fed() -> (Feed, Self) {
        let (feed, receiver) = mpsc::channel(QUEUED_CHUNKS);
        (feed, Self::Fed { chunks: receiver, framing: Framing::ServerSent })
    }

    pub(super) fn is_stream(&self) -> bool {
        matches!(self, Self::Fed { .. })
    }

    /// The same answer for a client of Amazon's service.
    pub(super) fn in_event_stream(self) -> Self {
        match self {
            Self::Fed { chunks, .. } => Self::Fed { chunks, framing: Framing::EventStream },
            whole @ Self::Whole(_) => whole,
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = StreamAborted;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StreamAborted>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Fed { chunks, framing } => {
                let framed = |chunk: Bytes| match framing {
                    Framing::ServerSent => chunk,
                    Framing::EventStream => event_stream::write(&chunk).into(),
                };
                let data = |chunk| Frame::data(framed(chunk));
                chunks.poll_recv(context).map(|chunk| chunk.map(|chunk| chunk.map(data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Self::Fed { .. } => SizeHint::default(),
        }
    }
}
