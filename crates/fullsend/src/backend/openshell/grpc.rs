//! Calls over gRPC: one HTTP/2 connection to the gateway, opened again after a loss. Five bytes precede each message,
//! and the status of a call is in the trailers.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use egress::dial::Dialer;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::http2::{self, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, TE};
use hyper::{Request, Response, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Mutex, mpsc};

use super::endpoint::OpenshellEndpoint;
use super::protobuf::Message;

const SERVICE: &str = "openshell.v1.OpenShell";

/// For a connection.
const TIME: Duration = Duration::from_secs(30);

/// An idle connection is pinged, because an agent may be silent for long.
const PING_INTERVAL: Duration = Duration::from_secs(20);

/// The largest message that is taken. The gateway sends output in small pieces.
const MAX_MESSAGE: usize = 16 << 20;

/// Messages that wait to be sent.
const WAITING: usize = 16;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// No connection, or it broke.
    Unreachable {
        endpoint: String,
        why: String,
    },
    /// The gateway answered with an error.
    Refused {
        method: &'static str,
        status: CallStatus,
        message: String,
    },
    Timeout {
        method: &'static str,
        time: Duration,
    },
    /// The gateway's answer is not gRPC.
    Answer {
        method: &'static str,
        why: String,
    },
}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreachable { endpoint, why } => {
                write!(f, "the OpenShell gateway {endpoint} cannot be reached: {why}")
            }
            Self::Refused { status: CallStatus::UNAUTHENTICATED, message, .. } => {
                write!(f, "the OpenShell gateway refused the token ({message}); set OPENSHELL_TOKEN")
            }
            Self::Refused { status: CallStatus::PERMISSION_DENIED, method, message } => {
                write!(f, "the OpenShell gateway does not allow {method}: {message}")
            }
            Self::Refused { method, status, message } => {
                write!(f, "the OpenShell gateway refused {method}: {message} (status {})", status.0)
            }
            Self::Timeout { method, time } => {
                write!(f, "the OpenShell gateway did not answer {method} within {} seconds", time.as_secs())
            }
            Self::Answer { method, why } => {
                write!(f, "the answer of the OpenShell gateway to {method} cannot be read: {why}")
            }
        }
    }
}

impl std::error::Error for CallError {}

impl CallError {
    /// Whether the gateway refuses us: then nothing was created, and a retry does not help.
    pub(super) fn is_denied(&self) -> bool {
        let denied = [CallStatus::UNAUTHENTICATED, CallStatus::PERMISSION_DENIED];
        matches!(self, Self::Refused { status, .. } if denied.contains(status))
    }
}

/// A status of gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallStatus(u32);

impl CallStatus {
    pub(super) const NOT_FOUND: Self = Self(5);
    pub(super) const PERMISSION_DENIED: Self = Self(7);
    pub(super) const UNAUTHENTICATED: Self = Self(16);
}

/// The connection to one gateway.
pub(super) struct Channel {
    endpoint: OpenshellEndpoint,
    dialer: Dialer,
    connection: Mutex<Option<SendRequest<Requests>>>,
}

impl Channel {
    pub(super) fn new(endpoint: OpenshellEndpoint, dialer: Dialer) -> Arc<Self> {
        Arc::new(Self { endpoint, dialer, connection: Mutex::new(None) })
    }

    pub(super) fn endpoint(&self) -> &OpenshellEndpoint {
        &self.endpoint
    }

    /// One request, one answer.
    pub(super) async fn unary(
        &self,
        method: &'static str,
        request: Message,
        time: Duration,
    ) -> Result<Vec<u8>, CallError> {
        let call = async {
            let (sender, mut answers) = self.stream(method).await?;
            sender.send(request).await;
            drop(sender);
            let answer = answers.next().await?;
            match answer {
                // The status comes after the message.
                Some(answer) => answers.next().await.map(|_| answer.to_vec()),
                None => Err(CallError::Answer { method, why: "it is empty".to_owned() }),
            }
        };
        tokio::time::timeout(time, call).await.unwrap_or(Err(CallError::Timeout { method, time }))
    }

