//! Counters for Prometheus, in its text format.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hyper::{Response, StatusCode};

use super::Server;
use super::answer::{self, AnswerBody};
use super::problem::Problem;
use super::runs::RunSummary;
use crate::record::store;

/// How many runs one answer counts, newest first.
const MAX_COUNTED: usize = 2000;

/// What the server counts about itself.
#[derive(Default)]
pub(super) struct Metrics {
    pub(super) connections: AtomicU64,
    pub(super) streams: AtomicU64,
    done: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
}

impl Metrics {
    /// The counter of requests that were answered so.
    pub(super) fn count(&self, status: StatusCode) -> &AtomicU64 {
        match status {
            status if status.is_server_error() => &self.failed,
            status if status.is_client_error() => &self.refused,
            _ => &self.done,
        }
    }
}

/// Counts one more while it lives.
pub(super) struct ConnectionGauge {
    metrics: Arc<Metrics>,
    gauge: fn(&Metrics) -> &AtomicU64,
}

impl ConnectionGauge {
    pub(super) fn new(metrics: &Arc<Metrics>, gauge: fn(&Metrics) -> &AtomicU64) -> Self {
        gauge(metrics).fetch_add(1, Ordering::Relaxed);
        Self { metrics: Arc::clone(metrics), gauge }
    }
}

impl Drop for ConnectionGauge {
    fn drop(&mut self) {
        (self.gauge)(&self.metrics).fetch_sub(1, Ordering::Relaxed);
    }
}

/// The runs that are kept, by outcome.
#[derive(Default)]
struct RunCounts {
    by_outcome: BTreeMap<&'static str, u64>,
    usd: f64,
}

pub(super) async fn answer(server: &Arc<Server>) -> Result<Response<AnswerBody>, Problem> {
    let counts = server.blocking(|server| {
        let mut counts = RunCounts::default();
        for run in store::all(&server.runs).iter().rev().take(MAX_COUNTED) {
            let summary = RunSummary::load(run);
            *counts.by_outcome.entry(summary.outcome_word()).or_default() += 1;
            counts.usd += summary.usd.unwrap_or(0.0);
        }
        Ok(counts)
    });
    Ok(answer::metrics(text(&server.metrics, &counts.await?)))
}

fn text(metrics: &Metrics, runs: &RunCounts) -> String {
    let mut text = String::new();
    let mut family = |name: &str, kind: &str, help: &str, values: &[(String, String)]| {
        let lines: String =
            values.iter().map(|(labels, value)| format!("{name}{labels} {value}\n")).collect();
        text.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n{lines}"));
    };
    let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed).to_string();
    let label = |name: &str, value: &str| format!("{{{name}=\"{value}\"}}");
    family(
        "fullsend_serve_requests_total",
        "counter",
        "Requests, by how they were answered.",
        &[
            (label("result", "done"), value(&metrics.done)),
            (label("result", "refused"), value(&metrics.refused)),
            (label("result", "failed"), value(&metrics.failed)),
        ],
    );
    let plain = |value: String| [(String::new(), value)];
    family("fullsend_serve_connections", "gauge", "Open connections.", &plain(value(&metrics.connections)));
    family("fullsend_serve_streams", "gauge", "Open event streams.", &plain(value(&metrics.streams)));
    let by_outcome: Vec<(String, String)> =
        runs.by_outcome.iter().map(|(word, count)| (label("outcome", word), count.to_string())).collect();
    family("fullsend_runs", "gauge", "Runs that are kept, by outcome.", &by_outcome);
    family(
        "fullsend_runs_usd",
        "gauge",
        "What the kept runs cost, in dollars.",
        &plain(runs.usd.to_string()),
    );
    text
}
