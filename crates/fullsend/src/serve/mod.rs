//! Runs and sessions over HTTP, for the live page and for other programs: lists, live events and the actions of
//! operators, below `/v1`. Every connection, header, body and answer is bounded, and a slow reader blocks no other. Only
//! metrics are lost by a restart.

mod access;
mod action_log;
mod actions;
mod answer;
mod artifact;
mod body;
mod costs;
mod log_tail;
mod mcp_endpoint;
mod metrics;
pub(crate) mod openapi;
mod outgoing;
mod problem;
mod query;
mod route;
mod runs;
mod session_feed;
mod sessions;
mod signature;
mod start_keys;
mod starts;
mod stream;
mod webhooks;
mod work;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::HeaderName;
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use session::{Attachment, ImportTerms, SessionId, Sessions};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use trigger::TriggerEvent;

pub use access::{AccessRules, AccessToken, Caller, Role};
use action_log::ActionLog;
pub use actions::NewSessionBody;
use answer::AnswerBody;
pub use mcp_endpoint::{HttpMessage, McpHttpService, serve_mcp};
use metrics::{ConnectionGauge, Metrics};
pub use outgoing::{OutgoingWebhook, OutgoingWebhooks, WebhookEventKind, start as start_outgoing};
use problem::Problem;
use session_feed::SessionFeed;
pub use signature::is_standard_secret;
use starts::RunStarts;
pub use starts::{InputBody, NewRunBody, RunChild, RunStart};
pub use webhooks::{EvaluatedTrigger, IncomingWebhook, WebhookForge, WebhookTarget};

/// Connections beyond this wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 2048;
/// How many requests read the disk at the same time; the others wait.
const MAX_READS: usize = 8;
/// How many bundles are received at the same time; the others wait.
const MAX_IMPORTS: usize = 2;
const HEADER_TIMEOUT: Duration = Duration::from_secs(15);
const MAX_HEAD_BYTES: usize = 32 << 10;
/// A reader that receives nothing for this long is disconnected, so that stalled readers cannot use up all connections.
const STALL_TIMEOUT: Duration = Duration::from_secs(90);

type OpenStore = dyn Fn() -> Result<Sessions, String> + Send + Sync;
type CreateSession = dyn Fn(&NewSessionBody, &mut Sessions) -> Result<SessionId, String> + Send + Sync;
type ExportSession = dyn Fn(&mut Sessions, SessionId) -> Result<PathBuf, String> + Send + Sync;
type SaveAttachments = dyn Fn(SessionId, &[Attachment]) -> Result<(), String> + Send + Sync;
type EvaluateTriggers = dyn Fn(&TriggerEvent) -> Result<Vec<EvaluatedTrigger>, String> + Send + Sync;
type StartRun = dyn Fn(&RunStart) -> Result<RunChild, String> + Send + Sync;
type ArchiveSession = dyn Fn(&mut Sessions, SessionId) -> Result<String, String> + Send + Sync;

/// Functions that only the command line can provide, because it reads the environment and the layers. Errors are
/// messages for the caller.
pub struct ServeBackend {
    /// Opens a connection to the store; idle ones are reused.
    pub open_sessions: Box<OpenStore>,
    pub create_session: Box<CreateSession>,
    /// Writes the bundle of a session to a temporary file, which the caller removes.
    pub export_session: Box<ExportSession>,
    /// Exports a session to a file, terminates it and removes it. Returns the file.
    pub archive_session: Box<ArchiveSession>,
    /// What an import accepts from its bundle.
    pub import_terms: Box<dyn Fn() -> Result<ImportTerms, String> + Send + Sync>,
    /// Saves the transcripts of an imported session.
    pub save_attachments: Box<SaveAttachments>,
    /// Starts the process of a run.
    pub start_run: Box<StartRun>,
    /// Evaluates the triggers of all harnesses for an event.
    pub evaluate_triggers: Box<EvaluateTriggers>,
}

/// The server's own directory and limits.
pub struct ServeState {
    /// The directory of runs.
    pub runs: PathBuf,
    /// A private directory of the server.
    pub directory: PathBuf,
    /// How many of its runs may run at the same time.
    pub max_runs: usize,
    pub webhooks: Vec<IncomingWebhook>,
    /// The webhooks that it sends, if there are any.
    pub outgoing: Option<OutgoingWebhooks>,
}

