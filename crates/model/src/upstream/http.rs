//! A model behind HTTP: the vendor's endpoint, or a gateway that speaks like it. The key is added here and nowhere else;
//! of the client's headers only those that belong to the vendor's format go out.

use super::request::UpstreamRequest;
use super::{ResponseBody, UpstreamError, UpstreamResponse};
use crate::http::{RequestSender, handshake};
use bytes::Bytes;
use egress::credentials::CredentialSource;
use egress::dial::Dialer;
use http_body_util::Full;
use hyper::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderName, HeaderValue, USER_AGENT,
};
use hyper::{HeaderMap, Method, Uri};
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

const MAX_IDLE: usize = 32;

pub struct HttpConfig {
    pub base_url: String,
    /// `None`: an upstream that asks for no key.
    pub key: Option<KeyHeader>,
    pub dialer: Arc<Dialer>,
}

/// How the vendor wants its key: `x-api-key: KEY` or `authorization: Bearer KEY`.
#[derive(Debug, Clone)]
pub struct KeyHeader {
    pub name: HeaderName,
    pub prefix: &'static str,
    pub source: CredentialSource,
}

impl KeyHeader {
    pub fn x_api_key(source: CredentialSource) -> Self {
        Self { name: HeaderName::from_static("x-api-key"), prefix: "", source }
    }

    pub fn bearer(source: CredentialSource) -> Self {
        Self { name: hyper::header::AUTHORIZATION, prefix: "Bearer ", source }
    }
}

pub struct HttpUpstream {
    secure: bool,
    host: String,
    port: u16,
    prefix: String,
    host_header: HeaderValue,
    key: Option<KeyHeader>,
    dialer: Arc<Dialer>,
    idle: Mutex<Vec<RequestSender>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UrlError {
    NotAUrl {
        url: String,
    },
    /// Plain HTTP would show the key to the network.
    PlainHttp {
        url: String,
    },
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAUrl { url } => {
                write!(
                    f,
                    "`base_url` {url:?} is not of the form https://HOST[:PORT][/PATH], without query or user"
                )
            }
            Self::PlainHttp { url } => {
                write!(f, "`base_url` {url:?} is plain http, which is accepted only for the loopback address")
            }
        }
    }
}

impl std::error::Error for UrlError {}

impl HttpUpstream {
    pub fn new(config: HttpConfig) -> Result<Self, UrlError> {
        let HttpConfig { base_url, key, dialer } = config;
        let wrong = || UrlError::NotAUrl { url: base_url.clone() };
        let uri: Uri = base_url.parse().map_err(|_| wrong())?;
        let authority =
            uri.authority().filter(|authority| !authority.as_str().contains('@')).ok_or_else(wrong)?;
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong()),
        };
        if uri.query().is_some() || authority.host().is_empty() {
            return Err(wrong());
        }
        let host = authority.host().to_owned();
        if !secure && !is_loopback(&host) {
            return Err(UrlError::PlainHttp { url: base_url });
        }
        let port = authority.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let host_header = HeaderValue::from_str(authority.as_str()).map_err(|_| wrong())?;
        let prefix = uri.path().trim_end_matches('/').to_owned();
        Ok(Self { secure, host, port, prefix, host_header, key, dialer, idle: Mutex::default() })
    }

    pub(super) async fn send(
        &self,
        outgoing: UpstreamRequest<'_>,
    ) -> Result<UpstreamResponse, UpstreamError> {
        let mut request = self.request(&outgoing).await?;
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
    ) -> Result<hyper::Request<Full<Bytes>>, UpstreamError> {
        let mut request = hyper::Request::new(Full::new(outgoing.body.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.target(outgoing.wire.path(), outgoing.query);
        let headers = request.headers_mut();
        copy_headers(outgoing.headers, headers, is_vendor_request_header);
        headers.insert(HOST, self.host_header.clone());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Some(KeyHeader { name, prefix, source }) = &self.key {
            let secret = source.secret().await.map_err(UpstreamError::Credential)?;
            let mut value = HeaderValue::from_str(&format!("{prefix}{}", secret.reveal()))
                .unwrap_or_else(|_| HeaderValue::from_static(""));
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(request)
    }

    /// A base that already ends in the version part of the path does not get it twice.
    fn target(&self, path: &str, query: Option<&str>) -> Uri {
        let path = if self.prefix.ends_with("/v1") { path.strip_prefix("/v1").unwrap_or(path) } else { path };
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        format!("{}{path}{query}", self.prefix).parse().unwrap_or_else(|_| Uri::from_static("/"))
    }

    async fn connect(&self) -> Result<RequestSender, UpstreamError> {
        let addresses = self.dialer.resolve(&self.host).await.map_err(UpstreamError::Dial)?;
        let stream =
            self.dialer.connect(&self.host, &addresses, self.port).await.map_err(UpstreamError::Dial)?;
        if self.secure {
            let stream =
                self.dialer.secure(stream, &self.host, &[b"http/1.1"]).await.map_err(UpstreamError::Dial)?;
            handshake(stream).await.map_err(UpstreamError::Http)
        } else {
            handshake(stream).await.map_err(UpstreamError::Http)
        }
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
        copy_headers(&parts.headers, &mut headers, is_vendor_reply_header);
        Ok(UpstreamResponse { status: parts.status.as_u16(), headers, body: ResponseBody::http(body) })
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

fn is_loopback(host: &str) -> bool {
    let literal = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
        || literal.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn copy_headers(from: &HeaderMap, to: &mut HeaderMap, wanted: fn(&str) -> bool) {
    for (name, value) in from {
        if wanted(name.as_str()) {
            to.append(name, value.clone());
        }
    }
}

/// Nothing that names a user, a cookie or a key.
fn is_vendor_request_header(name: &str) -> bool {
    matches!(name, "anthropic-version" | "anthropic-beta" | "openai-beta" | "accept" | "x-app")
        || name == USER_AGENT
        || name.starts_with("x-stainless-")
}

fn is_vendor_reply_header(name: &str) -> bool {
    matches!(
        name,
        "content-type" | "retry-after" | "retry-after-ms" | "request-id" | "x-request-id" | "x-should-retry"
    ) || name.starts_with("anthropic-ratelimit-")
        || name.starts_with("x-ratelimit-")
}
