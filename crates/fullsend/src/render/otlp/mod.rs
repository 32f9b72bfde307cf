//! A run for OpenTelemetry, in OTLP's JSON form: spans and metrics by the conventions for generative AI. They hold
//! names, times, amounts and outcomes. Messages and tool data are in them only if the options ask for it.

mod content;
mod metrics;
mod spans;
#[cfg(test)]
mod tests;

use model::wire::{TokenUsage, Wire};
use serde_json::{Value as Json, json};

use crate::event::Envelope;
use crate::event::clock::Moment;
use crate::record::conversation::ConversationRecord;
use crate::record::{self, Record};
use content::SpanContent;

/// The name under which a program reports where its environment sets none.
const SERVICE: &str = "fullsend";

/// Options of the export, from the variables of OpenTelemetry.
#[derive(Clone, Debug, Default)]
pub struct OtlpOptions {
    /// Attributes of the program that reports; `service.name` among them replaces ours.
    pub resource: Vec<(String, String)>,
    /// The parent of the run's span.
    pub parent: Option<TraceParent>,
    /// Whether spans hold messages, and the input and output of tools.
    pub captures_content: bool,
    pub temporality: Temporality,
}

/// The temporality of metrics. A run is reported once, so both have the same numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Temporality {
    #[default]
    Cumulative,
    Delta,
}

/// W3C's `traceparent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceParent {
    trace: String,
    span: String,
}

impl TraceParent {
    /// Reads `00-TRACE-SPAN-FLAGS`. Any other text is ignored, as the specification requires.
    pub fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.trim().split('-').collect();
        let [version, trace, span, _flags] = parts[..] else { return None };
        let is_id = |id: &str, length: usize| {
            id.len() == length
                && id.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
                && id.bytes().any(|byte| byte != b'0')
        };
        let known = version == "00" && is_id(trace, 32) && is_id(span, 16);
        known.then(|| Self { trace: trace.to_owned(), span: span.to_owned() })
    }
}

/// How much one export request holds at most.
#[derive(Clone, Copy, Debug)]
pub struct BatchLimit {
    pub spans: usize,
    pub bytes: usize,
}

impl BatchLimit {
    /// Everything in one request.
    pub const NONE: Self = Self { spans: usize::MAX, bytes: usize::MAX };

    /// A span that is larger than the limit gets its own request.
    fn split(self, spans: Vec<Json>) -> Vec<Vec<Json>> {
        let mut batches: Vec<Vec<Json>> = Vec::new();
        let mut bytes = 0;
        for span in spans {
            let size = span.to_string().len();
            match batches.last_mut() {
                Some(batch) if batch.len() < self.spans && bytes + size <= self.bytes => {
                    bytes += size;
                    batch.push(span);
                }
                _ => {
                    bytes = size;
                    batches.push(vec![span]);
                }
            }
        }
        batches
    }
}

/// Export requests with all spans of a run.
pub fn traces(
    events: &[Envelope],
    conversations: &[ConversationRecord],
    options: &OtlpOptions,
    limit: BatchLimit,
) -> Vec<Json> {
    let content =
        if options.captures_content { SpanContent::new(conversations) } else { SpanContent::default() };
    let record = record::fold(events);
    let resource = resource(&record, options);
    let request = |spans: Vec<Json>| {
        json!({ "resourceSpans": [{
            "resource": resource, "scopeSpans": [{ "scope": scope(), "spans": spans }],
        }] })
    };
    limit.split(spans::spans(events, options, &content)).into_iter().map(request).collect()
}

/// One export request with the metrics of a run.
pub fn metrics(events: &[Envelope], options: &OtlpOptions) -> Json {
    let record = record::fold(events);
    json!({ "resourceMetrics": [{
        "resource": resource(&record, options),
        "scopeMetrics": [{ "scope": scope(), "metrics": metrics::metrics(events, &record, options) }],
    }] })
}

fn scope() -> Json {
    json!({ "name": SERVICE, "version": env!("CARGO_PKG_VERSION") })
}

fn resource(record: &Record, options: &OtlpOptions) -> Json {
    let own = [
        ("service.name", SERVICE),
        ("service.version", record.fullsend.as_str()),
        // Each run counts for itself: its numbers are never added to those of another.
        ("service.instance.id", record.run_id.as_str()),
    ];
    let set = |key: &str| options.resource.iter().any(|(name, _)| name == key);
    let own = own.into_iter().filter(|(key, _)| !set(key));
    let given = options.resource.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    json!({ "attributes": attributes(own.chain(given).map(|(key, value)| (key, Value::Text(value)))) })
}

enum Value<'a> {
    Text(&'a str),
    Number(u64),
    Real(f64),
}

/// Empty texts are left out.
fn attributes<'a>(pairs: impl IntoIterator<Item = (&'a str, Value<'a>)>) -> Vec<Json> {
    let pair = |(key, value): (&str, Value<'_>)| {
        let value = match value {
            Value::Text("") => return None,
            Value::Text(text) => json!({ "stringValue": text }),
            // OTLP's JSON writes 64-bit numbers as texts.
            Value::Number(number) => json!({ "intValue": number.to_string() }),
            Value::Real(number) => json!({ "doubleValue": number }),
        };
        Some(json!({ "key": key, "value": value }))
    };
    pairs.into_iter().filter_map(pair).collect()
}

/// The conventions name the vendor whose format is spoken.
fn provider(wire: Wire) -> &'static str {
    match wire {
        Wire::Messages => "anthropic",
        Wire::Responses | Wire::Chat => "openai",
    }
}

/// Cached tokens included, as the conventions require.
fn input_tokens(usage: &TokenUsage) -> u64 {
    usage.total().saturating_sub(usage.output)
}

fn nanoseconds(time: &str) -> String {
    let millis = Moment::parse(time).map_or(0, Moment::millis);
    let fraction: u64 = time.get(20..23).and_then(|digits| digits.parse().ok()).unwrap_or(0);
    format!("{}000000", millis + fraction)
}
