//! Counters for Prometheus, in its text format.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hyper::{Response, StatusCode};

use super::Server;
use super::answer::{self, AnswerBody};
use super::outgoing::WebhookCounts;
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
    /// The counter of requests with this status.
    pub(super) fn count(&self, status: StatusCode) -> &AtomicU64 {
        match status {
            status if status.is_server_error() => &self.failed,
            status if status.is_client_error() => &self.refused,
            _ => &self.done,
        }
    }
}

/// Counts one more while this value exists.
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

/// Counts that are computed for each request: the runs that are kept, and the deliveries of webhooks.
#[derive(Default)]
struct StoredCounts {
    by_outcome: BTreeMap<&'static str, u64>,
    usd: f64,
    webhooks: Vec<WebhookCounts>,
    /// The webhook, how attempts ended, and how many.
    attempts: Vec<(String, &'static str, u64)>,
    /// Sessions that wait for a worker; absent where the store does not answer.
    sessions_due: Option<u64>,
}

pub(super) async fn answer(server: &Arc<Server>) -> Result<Response<AnswerBody>, Problem> {
    let counts = server.blocking(|server| {
        let mut counts = StoredCounts::default();
        for run in store::all(&server.runs).iter().rev().take(MAX_COUNTED) {
            let summary = RunSummary::load(run);
            *counts.by_outcome.entry(summary.outcome_word()).or_default() += 1;
            counts.usd += summary.usd.unwrap_or(0.0);
        }
        if let Some(outgoing) = &server.outgoing {
            counts.webhooks = outgoing.counts().unwrap_or_default();
            counts.attempts = outgoing.attempts();
        }
        Ok(counts)
    });
    let mut counts = counts.await?;
    counts.sessions_due = server.with_sessions(None, |sessions, _| Ok(sessions.count_due()?)).await.ok();
    Ok(answer::metrics(text(&server.metrics, &counts)))
}

fn text(metrics: &Metrics, stored: &StoredCounts) -> String {
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
        stored.by_outcome.iter().map(|(word, count)| (label("outcome", word), count.to_string())).collect();
    family("fullsend_runs", "gauge", "Runs that are kept, by outcome.", &by_outcome);
    family(
        "fullsend_runs_usd",
        "gauge",
        "What the kept runs cost, in dollars.",
        &plain(stored.usd.to_string()),
    );
    let due: Vec<(String, String)> =
        stored.sessions_due.iter().map(|count| (String::new(), count.to_string())).collect();
    family("fullsend_sessions_due", "gauge", "Sessions that are due and wait for a worker.", &due);
    let two =
        |webhook: &str, name: &str, value: &str| format!("{{webhook=\"{webhook}\",{name}=\"{value}\"}}");
    let attempts: Vec<(String, String)> = stored
        .attempts
        .iter()
        .map(|(webhook, result, count)| (two(webhook, "result", result), count.to_string()))
        .collect();
    family(
        "fullsend_webhook_attempts_total",
        "counter",
        "Attempts to deliver outgoing webhooks, by result.",
        &attempts,
    );
    let waiting =
        |count: &WebhookCounts| (two(&count.webhook, "state", "waiting"), count.waiting.to_string());
    let dead = |count: &WebhookCounts| (two(&count.webhook, "state", "dead"), count.dead.to_string());
    let deliveries: Vec<(String, String)> =
        stored.webhooks.iter().flat_map(|count| [waiting(count), dead(count)]).collect();
    family(
        "fullsend_webhook_deliveries",
        "gauge",
        "Deliveries of outgoing webhooks that wait or were given up.",
        &deliveries,
    );
    text
}