/// What the server serves, and to whom.
pub struct Server {
    /// The directory of runs.
    runs: PathBuf,
    access: AccessRules,
    backend: ServeBackend,
    /// Unused open connections to the store; at most one for each read.
    idle_stores: Mutex<Vec<Sessions>>,
    feed: SessionFeed,
    reads: Semaphore,
    imports: Semaphore,
    starts: Arc<RunStarts>,
    webhooks: Vec<IncomingWebhook>,
    outgoing: Option<OutgoingWebhooks>,
    action_log: ActionLog,
    metrics: Arc<Metrics>,
}

impl Server {
    pub fn new(state: ServeState, access: AccessRules, backend: ServeBackend) -> Self {
        let ServeState { runs, directory, max_runs, webhooks, outgoing } = state;
        Self {
            runs,
            access,
            backend,
            idle_stores: Mutex::default(),
            feed: SessionFeed::default(),
            reads: Semaphore::new(MAX_READS),
            imports: Semaphore::new(MAX_IMPORTS),
            starts: Arc::new(RunStarts::new(max_runs, &directory)),
            webhooks,
            outgoing,
            action_log: ActionLog::new(&directory, "actions.jsonl"),
            metrics: Arc::default(),
        }
    }

    /// The runs that this server started.
    pub fn starts(&self) -> &Arc<RunStarts> {
        &self.starts
    }

    fn idle_stores(&self) -> MutexGuard<'_, Vec<Sessions>> {
        self.idle_stores.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` on a thread that may block, at most `MAX_READS` at once.
    async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let failed = || Problem::internal("the request could not be answered");
        let _permit = self.reads.acquire().await.map_err(|_| failed())?;
        let server = Arc::clone(self);
        let ended = tokio::task::spawn_blocking(move || work(&server)).await;
        ended.unwrap_or_else(|_| Err(failed()))
    }
}

/// Serves until the task is dropped.
pub async fn serve(listener: TcpListener, server: Arc<Server>) {
    let counted = Arc::clone(&server);
    let gauge = move || ConnectionGauge::new(&counted.metrics, |metrics| &metrics.connections);
    let respond = move |request| {
        let server = Arc::clone(&server);
        async move { respond(&server, request).await }
    };
    accept(listener, gauge, respond).await;
}

/// Accepts connections. Each holds its own `guard` until it ends.
async fn accept<G, A>(
    listener: TcpListener,
    guard: impl Fn() -> G,
    respond: impl Fn(Request<Incoming>) -> A + Clone + Send + 'static,
) where
    G: Send + 'static,
    A: Future<Output = Response<AnswerBody>> + Send + 'static,
{
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        let accepted: std::io::Result<(_, SocketAddr)> = listener.accept().await;
        let Ok((stream, _)) = accepted else {
            // Out of descriptors, or the peer is gone: pause and continue.
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        if limit_stalls(&stream).is_err() {
            continue;
        }
        let guard = guard();
        let respond = respond.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let answer = respond(request);
                async move { Ok::<_, Infallible>(answer.await) }
            });
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(MAX_HEAD_BYTES);
            // An error means that the client hung up or does not speak HTTP.
            drop(builder.serve_connection(TokioIo::new(stream), service).await);
            drop(guard);
            drop(permit);
        });
    }
}

/// Makes the kernel close a connection whose peer receives nothing. Otherwise the peer could keep it open for ever.
fn limit_stalls(stream: &TcpStream) -> std::io::Result<()> {
    let timeout_ms = u32::try_from(STALL_TIMEOUT.as_millis()).unwrap_or(u32::MAX);
    Ok(rustix::net::sockopt::set_tcp_user_timeout(stream, timeout_ms)?)
}

async fn respond(server: &Arc<Server>, request: Request<Incoming>) -> Response<AnswerBody> {
    let (head, content) = request.into_parts();
    let response = match route::answer(server, head, content).await {
        Ok(response) => response,
        Err(problem) => problem.response(),
    };
    server.metrics.count(response.status()).fetch_add(1, Ordering::Relaxed);
    response
}

fn header<'a>(head: &'a Parts, name: &HeaderName) -> Option<&'a str> {
    head.headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_peer_that_takes_nothing_loses_its_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = tokio::join!(TcpStream::connect(address), listener.accept()).1.unwrap().0;
        limit_stalls(&accepted).unwrap();
        assert_eq!(rustix::net::sockopt::tcp_user_timeout(&accepted).unwrap(), 90_000);
    }
}
