//! A model behind HTTP: connects to the service, sends each request in the service's form, and keeps connections open.

use super::base_url::BaseUrl;
use super::request::UpstreamRequest;
use super::service::{ServiceError, ServiceHost, ServiceRequest, ServiceSettings, UsedCredential};
use super::services::{Dialect, Service};
use super::{ResponseBody, UpstreamError, UpstreamResponse, translated};
use crate::http::{RequestSender, handshake};
use crate::translate::{self, OutputLimit, TranslatedRequest};
use crate::wire::Wire;
use bytes::Bytes;
use egress::dial::Dialer;
use http_body_util::Full;
use hyper::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{HeaderMap, Method, Uri};
use std::sync::{Arc, Mutex, PoisonError};

const MAX_IDLE: usize = 32;

pub struct HttpUpstream {
    pub(super) base: BaseUrl,
    dialect: Dialect,
    pub(super) dialer: Arc<Dialer>,
    idle: Mutex<Vec<RequestSender>>,
    /// The wire formats that the service takes.
    wires: &'static [Wire],
    output_limit: OutputLimit,
}

impl HttpUpstream {
    pub fn new(
        service: &Service,
        settings: &ServiceSettings,
        dialer: Arc<Dialer>,
    ) -> Result<Self, ServiceError> {
        let (base, dialect) = (service.open)(settings)?;
        let wires = match settings.setting("wire") {
            Some("chat") => &[Wire::Chat],
            Some("responses") => &[Wire::Responses],
            _ => service.wires,
        };
        let is_openai = base.host == "api.openai.com" || service.name == "azure-openai";
        let output_limit = if is_openai { OutputLimit::MaxCompletionTokens } else { OutputLimit::MaxTokens };
        Ok(Self { base, dialect, dialer, idle: Mutex::default(), wires, output_limit })
    }

    /// Of the three formats only Messages has counts.
    pub(super) fn counts_tokens(&self, wire: Wire) -> bool {
        wire == Wire::Messages && self.wires.contains(&wire)
    }

    pub(super) async fn send(
        &self,
        outgoing: UpstreamRequest<'_>,
    ) -> Result<UpstreamResponse, UpstreamError> {
        let is_taken = self.wires.contains(&outgoing.wire);
        let Some(to) = translate::target(outgoing.wire, self.wires).filter(|_| !is_taken) else {
            return self.send_as_is(outgoing).await;
        };
        let translated = translate::request(outgoing.wire, outgoing.body, self.output_limit);
        let TranslatedRequest { body, answers } = translated.map_err(UpstreamError::Untranslated)?;
        let body = Bytes::from(body);
        // The client's headers and query belong to its own format.
        let headers = HeaderMap::new();
        let sent = UpstreamRequest {
            wire: to,
            operation: outgoing.operation,
            request: outgoing.request,
            body: &body,
            headers: &headers,
            query: None,
        };
        translated::answer(self.send_as_is(sent).await?, answers).await
    }

    /// In the wire format of the request. A credential that the service refuses may have expired before its time; if another
    /// one can be made, the request is sent once more with it.
    pub(super) async fn send_as_is(
        &self,
        outgoing: UpstreamRequest<'_>,
    ) -> Result<UpstreamResponse, UpstreamError> {
        let (request, credential) = self.request(&outgoing).await?;
        let response = self.exchange(request).await?;
        if !self.dialect.says_expired(response.status) || !self.dialect.forget(&credential).await {
            return Ok(response);
        }
        match self.request(&outgoing).await {
            Ok((request, _)) => self.exchange(request).await,
            // The service's own words say more than that there is no other credential.
            Err(UpstreamError::Credential(_) | UpstreamError::Token(_)) => Ok(response),
            Err(error) => Err(error),
        }
    }

    async fn exchange(
        &self,
        mut request: hyper::Request<Full<Bytes>>,
    ) -> Result<UpstreamResponse, UpstreamError> {
        if let Some(mut connection) = self.take_idle() {
            match connection.try_send_request(request).await {
                Ok(response) => return self.reply(connection, response),
                // The upstream closed an idle connection just as it was used: the request was not sent.
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(UpstreamError::Http(error.into_error())),
                },
            }
        }
        let mut connection = self.connect().await?;
        let response = connection.send_request(request).await.map_err(UpstreamError::Http)?;
        self.reply(connection, response)
    }

    async fn request(
        &self,
        outgoing: &UpstreamRequest<'_>,
    ) -> Result<(hyper::Request<Full<Bytes>>, UsedCredential), UpstreamError> {
        let at = ServiceHost { base: &self.base, dialer: &self.dialer };
        let ServiceRequest { target, headers, body, credential } = self.dialect.prepare(at, outgoing).await?;
        let mut request = hyper::Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = target.parse().unwrap_or_else(|_| Uri::from_static("/"));
        *request.headers_mut() = headers;
        let headers = request.headers_mut();
        headers.insert(HOST, self.base.host_header.clone());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        Ok((request, credential))
    }

    async fn connect(&self) -> Result<RequestSender, UpstreamError> {
        let BaseUrl { secure, host, port, .. } = &self.base;
        // The host's proxy resolves names itself.
        let mut addresses = Vec::new();
        if !(*secure && self.dialer.is_proxied(host, *port)) {
            addresses = self.dialer.resolve(host).await.map_err(UpstreamError::Dial)?;
            addresses.retain(|address| self.base.accepts(*address));
            if addresses.is_empty() {
                return Err(UpstreamError::PublicPlainHttp);
            }
        }
        let stream = self.dialer.connect(host, &addresses, *port).await.map_err(UpstreamError::Dial)?;
        if !secure {
            return handshake(stream).await.map_err(UpstreamError::Http);
        }
        let stream = self.dialer.secure(stream, host, &[b"http/1.1"]).await.map_err(UpstreamError::Dial)?;
        handshake(stream).await.map_err(UpstreamError::Http)
    }

    fn reply(
        &self,
        connection: RequestSender,
        response: hyper::Response<hyper::body::Incoming>,
    ) -> Result<UpstreamResponse, UpstreamError> {
        let (parts, body) = response.into_parts();
        if parts.headers.get(CONTENT_ENCODING).is_some_and(|value| value != "identity") {
            return Err(UpstreamError::Compressed);
        }
        self.put_idle(connection);
        let mut headers = HeaderMap::new();
        for (name, value) in &parts.headers {
            if is_vendor_reply_header(name.as_str()) {
                headers.append(name, value.clone());
            }
        }
        let status = parts.status.as_u16();
        let content_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        if content_type.is_some_and(|kind| kind.starts_with(b"application/vnd.amazon.eventstream")) {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
            return Ok(UpstreamResponse { status, headers, body: ResponseBody::event_stream(body) });
        }
        Ok(UpstreamResponse { status, headers, body: ResponseBody::http(body) })
    }

    /// Ready only once its last answer was read to the end.
    fn take_idle(&self) -> Option<RequestSender> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|connection| !connection.is_closed());
        let place = idle.iter().position(RequestSender::is_ready)?;
        Some(idle.swap_remove(place))
    }

    fn put_idle(&self, connection: RequestSender) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_IDLE {
            idle.push(connection);
        }
    }
}

fn is_vendor_reply_header(name: &str) -> bool {
    matches!(
        name,
        "content-type" | "retry-after" | "retry-after-ms" | "request-id" | "x-request-id" | "x-should-retry"
    ) || name.starts_with("anthropic-ratelimit-")
        || name.starts_with("x-ratelimit-")
}
