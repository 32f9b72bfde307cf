//! Bodies of the gateway's answers: whole, or fed by a task in portions. A fed body that is broken off breaks the
//! connection, so that no client takes half an answer for a whole one.

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// Portions under way to one client: enough to keep the socket busy, little enough to bound memory.
const PORTIONS: usize = 16;

pub(super) enum AnswerBody {
    Whole(Option<Bytes>),
    Fed(mpsc::Receiver<Result<Bytes, BrokenOff>>),
}

#[derive(Debug)]
pub(super) struct BrokenOff;

impl fmt::Display for BrokenOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the answer was broken off")
    }
}

impl std::error::Error for BrokenOff {}

pub(super) type Feed = mpsc::Sender<Result<Bytes, BrokenOff>>;

impl AnswerBody {
    pub(super) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::Whole(Some(bytes.into()))
    }

    pub(super) fn fed() -> (Feed, Self) {
        let (feed, receiver) = mpsc::channel(PORTIONS);
        (feed, Self::Fed(receiver))
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Fed(receiver) => {
                receiver.poll_recv(context).map(|portion| portion.map(|portion| portion.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Self::Fed(_) => SizeHint::default(),
        }
    }
}