    /// A call with requests and answers in any number.
    pub(super) async fn stream(&self, method: &'static str) -> Result<(RequestSender, Answers), CallError> {
        let (sender, receiver) = mpsc::channel(WAITING);
        let request = self.request(method, Requests(receiver))?;
        let mut connection = self.connected().await?;
        let response = connection.send_request(request);
        let answers = Answers {
            method,
            endpoint: self.endpoint.to_string(),
            state: AnswerState::Asked(Box::pin(response)),
        };
        Ok((RequestSender(sender), answers))
    }

    fn request(&self, method: &'static str, body: Requests) -> Result<Request<Requests>, CallError> {
        let wrong = |why: String| CallError::Unreachable { endpoint: self.endpoint.to_string(), why };
        let uri = format!("{}/{SERVICE}/{method}", self.endpoint.address.origin());
        let uri: Uri = uri.parse().map_err(|error| wrong(format!("{error}")))?;
        let mut request = Request::post(uri)
            .header(CONTENT_TYPE, "application/grpc")
            .header(TE, "trailers")
            .body(body)
            .map_err(|error| wrong(error.to_string()))?;
        if let Some(token) = &self.endpoint.token {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", token.reveal()))
                .map_err(|_| wrong("the token has characters that a header cannot have".to_owned()))?;
            value.set_sensitive(true);
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        Ok(request)
    }

    async fn connected(&self) -> Result<SendRequest<Requests>, CallError> {
        let mut connection = self.connection.lock().await;
        if let Some(open) = connection.as_ref().filter(|open| !open.is_closed()) {
            return Ok(open.clone());
        }
        let unreachable = |why: String| CallError::Unreachable { endpoint: self.endpoint.to_string(), why };
        let opened = tokio::time::timeout(TIME, self.connect())
            .await
            .map_err(|_| unreachable("no answer".to_owned()))?
            .map_err(unreachable)?;
        Ok(connection.insert(opened).clone())
    }

    async fn connect(&self) -> Result<SendRequest<Requests>, String> {
        let address = &self.endpoint.address;
        let resolved = self.dialer.resolve(&address.host).await.map_err(|error| error.to_string())?;
        let stream = self.dialer.connect(&address.host, &resolved, address.port).await;
        let stream = stream.map_err(|error| error.to_string())?;
        if address.is_tls {
            let secured = self.dialer.secure(stream, &address.host, &[b"h2"]).await;
            handshake(secured.map_err(|error| error.to_string())?).await
        } else {
            handshake(stream).await
        }
    }
}

async fn handshake<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
) -> Result<SendRequest<Requests>, String> {
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_while_idle(true)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    tokio::spawn(async move { drop(connection.await) }); // its calls report how it ended
    Ok(sender)
}

/// Sends the requests of one call. Dropping it ends the stream of requests.
#[derive(Clone)]
pub(super) struct RequestSender(mpsc::Sender<Bytes>);

impl RequestSender {
    /// A call that has ended accepts no more requests; its answers say why.
    pub(super) async fn send(&self, message: Message) {
        drop(self.0.send(framed(&message.into_bytes())).await);
    }
}

/// A message behind its length; it is not compressed.
fn framed(message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&[0][..], &length.to_be_bytes(), message].concat().into()
}

/// The body of a call: the messages that are sent into its channel.
struct Requests(mpsc::Receiver<Bytes>);

