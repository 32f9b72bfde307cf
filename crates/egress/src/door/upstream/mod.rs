//! Where answers come from, behind one shape: a status, a few headers, and a body in portions.

mod http;
#[cfg(test)]
mod tests;

pub use http::{HttpConfig, HttpUpstream, KeyHeader, UrlError};

use crate::credentials::SourceError;
use crate::dial::DialError;
use crate::scripted::{Emission, ScriptedAnswer, ScriptedModel};
use crate::wire::{Request, Wire};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone)]
pub enum Upstream {
    Scripted(Arc<ScriptedModel>),
    Http(Arc<HttpUpstream>),
}

/// A request as it goes out.
pub(super) struct Outgoing<'a> {
    pub(super) wire: Wire,
    pub(super) request: &'a Request,
    pub(super) body: &'a Bytes,
    /// As the client sent them; each upstream takes those that it knows.
    pub(super) headers: &'a HeaderMap,
    pub(super) query: Option<&'a str>,
}

pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: ReplyBody,
}

pub(super) enum ReplyBody {
    Scripted(VecDeque<Emission>),
    Http(Incoming),
}

#[derive(Debug)]
pub enum UpstreamError {
    Cut,
    Dial(DialError),
    Credential(SourceError),
    Http(hyper::Error),
    Compressed,
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut => f.write_str("the connection to the model broke off"),
            Self::Dial(error) => write!(f, "the model is out of reach: {error}"),
            Self::Credential(error) => error.fmt(f),
            Self::Http(error) => write!(f, "the model's answer is broken: {error}"),
            Self::Compressed => f.write_str("the model's answer is compressed, though none was asked for"),
        }
    }
}

impl std::error::Error for UpstreamError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Dial(error) => Some(error),
            Self::Credential(error) => Some(error),
            Self::Http(error) => Some(error),
            Self::Cut | Self::Compressed => None,
        }
    }
}

impl Upstream {
    pub fn scripted(model: ScriptedModel) -> Self {
        Self::Scripted(Arc::new(model))
    }

    pub fn http(upstream: HttpUpstream) -> Self {
        Self::Http(Arc::new(upstream))
    }

    pub(super) async fn send(&self, outgoing: Outgoing<'_>) -> Result<Reply, UpstreamError> {
        match self {
            Self::Scripted(model) => {
                let answer = model.answer(outgoing.wire, outgoing.request, outgoing.body);
                let ScriptedAnswer { status, content_type, emissions } = answer;
                let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(content_type))]);
                Ok(Reply { status, headers, body: ReplyBody::Scripted(emissions.into()) })
            }
            Self::Http(upstream) => upstream.send(outgoing).await,
        }
    }
}

impl Reply {
    /// In seconds, as vendors send it; a date is not understood and counts as not said.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        let seconds = self.headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse::<u64>().ok()?;
        Some(Duration::from_secs(seconds.min(7 * 24 * 3600)))
    }

    pub(super) fn is_stream(&self) -> bool {
        let content_type = self.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        self.status == 200 && content_type.is_some_and(|value| value.starts_with(b"text/event-stream"))
    }
}

impl ReplyBody {
    pub(super) async fn next(&mut self) -> Option<Result<Bytes, UpstreamError>> {
        match self {
            Self::Scripted(emissions) => loop {
                match emissions.pop_front()? {
                    Emission::Bytes(bytes) => return Some(Ok(bytes)),
                    Emission::Sleep(duration) => tokio::time::sleep(duration).await,
                    Emission::Cut => return Some(Err(UpstreamError::Cut)),
                }
            },
            Self::Http(body) => loop {
                match body.frame().await? {
                    Err(error) => return Some(Err(UpstreamError::Http(error))),
                    Ok(frame) => {
                        if let Ok(data) = frame.into_data() {
                            return Some(Ok(data));
                        }
                    }
                }
            },
        }
    }
}
