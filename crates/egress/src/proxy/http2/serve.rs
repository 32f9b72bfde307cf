//! Serves the HTTP/2 connection of one client until it ends, is idle for too long, or breaks the rules of the protocol.

use super::super::admission::AdmittedConnection;
use super::super::refusal::Refusal;
use super::super::stream::BoxStream;
use super::connection::{Http2Connection, StreamCounts};
use super::pool::{CONNECTION_WINDOW, Http2Pool, MAX_HEAD, STREAM_WINDOW};
use super::stream::respond;
use super::tasks::ConnectionTasks;
use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Open at the same time on one connection; further streams wait in the client.
const MAX_STREAMS: u32 = 128;
/// Checks for an idle connection in one idle time.
const IDLE_CHECKS: u32 = 10;

pub(in super::super) async fn serve(connection: AdmittedConnection, client: BoxStream, server: BoxStream) {
    let tasks = ConnectionTasks::default();
    let pool = Http2Pool::new(server, &tasks);
    serve_streams(connection, client, pool, &tasks).await;
}

/// Refuses every stream, because there is no server to send them to.
pub(in super::super) async fn refuse_all(
    connection: AdmittedConnection,
    client: BoxStream,
    refusal: Refusal,
) {
    serve_streams(connection, client, Http2Pool::refused(refusal), &ConnectionTasks::default()).await;
}

async fn serve_streams(
    connection: AdmittedConnection,
    client: BoxStream,
    pool: Http2Pool,
    tasks: &ConnectionTasks,
) {
    let idle = connection.proxy.config.limits.idle;
    let shared = Arc::new(Http2Connection { connection, pool, streams: StreamCounts::default() });
    let of_service = Arc::clone(&shared);
    let service = service_fn(move |request| {
        let shared = Arc::clone(&of_service);
        async move { Ok::<_, Infallible>(respond(&shared, request).await) }
    });
    let mut builder = Builder::new(tasks.executor());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEAD)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .auto_date_header(false)
        .keep_alive_interval(idle)
        .keep_alive_timeout(idle);
    let serving = builder.serve_connection(TokioIo::new(client), service);
    let broken = tokio::select! {
        ended = serving => ended.err().and_then(|error| protocol_error(&error)),
        reason = wait_for_end(&shared) => reason,
    };
    if let Some(reason) = broken {
        shared.connection.new_record().refused(&Refusal::unreadable(reason));
    }
}

/// Returns when the connection should end: with a reason, or without one because it was idle for too long.
async fn wait_for_end(shared: &Http2Connection) -> Option<String> {
    let idle = shared.connection.proxy.config.limits.idle;
    let mut quiet_checks = 0;
    let mut started_before = 0;
    loop {
        tokio::select! {
            () = tokio::time::sleep(idle / IDLE_CHECKS) => {}
            () = shared.streams.flooded.notified() => {
                return Some("the client resets its streams faster than they can be answered".to_owned());
            }
        }
        let started = shared.streams.started.load(Ordering::Relaxed);
        let open = shared.streams.open.load(Ordering::Relaxed);
        quiet_checks = if started == started_before && open == 0 { quiet_checks + 1 } else { 0 };
        started_before = started;
        if quiet_checks >= IDLE_CHECKS {
            return None;
        }
    }
}

/// `None` where the connection only closed.
fn protocol_error(error: &hyper::Error) -> Option<String> {
    let mut cause: &dyn Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
        if cause.is::<io::Error>() {
            return None;
        }
    }
    (!error.is_closed()).then(|| format!("HTTP/2: {cause}"))
}
