//! Answers: whole bodies and streams, with the headers that keep a browser from reading them as something else.

use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    LOCATION, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode};
use serde::Serialize;
use tokio::sync::mpsc;

use crate::render::page;

/// A part of a stream. An error breaks the connection, so that the reader notices that the body is incomplete.
pub type Chunk = std::io::Result<Bytes>;

/// The body of an answer.
pub enum AnswerBody {
    Whole(Option<Bytes>),
    Stream(mpsc::Receiver<Chunk>),
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::io::Result<Frame<Bytes>>>> {
        match &mut *self {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(receiver) => {
                receiver.poll_recv(context).map(|chunk| chunk.map(|bytes| bytes.map(Frame::data)))
            }
        }
    }

    /// A whole body is sent with its length.
    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}

/// A policy for everything that is not the page: nothing in it runs.
const INERT: &str = "default-src 'none'; frame-ancestors 'none'; sandbox";

fn with_headers(body: AnswerBody, kind: &'static str, policy: &str) -> Response<AnswerBody> {
    let mut response = Response::new(body);
    let values: [(HeaderName, &str); 5] = [
        (CONTENT_TYPE, kind),
        (CONTENT_SECURITY_POLICY, policy),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in values {
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

pub fn json(value: &impl Serialize) -> Response<AnswerBody> {
    let bytes = serde_json::to_vec(value).unwrap_or_default();
    with_headers(AnswerBody::Whole(Some(bytes.into())), "application/json", INERT)
}

/// Something was created, at `path`.
pub fn created_at(path: &str, value: &impl Serialize) -> Response<AnswerBody> {
    let mut response = json(value);
    *response.status_mut() = StatusCode::CREATED;
    if let Ok(path) = HeaderValue::from_str(path) {
        response.headers_mut().insert(LOCATION, path);
    }
    response
}

/// It will happen.
pub fn accepted(value: &impl Serialize) -> Response<AnswerBody> {
    let mut response = json(value);
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

/// The request was accepted, without a body to return.
pub fn accepted_empty() -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::Whole(None));
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

pub fn stream(receiver: mpsc::Receiver<Chunk>) -> Response<AnswerBody> {
    with_headers(AnswerBody::Stream(receiver), "text/event-stream", INERT)
}

pub fn metrics(text: String) -> Response<AnswerBody> {
    with_headers(AnswerBody::Whole(Some(text.into())), "text/plain; version=0.0.4; charset=utf-8", INERT)
}

/// A file that an agent wrote: saved, never shown.
pub fn file(receiver: mpsc::Receiver<Chunk>) -> Response<AnswerBody> {
    let mut response = with_headers(AnswerBody::Stream(receiver), "application/octet-stream", INERT);
    response.headers_mut().insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    response
}

/// The page without data: it asks for them with the token.
pub fn page() -> Response<AnswerBody> {
    let (html, policy) = page::live();
    with_headers(AnswerBody::Whole(Some(html.into())), "text/html; charset=utf-8", &policy)
}
