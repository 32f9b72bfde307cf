//! An MCP server behind an address, by streamable HTTP: every message is a POST, and the answer is one JSON document or a
//! stream of events. The proxy decides whether the address can be reached. One connection for each message.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use egress::dial::{Dialer, Roots};
use egress::resolver::SystemResolver;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderName, HeaderValue, USER_AGENT};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use model::wire::SseDecoder;
use serde_json::{Value as Json, json};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::harness::names::ServerUrl;

const MAX_BYTES: usize = 16 << 20;
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

pub(super) struct HttpConnection {
    url: ServerUrl,
    headers: Vec<(HeaderName, HeaderValue)>,
    /// The server's name for this session, if it has one.
    session: Option<HeaderValue>,
    /// Known after the first answer.
    version: Option<HeaderValue>,
    dialer: Dialer,
    executor: tokio::runtime::Runtime,
    number: u64,
}

impl HttpConnection {
    pub(super) fn new(url: &str, headers: Vec<(String, String)>) -> Result<Self, String> {
        let url = ServerUrl::parse(url).ok_or_else(|| format!("`{url}` is not an address"))?;
        let header = |(name, value): (String, String)| {
            let unusable = || format!("the header `{name}` has characters that cannot be sent");
            let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| unusable())?;
            let mut value = HeaderValue::from_str(&value).map_err(|_| unusable())?;
            value.set_sensitive(true);
            Ok((parsed, value))
        };
        let headers = headers.into_iter().map(header).collect::<Result<_, String>>()?;
        let roots =
            if url.is_tls() { Roots::load().map_err(|error| error.to_string())? } else { Roots::only([]) };
        let executor = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let executor = executor.map_err(|error| error.to_string())?;
        let dialer = Dialer::new(Arc::new(SystemResolver::load()), roots);
        Ok(Self { url, headers, session: None, version: None, dialer, executor, number: 0 })
    }

    /// The revision that the server chose, for every later message.
    pub(super) fn set_version(&mut self, version: &str) {
        self.version = HeaderValue::from_str(version).ok();
    }

    /// The answer to a request.
    pub(super) fn ask(&mut self, method: &str, parameters: &Json, timeout: Duration) -> Result<Json, String> {
        self.number += 1;
        let id = self.number;
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": parameters });
        let answer = self.post(&message, timeout, Some(id))?;
        answer.ok_or_else(|| format!("no answer to {method}"))
    }

    pub(super) fn notify(&mut self, message: &Json, timeout: Duration) -> Result<(), String> {
        self.post(message, timeout, None).map(drop)
    }

    fn post(&mut self, message: &Json, timeout: Duration, id: Option<u64>) -> Result<Option<Json>, String> {
        let request = self.request(message)?;
        let exchange = async {
            let response = self.send(request).await?;
            let session = response.headers().get(SESSION).cloned();
            let status = response.status();
            if !status.is_success() {
                return Err(format!("it answered with HTTP {}", status.as_u16()));
            }
            let answer = match id {
                Some(id) => read_answer(response, id).await?,
                None => None,
            };
            Ok((session, answer))
        };
        let ended = self.executor.block_on(async { tokio::time::timeout(timeout, exchange).await });
        let no_answer = |_| format!("no answer within {} seconds", timeout.as_secs());
        let (session, answer) = ended.map_err(no_answer)??;
        self.session = session.or(self.session.take());
        Ok(answer)
    }

    fn request(&self, message: &Json) -> Result<Request<Full<Bytes>>, String> {
        let (host, port, path) = self.url.parts();
        let usual_port = if self.url.is_tls() { 443 } else { 80 };
        let host = if port == usual_port { host.to_owned() } else { format!("{host}:{port}") };
        let mut request = Request::post(path)
            .header(HOST, host)
            .header(USER_AGENT, concat!("fullsend/", env!("CARGO_PKG_VERSION")))
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        for (name, value) in [(SESSION, &self.session), (VERSION, &self.version)] {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        request.body(Full::new(Bytes::from(message.to_string()))).map_err(|error| error.to_string())
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, String> {
        let (host, port, _) = self.url.parts();
        let addresses = self.dialer.resolve(host).await.map_err(|error| error.to_string())?;
        let stream = self.dialer.connect(host, &addresses, port).await.map_err(|error| error.to_string())?;
        if self.url.is_tls() {
            let stream = self.dialer.secure(stream, host, &[b"http/1.1"]).await;
            return send_on(stream.map_err(|error| error.to_string())?, request).await;
        }
        send_on(stream, request).await
    }
}

async fn send_on<S>(stream: S, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| error.to_string())?;
    // The task ends with the connection. The sender reports its errors.
    tokio::spawn(async move { drop(connection.await) });
    sender.send_request(request).await.map_err(|error| error.to_string())
}

/// The message with this id, in a document or among the events of a stream.
async fn read_answer(response: Response<Incoming>, id: u64) -> Result<Option<Json>, String> {
    let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let is_stream = content_type.is_some_and(|kind| kind.starts_with("text/event-stream"));
    let mut body = response.into_body();
    let mut decoder = SseDecoder::default();
    let mut document = Vec::new();
    let mut total = 0;
    while let Some(frame) = body.frame().await {
        let Ok(bytes) = frame.map_err(|error| error.to_string())?.into_data() else { continue };
        total += bytes.len();
        if total > MAX_BYTES {
            return Err(format!("its answer is larger than {MAX_BYTES} bytes"));
        }
        if !is_stream {
            document.extend_from_slice(&bytes);
            continue;
        }
        decoder.push(&bytes).map_err(|error| error.to_string())?;
        while let Some(frame) = decoder.next_frame() {
            // Notifications, and requests of the server, are not answered.
            if let Some(answer) =
                serde_json::from_str(&frame.data).ok().filter(|answer| is_answer(answer, id))
            {
                return Ok(Some(answer));
            }
        }
    }
    if is_stream {
        return Ok(None);
    }
    let answer: Json = serde_json::from_slice(&document).map_err(|error| format!("not JSON: {error}"))?;
    Ok(is_answer(&answer, id).then_some(answer))
}

fn is_answer(message: &Json, id: u64) -> bool {
    message["id"] == id && (message.get("result").is_some() || message.get("error").is_some())
}
