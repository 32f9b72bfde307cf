//! Where answers come from: a vendor, the scripted model or a recording, each as a status, a few headers and a body.

mod anthropic;
mod aws_credentials;
mod aws_key_document;
mod aws_keys;
mod aws_profile;
mod aws_time;
mod azure_openai;
mod base_url;
mod bedrock;
pub(crate) mod event_stream;
mod fetch;
mod google_token;
mod http;
mod openai;
mod probe;
pub(crate) mod request;
mod service;
mod services;
#[cfg(test)]
mod tests;
mod token_cache;
mod token_error;
mod translated;
mod vertex;

pub use aws_keys::AwsKeys;
pub use base_url::{PlainHttp, UrlError};
pub use http::HttpUpstream;
pub use probe::{ProbeCause, ProbeFailure, ProbeStage, ProbeStep};
pub use service::{NamedCredential, ServiceError, ServiceSettings};
pub use services::{SERVICES, Service};
pub use token_cache::LearnSecret;
pub use token_error::TokenError;

use crate::recording::{AnswerRecorder, Recorder, Replay};
use crate::scripted::{Emission, ScriptedAnswer, ScriptedModel};
use crate::translate::TranslateError;
use crate::wire::Wire;
use bytes::Bytes;
use egress::credentials::CredentialFetchError;
use egress::dial::DialError;
use event_stream::EventStreamDecoder;
use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use request::{Operation, UpstreamRequest};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use translated::TranslatedBody;

#[derive(Clone)]
pub enum Upstream {
    Scripted(Arc<ScriptedModel>),
    Http(Arc<HttpUpstream>),
    /// Another upstream, whose answers are recorded.
    Recorded(Box<Upstream>, Arc<Recorder>),
    Replayed(Arc<Replay>),
}

pub(crate) struct UpstreamResponse {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: ResponseBody,
}

pub(crate) struct ResponseBody {
    portions: BodySource,
    tap: Option<AnswerRecorder>,
}

enum BodySource {
    Scripted(VecDeque<Emission>),
    Http(Incoming),
    /// In AWS's framing.
    EventStream {
        body: Incoming,
        decoder: EventStreamDecoder,
    },
    /// In the wire format of the runtime, which is not the service's.
    Translated(Box<TranslatedBody>),
    Whole(Option<Bytes>),
}

#[derive(Debug)]
pub enum UpstreamError {
    Cut,
    Dial(DialError),
    Credential(CredentialFetchError),
    /// The service's own token could not be made.
    Token(TokenError),
    /// The request needs what the service's wire format does not have.
    Untranslated(TranslateError),
    /// An answer that cannot be translated.
    Answer(String),
    /// The body cannot be written in the service's form.
    Body(serde_json::Error),
    Http(hyper::Error),
    Compressed,
    /// A private host's name has only public addresses.
    PublicPlainHttp,
    /// The recording has no answer to this request.
    NotRecorded(String),
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut => f.write_str("the connection to the model broke off"),
            Self::Dial(error) => write!(f, "cannot reach the model: {error}"),
            Self::Credential(error) => error.fmt(f),
            Self::Token(error) => write!(f, "no credential for the model's service: {error}"),
            Self::Untranslated(error) => write!(f, "fullsend: {error}"),
            Self::Answer(reason) => write!(f, "the model's answer cannot be read: {reason}"),
            Self::Body(error) => write!(f, "the request cannot be translated: {error}"),
            Self::Http(error) => write!(f, "the model's answer is broken: {error}"),
            Self::NotRecorded(reason) => f.write_str(reason),
            Self::PublicPlainHttp => {
                f.write_str("the model's host has no private address, and plain http goes to no other")
            }
            Self::Compressed => {
                f.write_str("the model's answer is compressed, although the request did not allow it")
            }
        }
    }
}

impl std::error::Error for UpstreamError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Dial(error) => Some(error),
            Self::Credential(error) => Some(error),
            Self::Http(error) => Some(error),
            Self::Body(error) => Some(error),
            Self::Untranslated(error) => Some(error),
            Self::Token(error) => Some(error),
            Self::Answer(_) | Self::Cut | Self::Compressed | Self::PublicPlainHttp | Self::NotRecorded(_) => {
                None
            }
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

    /// Records every complete answer.
    #[must_use]
    pub fn recorded(self, recorder: Recorder) -> Self {
        Self::Recorded(Box::new(self), Arc::new(recorder))
    }

    pub fn replayed(replay: Replay) -> Self {
        Self::Replayed(Arc::new(replay))
    }

    /// Whether the upstream counts the tokens of requests in this format.
    pub(crate) fn counts_tokens(&self, wire: Wire) -> bool {
        match self {
            Self::Http(upstream) => upstream.counts_tokens(wire),
            Self::Recorded(inner, _) => inner.counts_tokens(wire),
            Self::Scripted(_) | Self::Replayed(_) => false,
        }
    }

    pub(crate) async fn send(
        &self,
        outgoing: UpstreamRequest<'_>,
    ) -> Result<UpstreamResponse, UpstreamError> {
        let Self::Recorded(inner, recorder) = self else { return self.ask(outgoing).await };
        let mut reply = inner.ask(outgoing).await?;
        // Error responses and counts are not recorded.
        if reply.status == 200 && outgoing.operation == Operation::Answer {
            reply.body.tap = Some(recorder.tap(&outgoing, reply.is_stream()));
        }
        Ok(reply)
    }

    async fn ask(&self, outgoing: UpstreamRequest<'_>) -> Result<UpstreamResponse, UpstreamError> {
        match self {
            Self::Scripted(model) => {
                let answer = model.answer(outgoing.wire, outgoing.request, outgoing.body);
                let ScriptedAnswer { status, content_type, emissions } = answer;
                let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(content_type))]);
                Ok(UpstreamResponse { status, headers, body: ResponseBody::scripted(emissions.into()) })
            }
            Self::Http(upstream) => upstream.send(outgoing).await,
            Self::Replayed(replay) => {
                let replayed = replay.answer(&outgoing).map_err(UpstreamError::NotRecorded)?;
                let content_type = HeaderValue::from_static(replayed.content_type);
                let headers = HeaderMap::from_iter([(CONTENT_TYPE, content_type)]);
                Ok(UpstreamResponse {
                    status: 200,
                    headers,
                    body: ResponseBody::whole(replayed.answer.into()),
                })
            }
            // Only the outermost recorder records.
            Self::Recorded(inner, _) => Box::pin(inner.ask(outgoing)).await,
        }
    }
}

