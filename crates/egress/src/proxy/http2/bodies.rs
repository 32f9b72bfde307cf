//! Bodies on their way through, frame by frame: counted, bounded in time, and watched for placeholders on the way out.

use super::super::attempt::Attempt;
use super::super::lookout::Look;
use super::super::refusal::Refusal;
use super::super::watch::Watch;
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

pub(super) type UpBody = UnsyncBoxBody<Bytes, BodyFault>;
pub(super) type DownBody = UnsyncBoxBody<Bytes, BodyFault>;

#[derive(Debug)]
pub(super) enum BodyFault {
    Stream(hyper::Error),
    StoodStill,
    Leak,
}

impl fmt::Display for BodyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(error) => error.fmt(f),
            Self::StoodStill => f.write_str("the body stood still for too long"),
            Self::Leak => f.write_str("the body holds what must not pass"),
        }
    }
}

impl std::error::Error for BodyFault {}

/// What has gone up, for those who wait for the answer.
#[derive(Debug, Default)]
pub(super) struct Upload {
    pub(super) bytes: AtomicU64,
    leak: OnceLock<Refusal>,
}

impl Upload {
    pub(super) fn leak(&self) -> Option<Refusal> {
        self.leak.get().cloned()
    }
}

/// A stream's body that fails when nothing moves for too long.
struct Timed {
    inner: Incoming,
    idle: Duration,
    clock: Pin<Box<Sleep>>,
}

impl Timed {
    fn new(inner: Incoming, idle: Duration) -> Self {
        Self { inner, idle, clock: Box::pin(tokio::time::sleep(idle)) }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyFault>>> {
        match Pin::new(&mut self.inner).poll_frame(context) {
            Poll::Ready(frame) => {
                self.clock.as_mut().reset(Instant::now() + self.idle);
                Poll::Ready(frame.map(|frame| frame.map_err(BodyFault::Stream)))
            }
            Poll::Pending => self.clock.as_mut().poll(context).map(|()| Some(Err(BodyFault::StoodStill))),
        }
    }
}

pub(super) struct UpRelay {
    timed: Timed,
    watch: Watch,
    upload: Arc<Upload>,
}

impl UpRelay {
    pub(super) fn new(inner: Incoming, idle: Duration, look: Look, upload: Arc<Upload>) -> Self {
        Self { timed: Timed::new(inner, idle), watch: Watch::new("body", look), upload }
    }
}

impl Body for UpRelay {
    type Data = Bytes;
    type Error = BodyFault;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyFault>>> {
        let this = self.get_mut();
        let frame = std::task::ready!(this.timed.poll(context));
        let Some(Ok(frame)) = frame else { return Poll::Ready(frame) };
        // Trailers are dropped, as they are in HTTP/1.1: nobody decided about them.
        let Ok(data) = frame.into_data() else { return Poll::Ready(None) };
        if let Some(leak) = this.watch.sees(&data) {
            this.upload.leak.get_or_init(|| leak);
            return Poll::Ready(Some(Err(BodyFault::Leak)));
        }
        this.upload.bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.timed.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.timed.inner.size_hint()
    }
}

/// The answer's body. It holds the attempt, which is over when the body is.
pub(super) struct DownRelay {
    timed: Timed,
    attempt: Attempt,
    upload: Arc<Upload>,
    bytes: u64,
}

impl DownRelay {
    pub(super) fn new(inner: Incoming, idle: Duration, attempt: Attempt, upload: Arc<Upload>) -> Self {
        Self { timed: Timed::new(inner, idle), attempt, upload, bytes: 0 }
    }
}

impl Body for DownRelay {
    type Data = Bytes;
    type Error = BodyFault;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyFault>>> {
        let this = self.get_mut();
        let frame = std::task::ready!(this.timed.poll(context));
        match &frame {
            Some(Ok(frame)) => this.bytes += frame.data_ref().map_or(0, |data| data.len() as u64),
            Some(Err(error)) => this.attempt.broke(format!("the answer: {error}")),
            None => {}
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.timed.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.timed.inner.size_hint()
    }
}

impl Drop for DownRelay {
    fn drop(&mut self) {
        if let Some(leak) = self.upload.leak() {
            self.attempt.refused(&leak);
        }
        self.attempt.moved(self.upload.bytes.load(Ordering::Relaxed), self.bytes);
    }
}
