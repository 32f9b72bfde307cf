//! Relays bodies frame by frame: counted, bounded in time, and, towards the server, checked for leaks.

use super::super::outgoing_check::MessageCheck;
use super::super::record::ConnectionRecord;
use super::super::refusal::Refusal;
use super::super::response_mask::ResponseMask;
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

pub(super) type RelayedBody = UnsyncBoxBody<Bytes, RelayError>;

#[derive(Debug)]
pub(super) enum RelayError {
    Stream(hyper::Error),
    Timeout,
    Leak,
}

impl fmt::Display for RelayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(error) => error.fmt(f),
            Self::Timeout => f.write_str("no byte of the body moved for too long"),
            Self::Leak => f.write_str("the body holds something that must not leave"),
        }
    }
}

impl std::error::Error for RelayError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Stream(error) => Some(error),
            Self::Timeout | Self::Leak => None,
        }
    }
}

/// How much of the request's body was sent, for the code that waits for the response.
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

/// A body that fails when no byte moves for too long.
struct IdleTimeoutBody {
    inner: Incoming,
    idle: Duration,
    clock: Pin<Box<Sleep>>,
}

impl IdleTimeoutBody {
    fn new(inner: Incoming, idle: Duration) -> Self {
        Self { inner, idle, clock: Box::pin(tokio::time::sleep(idle)) }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, RelayError>>> {
        match Pin::new(&mut self.inner).poll_frame(context) {
            Poll::Ready(frame) => {
                self.clock.as_mut().reset(Instant::now() + self.idle);
                Poll::Ready(frame.map(|frame| frame.map_err(RelayError::Stream)))
            }
            Poll::Pending => self.clock.as_mut().poll(context).map(|()| Some(Err(RelayError::Timeout))),
        }
    }
}

pub(super) struct RequestRelay {
    timed: IdleTimeoutBody,
    check: MessageCheck,
    upload: Arc<Upload>,
}

impl RequestRelay {
    pub(super) fn new(inner: Incoming, idle: Duration, check: MessageCheck, upload: Arc<Upload>) -> Self {
        Self { timed: IdleTimeoutBody::new(inner, idle), check, upload }
    }
}

impl Body for RequestRelay {
    type Data = Bytes;
    type Error = RelayError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RelayError>>> {
        let this = self.get_mut();
        let frame = std::task::ready!(this.timed.poll(context));
        let Some(Ok(frame)) = frame else { return Poll::Ready(frame) };
        // Trailers are dropped, as in HTTP/1.1: no rule has decided about them.
        let Ok(data) = frame.into_data() else { return Poll::Ready(None) };
        if let Some(leak) = this.check.refusal(&data) {
            this.upload.leak.get_or_init(|| leak);
            return Poll::Ready(Some(Err(RelayError::Leak)));
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

/// The response's body, with credentials masked. It holds the record, which is complete when the body ends.
pub(super) struct ResponseRelay {
    timed: IdleTimeoutBody,
    mask: ResponseMask,
    /// The trailers, or the end, after the bytes that the mask held back.
    after_flush: Option<Option<Frame<Bytes>>>,
    record: ConnectionRecord,
    upload: Arc<Upload>,
    bytes: u64,
}

impl ResponseRelay {
    pub(super) fn new(
        inner: Incoming,
        idle: Duration,
        mask: ResponseMask,
        record: ConnectionRecord,
        upload: Arc<Upload>,
    ) -> Self {
        Self { timed: IdleTimeoutBody::new(inner, idle), mask, after_flush: None, record, upload, bytes: 0 }
    }

    /// The held bytes first, where there are any, then `last`.
    fn end_with(&mut self, last: Option<Frame<Bytes>>) -> Option<Frame<Bytes>> {
        let held = self.mask.flush();
        if held.is_empty() {
            return last;
        }
        self.after_flush = Some(last);
        Some(Frame::data(Bytes::from(held)))
    }

    /// `None`: the mask holds all of the frame back.
    fn masked(&mut self, frame: Frame<Bytes>) -> Option<Frame<Bytes>> {
        match frame.into_data() {
            Ok(data) => {
                self.bytes += data.len() as u64;
                let passed = self.mask.push(&data).into_owned();
                (!passed.is_empty() || data.is_empty()).then(|| Frame::data(Bytes::from(passed)))
            }
            Err(other) => {
                let trailers = other.into_trailers().ok().map(|mut trailers| {
                    self.mask.mask_headers(&mut trailers);
                    Frame::trailers(trailers)
                });
                self.end_with(trailers)
            }
        }
    }
}

impl Body for ResponseRelay {
    type Data = Bytes;
    type Error = RelayError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RelayError>>> {
        let this = self.get_mut();
        if let Some(last) = this.after_flush.take() {
            return Poll::Ready(last.map(Ok));
        }
        loop {
            match std::task::ready!(this.timed.poll(context)) {
                Some(Ok(frame)) => {
                    if let Some(masked) = this.masked(frame) {
                        return Poll::Ready(Some(Ok(masked)));
                    }
                }
                Some(Err(error)) => {
                    this.record.broken(format!("the response: {error}"));
                    return Poll::Ready(Some(Err(error)));
                }
                None => return Poll::Ready(this.end_with(None).map(Ok)),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.timed.inner.is_end_stream() && !self.mask.has_held_bytes() && self.after_flush.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.timed.inner.size_hint()
    }
}

impl Drop for ResponseRelay {
    fn drop(&mut self) {
        if let Some(leak) = self.upload.leak() {
            self.record.refused(&leak);
        }
        self.record.add_bytes(self.upload.bytes.load(Ordering::Relaxed), self.bytes);
    }
}
