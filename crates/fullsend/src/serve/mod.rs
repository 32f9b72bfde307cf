//! Runs over HTTP, for the live page and for other programs: lists, records, event streams and artifacts below `/v1`. Every
//! connection, header and answer is bounded, and a slow reader blocks no other. Nothing is kept in memory that a restart loses.

mod access;
mod answer;
mod artifact;
mod log_tail;
mod metrics;
pub(crate) mod openapi;
mod problem;
mod query;
mod route;
mod runs;
mod stream;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hyper::Request;
use hyper::Response;
use hyper::body::Incoming;
use hyper::header::HeaderName;
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

pub use access::{AccessRules, AccessToken};
use answer::AnswerBody;
use metrics::{Metrics, OpenCount};
use problem::Problem;

/// More connections wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 2048;
/// How many requests read the disk at the same time; the others wait.
const MAX_READS: usize = 8;
const HEAD_TIME: Duration = Duration::from_secs(15);
const MAX_HEAD_BYTES: usize = 32 << 10;

/// What the server serves, and to whom.
pub struct Server {
    /// The directory of runs.
    runs: PathBuf,
    access: AccessRules,
    reads: Semaphore,
    metrics: Arc<Metrics>,
}

impl Server {
    pub fn new(runs: PathBuf, access: AccessRules) -> Self {
        Self { runs, access, reads: Semaphore::new(MAX_READS), metrics: Arc::default() }
    }

    /// Reads the disk on a thread that may wait.
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
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let accepted: std::io::Result<(_, SocketAddr)> = listener.accept().await;
        let Ok((stream, _)) = accepted else {
            // Out of descriptors, or the peer has gone: pause and go on.
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let server = Arc::clone(&server);
        let open = OpenCount::new(&server.metrics, |metrics| &metrics.connections);
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let server = Arc::clone(&server);
                async move { Ok::<_, Infallible>(respond(&server, request).await) }
            });
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(MAX_HEAD_BYTES);
            // A client that broke off or did not speak HTTP.
            drop(builder.serve_connection(TokioIo::new(stream), service).await);
            drop(open);
            drop(place);
        });
    }
}

async fn respond(server: &Arc<Server>, request: Request<Incoming>) -> Response<AnswerBody> {
    let (head, _body) = request.into_parts();
    let response = match route::answer(server, &head).await {
        Ok(response) => response,
        Err(problem) => problem.response(),
    };
    server.metrics.count(response.status()).fetch_add(1, Ordering::Relaxed);
    response
}

fn header<'a>(head: &'a Parts, name: &HeaderName) -> Option<&'a str> {
    head.headers.get(name)?.to_str().ok()
}
