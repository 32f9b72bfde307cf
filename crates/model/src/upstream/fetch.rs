//! One bounded HTTP request to a service that makes credentials. Its answer is a short JSON document.

use super::base_url::{BaseUrl, PlainHttp};
use super::token_error::TokenError;
use crate::http::handshake;
use bytes::Bytes;
use egress::dial::{DialError, Dialer};
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use hyper::{HeaderMap, Method, Uri};
use serde_json::Value;
use std::net::IpAddr;
use std::time::Duration;

const MAX_BYTES: usize = 256 << 10;
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// Where a token service may be without TLS.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenHost {
    /// Over TLS, or on the loopback address.
    Secure,
    /// The machine's own metadata server, which has no TLS.
    Metadata,
}

pub(super) struct TokenRequest<'a> {
    pub(super) method: Method,
    pub(super) url: &'a str,
    pub(super) headers: HeaderMap,
    /// With its media type.
    pub(super) body: Option<(&'static str, String)>,
    pub(super) host: TokenHost,
}

/// The answer's bytes. An answer other than 200 is an error with the service's own words.
pub(super) async fn fetch(dialer: &Dialer, request: TokenRequest<'_>) -> Result<Bytes, TokenError> {
    let host = host_of(request.url);
    let exchange = exchange(dialer, request);
    match tokio::time::timeout(ANSWER_TIMEOUT, exchange).await {
        Ok(result) => result.map_err(|error| error.within(&host)),
        Err(_) => Err(TokenError::transient(format!(
            "{host} did not answer in {} seconds",
            ANSWER_TIMEOUT.as_secs()
        ))),
    }
}

pub(super) async fn fetch_json(dialer: &Dialer, request: TokenRequest<'_>) -> Result<Value, TokenError> {
    let host = host_of(request.url);
    let bytes = fetch(dialer, request).await?;
    let read = serde_json::from_slice(&bytes);
    read.map_err(|error| TokenError::from(format!("{host} answered with broken JSON: {error}")))
}

async fn exchange(dialer: &Dialer, request: TokenRequest<'_>) -> Result<Bytes, TokenError> {
    let TokenRequest { method, url, headers, body, host } = request;
    let address = url.split_once('?').map_or(url, |(address, _)| address);
    let base = match host {
        TokenHost::Metadata => BaseUrl::parse_metadata(address),
        TokenHost::Secure => BaseUrl::parse(address, PlainHttp::Loopback),
    };
    let base = base.map_err(|_| "it is not an https URL".to_owned())?;
    let mut addresses: Vec<IpAddr> = Vec::new();
    // The host's proxy resolves names itself.
    if !(base.secure && dialer.is_proxied(&base.host, base.port)) {
        addresses = dialer.resolve(&base.host).await.map_err(|error| unreachable_host(&error, host))?;
    }
    let connected = dialer.connect(&base.host, &addresses, base.port).await;
    let stream = connected.map_err(|error| unreachable_host(&error, host))?;
    let mut sender = if base.secure {
        let secured = dialer.secure(stream, &base.host, &[b"http/1.1"]).await;
        handshake(secured.map_err(|error| unreachable_host(&error, host))?).await
    } else {
        handshake(stream).await
    }
    .map_err(|error| TokenError::transient(error.to_string()))?;
    let (media_type, body) = body.map_or((None, String::new()), |(kind, body)| (Some(kind), body));
    let mut outgoing = hyper::Request::new(Full::new(Bytes::from(body)));
    *outgoing.method_mut() = method;
    let target = url.parse::<Uri>().map_err(|error| error.to_string())?.into_parts().path_and_query;
    *outgoing.uri_mut() = target.map_or_else(|| Uri::from_static("/"), Uri::from);
    *outgoing.headers_mut() = headers;
    outgoing.headers_mut().insert(HOST, base.host_header.clone());
    if let Some(kind) = media_type {
        outgoing.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    let sent = sender.send_request(outgoing).await;
    let response = sent.map_err(|error| TokenError::transient(error.to_string()))?;
    let status = response.status();
    let body = Limited::new(response.into_body(), MAX_BYTES).collect().await;
    let bytes = body.map_err(|error| TokenError::transient(error.to_string()))?.to_bytes();
    if status.is_success() {
        return Ok(bytes);
    }
    let is_transient = status.as_u16() == 429 || status.is_server_error();
    Err(TokenError { reason: refusal(status.as_u16(), &bytes), is_transient })
}

/// A certificate does not become valid by itself, and a machine without a metadata server gets none.
fn unreachable_host(error: &DialError, host: TokenHost) -> TokenError {
    let is_transient = match error {
        DialError::Tls { .. } | DialError::Proxy { .. } => false,
        DialError::Resolve(_) => host == TokenHost::Secure,
        _ => true,
    };
    TokenError { reason: error.to_string(), is_transient }
}

/// The error message of an OAuth or AWS service, without the rest of the answer.
fn refusal(status: u16, bytes: &[u8]) -> String {
    let value: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let texts = ["error_description", "message", "Message", "error"];
    let message = texts.iter().find_map(|name| value[*name].as_str());
    let message = message.or_else(|| value["error"]["message"].as_str()).unwrap_or_default();
    let message: String = message.chars().filter(|c| !c.is_control()).take(300).collect();
    if message.is_empty() { format!("HTTP {status}") } else { format!("HTTP {status}, {message}") }
}

fn host_of(url: &str) -> String {
    url.parse::<Uri>()
        .ok()
        .and_then(|uri| uri.host().map(str::to_owned))
        .unwrap_or_else(|| "the token service".to_owned())
}

/// `application/x-www-form-urlencoded`.
pub(super) fn form(fields: &[(&str, &str)]) -> (&'static str, String) {
    let pair = |(name, value): &(&str, &str)| format!("{name}={}", encode(value, b"-._~"));
    let body = fields.iter().map(pair).collect::<Vec<_>>().join("&");
    ("application/x-www-form-urlencoded", body)
}

/// Percent-encodes everything but letters, digits and `unreserved`.
pub(super) fn encode(text: &str, unreserved: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || unreserved.contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
