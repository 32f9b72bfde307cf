//! MCP over streamable HTTP: one path, one message per POST, each answered with one JSON document. The server opens no streams
//! and keeps nothing about a client. A client that hangs up before its answer cancels its call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hyper::body::{Bytes, Incoming};
use hyper::header::{HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use serde_json::Value as Json;
use tokio::net::TcpListener;

use super::access::AccessRules;
use super::answer::{self, AnswerBody};
use super::problem::Problem;
use super::{accept, body, header};

const PATH: &str = "/mcp";
/// The longest message of a client.
const MAX_MESSAGE: usize = 8 << 20;

static SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
static PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

type AnswerMessage = dyn Fn(&HttpMessage) -> Option<Json> + Send + Sync;

/// The service that answers the messages.
pub struct McpHttpService {
    pub access: AccessRules,
    /// The supported revisions of the protocol.
    pub versions: Vec<&'static str>,
    /// Answers a message, and may block. `None`: there is nothing to answer.
    pub answer: Box<AnswerMessage>,
    /// The client of this message hung up.
    pub hang_up: Box<dyn Fn(&HttpMessage) + Send + Sync>,
}

/// A message and who sent it.
pub struct HttpMessage {
    pub client: String,
    pub bytes: Bytes,
    /// Whether the client has stopped waiting for the answer.
    pub is_abandoned: AtomicBool,
}

/// Serves until the task is dropped.
pub async fn serve_mcp(listener: TcpListener, endpoint: Arc<McpHttpService>) {
    let respond = move |request| {
        let endpoint = Arc::clone(&endpoint);
        async move { respond(&endpoint, request).await.unwrap_or_else(|problem| problem.response()) }
    };
    accept(listener, || (), respond).await;
}

async fn respond(
    endpoint: &Arc<McpHttpService>,
    request: Request<Incoming>,
) -> Result<Response<AnswerBody>, Problem> {
    let (head, content) = request.into_parts();
    endpoint.access.check_origin(&head)?;
    endpoint.access.check_token(&head)?.check_may_act()?;
    if head.uri.path() != PATH {
        return Err(Problem::not_found(format!("there is nothing at {}", head.uri.path())));
    }
    if head.method != Method::POST {
        return Err(Problem::method_not_allowed("POST"));
    }
    endpoint.check_version(&head)?;
    let bytes = body::read_up_to(&head, content, MAX_MESSAGE).await?;
    // A cancellation names a request of its own client. A client without a session id closes the connection instead.
    let named = header(&head, &SESSION).map(str::to_owned);
    let client = named.unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
    let message =
        Arc::new(HttpMessage { client: client.clone(), bytes, is_abandoned: AtomicBool::new(false) });
    let mut waiting = WaitingClient { endpoint, message: &message, is_answered: false };
    let asked = Arc::clone(endpoint);
    let shared = Arc::clone(&message);
    let answered = tokio::task::spawn_blocking(move || (asked.answer)(&shared)).await;
    waiting.is_answered = true;
    let answer = answered.map_err(|_| Problem::internal("the message could not be answered"))?;
    let Some(answer) = answer else { return Ok(answer::accepted_empty()) };
    let is_handshake = answer.pointer("/result/protocolVersion").is_some();
    let mut response = answer::json(&answer);
    if is_handshake && let Ok(name) = HeaderValue::from_str(&client) {
        response.headers_mut().insert(SESSION.clone(), name);
    }
    Ok(response)
}

impl McpHttpService {
    fn check_version(&self, head: &Parts) -> Result<(), Problem> {
        match head.headers.get(&PROTOCOL_VERSION) {
            Some(version) if !self.versions.iter().any(|known| version == known) => {
                let known = self.versions.join(", ");
                let why = format!("`MCP-Protocol-Version` must be one of {known}");
                Err(Problem::new(StatusCode::BAD_REQUEST, "unsupported-version", why))
            }
            _ => Ok(()),
        }
    }
}

/// A client that waits for its answer. If the connection closes first, this is dropped before the answer.
struct WaitingClient<'a> {
    endpoint: &'a McpHttpService,
    message: &'a HttpMessage,
    is_answered: bool,
}

impl Drop for WaitingClient<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.message.is_abandoned.store(true, Ordering::SeqCst);
            (self.endpoint.hang_up)(self.message);
        }
    }
}
