//! The small HTTP client of the host: one connection a request, TLS unless the server is this machine, bounded in time and size.
//! It connects as the caller's network does, through the host's proxy if there is one. It follows no redirect: a token goes
//! to the server that was named and to no other.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use egress::credentials::Secret;
use egress::dial::DialError;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT,
};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value as Json;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::fetch::HostNetwork;

const MAX_BYTES: usize = 16 << 20;
const TIME: Duration = Duration::from_secs(30);

/// How often a request is tried, and the longest pause before it is tried again.
const TRIES: u32 = 3;
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// The address of a service: https, or plain http to this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl {
    host: String,
    port: u16,
    is_tls: bool,
    path: String,
}

impl BaseUrl {
    pub fn parse(text: &str) -> Result<Self, ForgeError> {
        let wrong = |why: &str| ForgeError::Address { address: text.to_owned(), why: why.to_owned() };
        let (is_tls, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => return Err(wrong("it must begin with https://")),
        };
        let (authority, path) = rest.split_once('/').map_or((rest, ""), |(host, path)| (host, path));
        let odd = |c: char| c.is_whitespace() || c.is_control() || "@?#\\%".contains(c);
        if authority.is_empty() || rest.contains(odd) {
            return Err(wrong("it must be a plain address, without a user, a query or a fragment"));
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                (host, port.parse().map_err(|_| wrong("its port is not a number"))?)
            }
            _ => (authority, if is_tls { 443 } else { 80 }),
        };
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let is_here =
            bare == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        if !is_tls && !is_here {
            return Err(wrong("a token is sent over https only"));
        }
        let path = path.trim_end_matches('/');
        let path = if path.is_empty() { String::new() } else { format!("/{path}") };
        Ok(Self { host: host.to_owned(), port, is_tls, path })
    }

    /// The same with a longer path.
    #[must_use]
    fn below(mut self, path: &str) -> Self {
        if !self.path.ends_with(path) {
            self.path.push_str(path);
        }
        self
    }
}

/// A service, and how this host reaches it.
pub struct ForgeServer {
    pub base: BaseUrl,
    pub network: HostNetwork,
}

impl ForgeServer {
    /// The same with a longer path.
    #[must_use]
    pub fn below(self, path: &str) -> Self {
        Self { base: self.base.below(path), ..self }
    }
}

/// How a request authenticates.
pub enum Login {
    Bearer(Secret),
    /// GitLab's own header.
    PrivateToken(Secret),
    Basic {
        user: String,
        password: Secret,
    },
}

#[derive(Debug)]
pub enum ForgeError {
    Address { address: String, why: String },
    Executor(std::io::Error),
    Dial(DialError),
    Http(hyper::Error),
    Timeout { request: String },
    Refused { request: String, status: u16, message: String },
    Answer { request: String, why: String },
    Result(String),
}

impl fmt::Display for ForgeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address { address, why } => write!(f, "the address `{address}` cannot be used: {why}"),
            Self::Executor(error) => write!(f, "no request can be sent: {error}"),
            Self::Dial(error) => error.fmt(f),
            Self::Http(error) => write!(f, "the connection broke off: {error}"),
            Self::Timeout { request } => {
                write!(f, "{request} had no answer within {} seconds", TIME.as_secs())
            }
            Self::Refused { request, status, message } => {
                write!(f, "{request} was answered with {status}: {message}")
            }
            Self::Answer { request, why } => write!(f, "the answer to {request} cannot be read: {why}"),
            Self::Result(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for ForgeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Dial(error) => Some(error),
            Self::Http(error) => Some(error),
            Self::Executor(error) => Some(error),
            _ => None,
        }
    }
}

impl ForgeError {
    /// Another user's comment, or a deleted one.
    pub fn is_not_ours(&self) -> bool {
        matches!(self, Self::Refused { status: 403 | 404, .. })
    }
}

pub struct Client {
    base: BaseUrl,
    login: Login,
    accept: &'static str,
    network: HostNetwork,
    executor: tokio::runtime::Runtime,
}

impl Client {
    pub fn new(server: ForgeServer, login: Login, accept: &'static str) -> Result<Self, ForgeError> {
        let executor = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let executor = executor.map_err(ForgeError::Executor)?;
        let ForgeServer { base, network } = server;
        Ok(Self { base, login, accept, network, executor })
    }

    pub fn get(&self, path: &str) -> Result<Json, ForgeError> {
        self.ask(&Method::GET, path, None)
    }

    pub fn send(&self, method: &Method, path: &str, body: &Json) -> Result<Json, ForgeError> {
        self.ask(method, path, Some(body))
    }

    pub fn delete(&self, path: &str) -> Result<(), ForgeError> {
        self.ask(&Method::DELETE, path, None).map(drop)
    }

