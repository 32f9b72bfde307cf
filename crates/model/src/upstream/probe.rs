//! One tiny request to a service, step by step, to find out what is wrong: connection, TLS, credential or model.

use super::base_url::BaseUrl;
use super::http::HttpUpstream;
use super::request::{Operation, UpstreamRequest};
use super::{UpstreamError, UpstreamResponse};
use crate::wire::{Message, ModelRequest, Wire, codec};
use bytes::Bytes;
use egress::dial::DialError;
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use std::net::IpAddr;
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeStage {
    Dns,
    Proxy,
    Connection,
    Tls,
    Authentication,
    Model,
}

impl ProbeStage {
    pub fn name(self) -> &'static str {
        match self {
            Self::Dns => "DNS",
            Self::Proxy => "proxy",
            Self::Connection => "connection",
            Self::Tls => "TLS",
            Self::Authentication => "authentication",
            Self::Model => "model",
        }
    }
}

/// The result of one stage. After an error there is no further stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeStep {
    pub stage: ProbeStage,
    pub found: Result<String, ProbeFailure>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeFailure {
    pub reason: String,
    pub cause: ProbeCause,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeCause {
    /// The same request may succeed later.
    Temporary,
    /// What answers is not the service of a model.
    OtherServer,
    /// The same request fails again.
    Lasting,
}

/// For the whole answer: a few words.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
const MAX_ANSWER: usize = 64 << 10;

impl HttpUpstream {
    pub async fn probe(&self, wire: Wire, model: &str) -> Vec<ProbeStep> {
        let mut steps = Vec::new();
        if self.probe_way(&mut steps).await.is_some() {
            self.probe_model(wire, model, &mut steps).await;
        }
        steps
    }

    /// `None`: a step failed.
    async fn probe_way(&self, steps: &mut Vec<ProbeStep>) -> Option<()> {
        let BaseUrl { secure, host, port, .. } = &self.base;
        let mut note = |stage: ProbeStage, found: Result<String, DialError>| {
            let failure = |error: DialError| {
                let error = UpstreamError::Dial(error);
                ProbeFailure { reason: error.to_string(), cause: cause_of(&error) }
            };
            let found = found.map_err(failure);
            let is_good = found.is_ok();
            steps.push(ProbeStep { stage, found });
            is_good.then_some(())
        };
        let is_proxied = *secure && self.dialer.is_proxied(host, *port);
        let mut addresses: Vec<IpAddr> = Vec::new();
        if !is_proxied {
            addresses = match self.dialer.resolve(host).await {
                Ok(addresses) => addresses,
                Err(error) => return note(ProbeStage::Dns, Err(error)),
            };
            let shown: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            note(ProbeStage::Dns, Ok(format!("{host} is {}", shown.join(", "))))?;
        }
        let stage = if is_proxied { ProbeStage::Proxy } else { ProbeStage::Connection };
        let connected = self.dialer.connect(host, &addresses, *port).await;
        let stream = match connected {
            Ok(stream) => stream,
            Err(error) => return note(stage, Err(error)),
        };
        note(stage, Ok(format!("connected to {host}:{port}")))?;
        if *secure {
            let secured = self.dialer.secure(stream, host, &[b"http/1.1"]).await;
            note(ProbeStage::Tls, secured.map(|_| "the certificate is trusted".to_owned()))?;
        }
        Some(())
    }

    async fn probe_model(&self, wire: Wire, model: &str, steps: &mut Vec<ProbeStep>) {
        let request = ModelRequest {
            model: model.to_owned(),
            messages: vec![Message::user("Say OK.")],
            max_tokens: Some(16),
            ..ModelRequest::default()
        };
        let body = Bytes::from(codec::write_request(wire, &request).to_string());
        let mut headers = HeaderMap::new();
        if wire == Wire::Messages {
            let version = HeaderName::from_static("anthropic-version");
            headers.insert(version, HeaderValue::from_static("2023-06-01"));
        }
        let outgoing = UpstreamRequest {
            wire,
            operation: Operation::Answer,
            request: &request,
            body: &body,
            headers: &headers,
            query: None,
        };
        let started = Instant::now();
        let sent = tokio::time::timeout(ANSWER_TIMEOUT, self.send(outgoing)).await;
        let mut note = |stage, found| steps.push(ProbeStep { stage, found });
        let response: UpstreamResponse = match sent {
            Err(_) => {
                let reason = "it did not answer in time".to_owned();
                return note(ProbeStage::Model, Err(ProbeFailure { reason, cause: ProbeCause::Temporary }));
            }
            Ok(Err(error)) => {
                let is_credential = matches!(error, UpstreamError::Credential(_) | UpstreamError::Token(_));
                let stage = if is_credential { ProbeStage::Authentication } else { ProbeStage::Model };
                let cause = cause_of(&error);
                return note(stage, Err(ProbeFailure { reason: error.to_string(), cause }));
            }
            Ok(Ok(response)) => response,
        };
        let (response, bytes) = response.with_whole_body(MAX_ANSWER, ANSWER_TIMEOUT).await;
        let answered = Answered { wire, status: response.status, bytes: &bytes, time: started.elapsed() };
        answered.steps().into_iter().for_each(|(stage, found)| note(stage, found));
    }
}

fn cause_of(error: &UpstreamError) -> ProbeCause {
    if error.is_transient() { ProbeCause::Temporary } else { ProbeCause::Lasting }
}

/// What the service answered.
struct Answered<'a> {
    wire: Wire,
    status: u16,
    bytes: &'a [u8],
    time: Duration,
}

impl Answered<'_> {
    /// Which steps it proves. Only the service itself can accept a credential, and it reads it before the request.
    fn steps(&self) -> Vec<(ProbeStage, Result<String, ProbeFailure>)> {
        let accepted = (ProbeStage::Authentication, Ok("the credential is accepted".to_owned()));
        let failed = |stage, cause| vec![(stage, Err(ProbeFailure { reason: self.message(), cause }))];
        match self.status {
            200 => match codec::read_answer(self.wire, self.bytes) {
                Ok(answer) => {
                    let seconds = self.time.as_secs_f64();
                    vec![
                        accepted,
                        (ProbeStage::Model, Ok(format!("{} answered in {seconds:.1} s", answer.model))),
                    ]
                }
                Err(_) => failed(ProbeStage::Model, ProbeCause::OtherServer),
            },
            401 | 403 => failed(ProbeStage::Authentication, ProbeCause::Lasting),
            429 | 500..=599 => failed(ProbeStage::Model, ProbeCause::Temporary),
            400..=499 => {
                let mut steps = vec![accepted];
                steps.extend(failed(ProbeStage::Model, ProbeCause::Lasting));
                steps
            }
            _ => failed(ProbeStage::Model, ProbeCause::OtherServer),
        }
    }

    fn message(&self) -> String {
        format!("HTTP {}, {}", self.status, codec::read_fault(self.wire, self.status, self.bytes).message)
    }
}