impl UpstreamError {
    /// Whether the same request may succeed later. A certificate or a credential does not become valid by itself.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Cut | Self::Http(_) => true,
            Self::Dial(error) => !matches!(error, DialError::Tls { .. } | DialError::Proxy { .. }),
            Self::Token(error) => error.is_transient,
            Self::Credential(_)
            | Self::Body(_)
            | Self::Untranslated(_)
            | Self::Answer(_)
            | Self::Compressed
            | Self::PublicPlainHttp
            | Self::NotRecorded(_) => false,
        }
    }
}

/// A week; no run lasts longer.
const LONGEST_RETRY_SECONDS: f64 = 7.0 * 24.0 * 3600.0;

impl UpstreamResponse {
    /// The same response with its body read, as much as arrives within these bounds.
    pub(crate) async fn with_whole_body(self, most: usize, time: Duration) -> (Self, Bytes) {
        let Self { status, headers, mut body } = self;
        let mut all = Vec::new();
        let reading = async {
            while let Some(Ok(portion)) = body.next().await {
                all.extend_from_slice(&portion[..portion.len().min(most.saturating_sub(all.len()))]);
                if all.len() >= most {
                    break;
                }
            }
        };
        drop(tokio::time::timeout(time, reading).await);
        let bytes = Bytes::from(all);
        (Self { status, headers, body: ResponseBody::whole(bytes.clone()) }, bytes)
    }

    /// How long the vendor asks to wait: in milliseconds, in seconds, or until a date.
    pub(crate) fn retry_after(&self, now: SystemTime) -> Option<Duration> {
        let header = |name: &str| self.headers.get(name)?.to_str().ok().map(str::trim);
        let number = |text: &str| text.parse().ok().filter(|number: &f64| *number >= 0.0);
        let until = |text: &str| {
            let date = httpdate::parse_http_date(text).ok()?;
            Some(date.duration_since(now).unwrap_or_default().as_secs_f64())
        };
        let after = header(RETRY_AFTER.as_str());
        let seconds = header("retry-after-ms")
            .and_then(number)
            .map(|milliseconds| milliseconds / 1e3)
            .or_else(|| after.and_then(number))
            .or_else(|| after.and_then(until))?;
        Some(Duration::from_secs_f64(seconds.min(LONGEST_RETRY_SECONDS)))
    }

    pub(crate) fn is_stream(&self) -> bool {
        let content_type = self.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        self.status == 200 && content_type.is_some_and(|value| value.starts_with(b"text/event-stream"))
    }
}

impl ResponseBody {
    fn scripted(emissions: VecDeque<Emission>) -> Self {
        Self { portions: BodySource::Scripted(emissions), tap: None }
    }

    fn http(body: Incoming) -> Self {
        Self { portions: BodySource::Http(body), tap: None }
    }

    fn event_stream(body: Incoming) -> Self {
        let portions = BodySource::EventStream { body, decoder: EventStreamDecoder::default() };
        Self { portions, tap: None }
    }

    fn whole(bytes: Bytes) -> Self {
        Self { portions: BodySource::Whole(Some(bytes)), tap: None }
    }

    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, UpstreamError>> {
        let portion = self.portions.next().await;
        match (&portion, &mut self.tap) {
            (Some(Ok(bytes)), Some(tap)) => tap.push(bytes),
            (None, Some(tap)) => tap.end(),
            (Some(Err(_)), tap) => *tap = None,
            (_, None) => {}
        }
        portion
    }
}

impl BodySource {
    async fn next(&mut self) -> Option<Result<Bytes, UpstreamError>> {
        match self {
            Self::Whole(bytes) => bytes.take().map(Ok),
            Self::Scripted(emissions) => loop {
                match emissions.pop_front()? {
                    Emission::Bytes(bytes) => return Some(Ok(bytes)),
                    Emission::Sleep(duration) => tokio::time::sleep(duration).await,
                    Emission::Cut => return Some(Err(UpstreamError::Cut)),
                }
            },
            Self::Http(body) => next_data(body).await,
            Self::Translated(body) => body.next().await,
            Self::EventStream { body, decoder } => loop {
                match decoder.next() {
                    Ok(Some(event)) => return Some(Ok(event)),
                    Err(_) => return Some(Err(UpstreamError::Cut)),
                    Ok(None) => match next_data(body).await {
                        Some(Ok(data)) => decoder.push(&data),
                        None if !decoder.is_empty() => return Some(Err(UpstreamError::Cut)),
                        ended => return ended,
                    },
                }
            },
        }
    }
}

async fn next_data(body: &mut Incoming) -> Option<Result<Bytes, UpstreamError>> {
    loop {
        match body.frame().await? {
            Err(error) => return Some(Err(UpstreamError::Http(error))),
            Ok(frame) => {
                if let Ok(data) = frame.into_data() {
                    return Some(Ok(data));
                }
            }
        }
    }
}