    /// Retries after a rate limit; after an outage only requests that may happen twice.
    fn ask(&self, method: &Method, path: &str, body: Option<&Json>) -> Result<Json, ForgeError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let (status, pause, text) = self.once(method, path, body)?;
            let request = || format!("{method} {}{}", self.base.host, self.base.path.clone() + path);
            if (200..300).contains(&status) {
                if text.iter().all(u8::is_ascii_whitespace) {
                    return Ok(Json::Null);
                }
                let read = serde_json::from_slice(&text);
                return read
                    .map_err(|error| ForgeError::Answer { request: request(), why: error.to_string() });
            }
            let again = status == 429 || (status >= 502 && method != Method::POST);
            if !again || tries == TRIES {
                return Err(ForgeError::Refused { request: request(), status, message: message(&text) });
            }
            std::thread::sleep(pause.unwrap_or(Duration::from_secs(1)).min(MAX_PAUSE));
        }
    }

    /// The status, the pause that the server asks for, and the body.
    fn once(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Json>,
    ) -> Result<(u16, Option<Duration>, Bytes), ForgeError> {
        let request = self.request(method, path, body)?;
        let timeout = || ForgeError::Timeout { request: format!("{method} {}", self.base.host) };
        self.executor.block_on(async {
            tokio::time::timeout(TIME, self.exchange(request)).await.map_err(|_| timeout())?
        })
    }

    fn request(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Json>,
    ) -> Result<Request<Full<Bytes>>, ForgeError> {
        let wrong = |why: String| ForgeError::Address { address: self.base.host.clone(), why };
        let (name, value) = self.login.header();
        let mut value = HeaderValue::from_str(&value)
            .map_err(|_| wrong("the token has characters that no header holds".to_owned()))?;
        value.set_sensitive(true);
        let host = match (self.base.is_tls, self.base.port) {
            (true, 443) | (false, 80) => self.base.host.clone(),
            (_, port) => format!("{}:{port}", self.base.host),
        };
        let bytes = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
        Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base.path))
            .header(HOST, host)
            .header(USER_AGENT, concat!("fullsend/", env!("CARGO_PKG_VERSION")))
            .header(ACCEPT, self.accept)
            .header(CONTENT_TYPE, "application/json")
            .header(name, value)
            .body(Full::new(bytes))
            .map_err(|error| wrong(error.to_string()))
    }

    async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<(u16, Option<Duration>, Bytes), ForgeError> {
        let BaseUrl { host, port, is_tls, .. } = &self.base;
        let dialer = self.network.dialer();
        let addresses = match host.as_str() {
            "localhost" => vec![IpAddr::from([127, 0, 0, 1])],
            // The proxy resolves the name.
            host if dialer.is_proxied(host, *port) => Vec::new(),
            host => dialer.resolve(host).await.map_err(ForgeError::Dial)?,
        };
        let stream = dialer.connect(host, &addresses, *port).await.map_err(ForgeError::Dial)?;
        if *is_tls {
            let stream = dialer.secure(stream, host, &[b"http/1.1"]).await.map_err(ForgeError::Dial)?;
            return exchange_on(stream, request).await;
        }
        exchange_on(stream, request).await
    }
}

async fn exchange_on<S>(
    stream: S,
    request: Request<Full<Bytes>>,
) -> Result<(u16, Option<Duration>, Bytes), ForgeError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(ForgeError::Http)?;
    // The task ends with the connection. The sender reports its errors.
    tokio::spawn(async move { drop(connection.await) });
    let response = sender.send_request(request).await.map_err(ForgeError::Http)?;
    let status = response.status().as_u16();
    let pause = pause(&response);
    let body = Limited::new(response.into_body(), MAX_BYTES).collect().await;
    let body = body.map_err(|error| ForgeError::Answer {
        request: "the request".to_owned(),
        why: format!("it has more than {MAX_BYTES} bytes, or broke off: {error}"),
    })?;
    Ok((status, pause, body.to_bytes()))
}

fn pause<T>(response: &Response<T>) -> Option<Duration> {
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

impl Login {
    fn header(&self) -> (HeaderName, String) {
        use base64::Engine as _;
        match self {
            Self::Bearer(token) => (AUTHORIZATION, format!("Bearer {}", token.reveal())),
            Self::PrivateToken(token) => {
                (HeaderName::from_static("private-token"), token.reveal().to_owned())
            }
            Self::Basic { user, password } => {
                let both = format!("{user}:{}", password.reveal());
                let encoded = base64::engine::general_purpose::STANDARD.encode(both);
                (AUTHORIZATION, format!("Basic {encoded}"))
            }
        }
    }
}

/// The service's reason for a refusal, on one line.
fn message(body: &[u8]) -> String {
    let reason = serde_json::from_slice::<Json>(body).ok().and_then(|reason| {
        let found = ["message", "error", "errorMessages"].into_iter().find(|key| !reason[*key].is_null())?;
        Some(reason[found].to_string())
    });
    let reason = reason.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned());
    let line: String = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    line.trim_matches('"').chars().filter(|c| !c.is_control()).take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_over_tls_or_stays_on_this_machine() {
        let check = |text: &str, expected: Result<(&str, u16, bool, &str), &str>| match (
            BaseUrl::parse(text),
            expected,
        ) {
            (Ok(found), Ok((host, port, is_tls, path))) => {
                let expected = BaseUrl { host: host.to_owned(), port, is_tls, path: path.to_owned() };
                assert_eq!(found, expected, "{text}");
            }
            (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{text}: {error}"),
            (found, expected) => panic!("{text}: {found:?}, expected {expected:?}"),
        };
        check("https://api.github.com", Ok(("api.github.com", 443, true, "")));
        check("https://git.example:8443/api/v3/", Ok(("git.example", 8443, true, "/api/v3")));
        check("http://127.0.0.1:8080", Ok(("127.0.0.1", 8080, false, "")));
        check("http://[::1]:8080", Ok(("[::1]", 8080, false, "")));
        check("http://localhost", Ok(("localhost", 80, false, "")));
        check("http://git.example", Err("https only"));
        check("http://127.0.0.1.example.com", Err("https only"));
        check("https://user@git.example", Err("plain address"));
        check("https://git.example/a?b", Err("plain address"));
        check("ftp://git.example", Err("https://"));
        check("https://git.example:x", Err("port"));
    }

    #[test]
    fn a_refusal_is_one_short_line() {
        assert_eq!(message(br#"{"message": "Bad\ncredentials"}"#), "Bad\\ncredentials");
        assert_eq!(message(b"<html>\n no "), "<html> no");
        assert_eq!(message("x".repeat(1000).as_bytes()).len(), 300);
    }
}