impl Body for Requests {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

type ResponseFuture = Pin<Box<dyn Future<Output = hyper::Result<Response<Incoming>>> + Send>>;

/// The answers of one call.
pub(super) struct Answers {
    method: &'static str,
    endpoint: String,
    state: AnswerState,
}

enum AnswerState {
    /// The response head may not have arrived yet: some gateways send it with the first answer.
    Asked(ResponseFuture),
    Open {
        body: Incoming,
        unread: BytesMut,
    },
    Ended,
}

impl Answers {
    /// The next answer; `None` if the call ended without an error.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, CallError> {
        loop {
            match &mut self.state {
                AnswerState::Ended => return Ok(None),
                AnswerState::Asked(response) => {
                    let response = response.as_mut().await.map_err(|error| self.broken(&error))?;
                    self.open(response)?;
                }
                AnswerState::Open { body, unread } => {
                    match message(unread) {
                        Err(why) => return Err(CallError::Answer { method: self.method, why }),
                        Ok(Some(message)) => return Ok(Some(message)),
                        Ok(None) => {}
                    }
                    match body.frame().await {
                        Some(Err(error)) => return Err(self.broken(&error)),
                        Some(Ok(frame)) => match frame.into_data() {
                            Ok(data) => unread.extend_from_slice(&data),
                            Err(frame) => return self.end(frame.trailers_ref()),
                        },
                        None => return self.end(None),
                    }
                }
            }
        }
    }

    fn open(&mut self, response: Response<Incoming>) -> Result<(), CallError> {
        let (head, body) = response.into_parts();
        if !head.status.is_success() {
            let why = format!("HTTP status {}", head.status);
            return Err(CallError::Answer { method: self.method, why });
        }
        // A call that fails at once has its status in the head.
        if head.headers.contains_key("grpc-status") {
            return self.end(Some(&head.headers)).map(drop);
        }
        self.state = AnswerState::Open { body, unread: BytesMut::new() };
        Ok(())
    }

    fn end(&mut self, trailers: Option<&HeaderMap>) -> Result<Option<Bytes>, CallError> {
        self.state = AnswerState::Ended;
        let method = self.method;
        let header = |name: &str| trailers?.get(name)?.to_str().ok();
        match header("grpc-status").and_then(|status| status.parse().ok()) {
            Some(0) => Ok(None),
            Some(status) => {
                let message = unescaped(header("grpc-message").unwrap_or_default());
                Err(CallError::Refused { method, status: CallStatus(status), message })
            }
            None => Err(CallError::Answer { method, why: "it has no status".to_owned() }),
        }
    }

    fn broken(&self, error: &hyper::Error) -> CallError {
        let mut why = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            why = format!("{why}: {cause}");
            source = cause.source();
        }
        CallError::Unreachable { endpoint: self.endpoint.clone(), why }
    }
}

/// The first whole message of what was received.
fn message(unread: &mut BytesMut) -> Result<Option<Bytes>, String> {
    let Some((head, _)) = unread.split_first_chunk::<5>() else { return Ok(None) };
    let [compressed, length @ ..] = *head;
    let length = u32::from_be_bytes(length) as usize;
    if compressed != 0 {
        return Err("it is compressed".to_owned());
    }
    if length > MAX_MESSAGE {
        return Err(format!("it has {length} bytes"));
    }
    if unread.len() < 5 + length {
        return Ok(None);
    }
    unread.advance(5);
    Ok(Some(unread.split_to(length).freeze()))
}

/// gRPC percent-encodes the message of a status. Control characters are removed, because people read the message.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = (*first == b'%').then(|| after.get(..2)).flatten();
        let code = code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    let text = String::from_utf8_lossy(&bytes);
    text.chars().filter(|c| !c.is_control()).take(500).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_in_any_pieces() {
        let whole = [framed(b"one"), framed(b""), framed(b"three")].concat();
        for size in 1..whole.len() {
            let mut unread = BytesMut::new();
            let mut found = Vec::new();
            for piece in whole.chunks(size) {
                unread.extend_from_slice(piece);
                while let Some(one) = message(&mut unread).unwrap() {
                    found.push(one);
                }
            }
            assert_eq!(found, [&b"one"[..], b"", b"three"], "pieces of {size}");
        }
        let mut huge = BytesMut::from(&[0, 0x7f, 0xff, 0xff, 0xff][..]);
        assert!(message(&mut huge).is_err());
        let mut compressed = BytesMut::from(&[1, 0, 0, 0, 0][..]);
        assert!(message(&mut compressed).is_err());
    }

    #[test]
    fn the_message_of_a_status_is_readable() {
        assert_eq!(unescaped("sandbox %27a%27 100%25%0a%1b[31m 5% %zz"), "sandbox 'a' 100%[31m 5% %zz");
    }
}
