//! HTTP/2 on an inspected connection: every stream is decided by itself and held to the rules that HTTP/1.1 heads are held
//! to; what passes goes over one connection to the same server. Bodies are streamed and never kept.

mod answer;
mod bodies;
mod head;
mod tasks;
mod way;

use super::refusal::Refusal;
use super::requests::Site;
use super::upstream::BoxStream;
use crate::http1::MAX_HEAD_BYTES;
use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tasks::Tasks;
use tokio::sync::Notify;
use way::Way;

pub(super) const HTTP_2: &[u8] = b"h2";

/// At once on one connection; more wait in the client.
const MAX_STREAMS: u32 = 128;
/// Streams that the client gave up before their answer, beyond those that it waited for.
const MAX_GIVEN_UP: u64 = 200;
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
const MAX_HEAD: u32 = MAX_HEAD_BYTES as u32;

/// One connection of a client and the way out that its streams share.
struct Line {
    site: Site,
    way: Way,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    begun: AtomicU64,
    /// Begun and neither answered nor given up.
    open: AtomicU64,
    answered: AtomicU64,
    given_up: AtomicU64,
    flooded: Notify,
}

impl Counts {
    /// One stream less; `count` is the one of these that it adds to.
    fn end(&self, count: &AtomicU64) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        count.fetch_add(1, Ordering::Relaxed);
        let given_up = self.given_up.load(Ordering::Relaxed);
        if given_up > self.answered.load(Ordering::Relaxed).saturating_add(MAX_GIVEN_UP) {
            self.flooded.notify_one();
        }
    }
}

impl Site {
    /// What is said on every stream where there is no way out.
    pub(super) async fn explain_http2(self, client: BoxStream, refusal: Refusal) {
        self.serve_line(client, |_| Way::closed(refusal)).await;
    }

    /// Until the client ends, idles for too long, or breaks the rules of the protocol.
    pub(super) async fn serve_http2(self, client: BoxStream, server: BoxStream) {
        self.serve_line(client, |tasks| Way::new(server, tasks)).await;
    }

    async fn serve_line(self, client: BoxStream, way: impl FnOnce(&Tasks) -> Way) {
        let tasks = Tasks::default();
        let idle = self.proxy.limits.idle;
        let line = Arc::new(Line { site: self, way: way(&tasks), counts: Counts::default() });
        let asked = Arc::clone(&line);
        let service = service_fn(move |request| {
            let line = Arc::clone(&asked);
            async move { Ok::<_, Infallible>(line.answer(request).await) }
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
        let ended = tokio::select! {
            ended = serving => ended.err().and_then(|error| broken_rule(&error)),
            reason = line.watch() => reason,
        };
        if let Some(reason) = ended {
            line.site.attempt().refused(&Refusal::unreadable(reason));
        }
    }
}

impl Line {
    /// Comes back when the connection should end: with a reason, or quietly because nothing was asked for long.
    async fn watch(&self) -> Option<String> {
        let idle = self.site.proxy.limits.idle;
        let steps = 10;
        let (mut quiet, mut before) = (0, 0);
        loop {
            tokio::select! {
                () = tokio::time::sleep(idle / steps) => {}
                () = self.counts.flooded.notified() => {
                    return Some("the client resets its streams faster than they can be answered".to_owned());
                }
            }
            let begun = self.counts.begun.load(Ordering::Relaxed);
            let open = self.counts.open.load(Ordering::Relaxed);
            quiet = if begun == before && open == 0 { quiet + 1 } else { 0 };
            before = begun;
            if quiet >= steps {
                return None;
            }
        }
    }
}

/// `None` where the connection only went away.
fn broken_rule(error: &hyper::Error) -> Option<String> {
    let mut cause: &dyn Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
        if cause.is::<io::Error>() {
            return None;
        }
    }
    (!error.is_closed()).then(|| format!("HTTP/2: {cause}"))
}
