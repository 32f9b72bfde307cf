//! The connection to the server that the streams of one client connection share. It is dialled again when the server has
//! closed it.

use super::super::admission::AdmittedConnection;
use super::super::refusal::Refusal;
use super::super::stream::BoxStream;
use super::super::upstream::dial;
use super::bodies::RelayedBody;
use super::tasks::{ConnectionTasks, TaskExecutor};
use crate::http1::MAX_HEAD_BYTES;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::rt::Executor;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::Mutex;

pub(in super::super) const HTTP_2: &[u8] = b"h2";
pub(super) const STREAM_WINDOW: u32 = 256 << 10;
pub(super) const CONNECTION_WINDOW: u32 = 1 << 20;
pub(super) const MAX_HEAD: u32 = MAX_HEAD_BYTES as u32;

pub(super) struct Http2Pool {
    state: Mutex<PoolState>,
}

enum PoolState {
    /// Connected, but HTTP/2 has not started.
    Connected(BoxStream, TaskExecutor),
    Open(SendRequest<RelayedBody>, TaskExecutor),
    /// While it is dialled, and after dialling failed.
    Closed(TaskExecutor),
    Refused(Refusal),
}

impl Http2Pool {
    pub(super) fn new(server: BoxStream, tasks: &ConnectionTasks) -> Self {
        Self { state: Mutex::new(PoolState::Connected(server, tasks.executor())) }
    }

    /// There is no connection, for this reason.
    pub(super) fn refused(refusal: Refusal) -> Self {
        Self { state: Mutex::new(PoolState::Refused(refusal)) }
    }

    /// A sender that is ready for a request.
    pub(super) async fn sender(
        &self,
        connection: &AdmittedConnection,
    ) -> Result<SendRequest<RelayedBody>, Refusal> {
        let mut state = self.state.lock().await;
        let executor = match &mut *state {
            PoolState::Refused(refusal) => return Err(refusal.clone()),
            PoolState::Open(sender, executor) => {
                if !sender.is_closed() && sender.ready().await.is_ok() {
                    return Ok(sender.clone());
                }
                executor.clone()
            }
            PoolState::Connected(_, executor) | PoolState::Closed(executor) => executor.clone(),
        };
        let stream = match std::mem::replace(&mut *state, PoolState::Closed(executor.clone())) {
            PoolState::Connected(stream, _) => stream,
            _ => dial(connection, HTTP_2).await?,
        };
        let sender = start_http2(connection, stream, &executor).await?;
        *state = PoolState::Open(sender.clone(), executor);
        Ok(sender)
    }
}

async fn start_http2(
    connection: &AdmittedConnection,
    stream: BoxStream,
    executor: &TaskExecutor,
) -> Result<SendRequest<RelayedBody>, Refusal> {
    let idle = connection.proxy.config.limits.idle;
    let mut builder = Builder::new(executor.clone());
    builder
        .timer(TokioTimer::new())
        .max_header_list_size(MAX_HEAD)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(idle)
        .keep_alive_timeout(idle);
    let failed = |reason: String| Refusal::upstream(format!("no HTTP/2 with the server: {reason}"));
    let (mut sender, serving) = tokio::time::timeout(idle, builder.handshake(TokioIo::new(stream)))
        .await
        .map_err(|_| failed("it did not respond in time".to_owned()))?
        .map_err(|error| failed(error.to_string()))?;
    executor.execute(async move {
        // The streams report how it ended.
        drop(serving.await);
    });
    sender.ready().await.map_err(|error| failed(error.to_string()))?;
    Ok(sender)
}
