//! The way out that the streams of one connection share, dialled again when the server has closed it.

use super::super::refusal::Refusal;
use super::super::requests::Site;
use super::super::upstream::BoxStream;
use super::bodies::UpBody;
use super::tasks::{TaskExecutor, Tasks};
use super::{CONNECTION_WINDOW, HTTP_2, MAX_HEAD, STREAM_WINDOW};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::Mutex;

pub(super) struct Way {
    state: Mutex<State>,
}

enum State {
    /// A stream to the server on which nothing was said yet.
    Fresh(BoxStream, TaskExecutor),
    Open(SendRequest<UpBody>, TaskExecutor),
    /// While it is dialled, and after that failed.
    Gone(TaskExecutor),
    Closed(Refusal),
}

impl Way {
    pub(super) fn new(server: BoxStream, tasks: &Tasks) -> Self {
        Self { state: Mutex::new(State::Fresh(server, tasks.executor())) }
    }

    /// There is none, and this is why.
    pub(super) fn closed(refusal: Refusal) -> Self {
        Self { state: Mutex::new(State::Closed(refusal)) }
    }

    /// A sender that can be used now.
    pub(super) async fn sender(&self, site: &Site) -> Result<SendRequest<UpBody>, Refusal> {
        let mut state = self.state.lock().await;
        let executor = match &mut *state {
            State::Closed(refusal) => return Err(refusal.clone()),
            State::Open(sender, executor) => {
                if !sender.is_closed() && sender.ready().await.is_ok() {
                    return Ok(sender.clone());
                }
                executor.clone()
            }
            State::Fresh(_, executor) | State::Gone(executor) => executor.clone(),
        };
        let stream = match std::mem::replace(&mut *state, State::Gone(executor.clone())) {
            State::Fresh(stream, _) => stream,
            _ => site.dial(HTTP_2).await?,
        };
        let sender = open(site, stream, &executor).await?;
        *state = State::Open(sender.clone(), executor);
        Ok(sender)
    }
}

async fn open(
    site: &Site,
    stream: BoxStream,
    executor: &TaskExecutor,
) -> Result<SendRequest<UpBody>, Refusal> {
    use hyper::rt::Executor;
    let idle = site.proxy.limits.idle;
    let mut builder = Builder::new(executor.clone());
    builder
        .timer(TokioTimer::new())
        .max_header_list_size(MAX_HEAD)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(idle)
        .keep_alive_timeout(idle);
    let shaking = tokio::time::timeout(idle, builder.handshake(TokioIo::new(stream)));
    let failed = |reason: String| Refusal::upstream(format!("no HTTP/2 with the server: {reason}"));
    let shaken = shaking.await.map_err(|_| failed("it did not answer in time".to_owned()))?;
    let (mut sender, connection) = shaken.map_err(|error| failed(error.to_string()))?;
    executor.execute(async move {
        // Its streams tell how it ended.
        drop(connection.await);
    });
    sender.ready().await.map_err(|error| failed(error.to_string()))?;
    Ok(sender)
}
