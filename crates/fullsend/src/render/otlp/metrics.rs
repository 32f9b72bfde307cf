//! The metrics of a run: tokens and time of each model request, as the conventions for generative AI define them, and the run's
//! own cost, time and outcome.

use std::collections::BTreeMap;

use model::ModelEvent;
use model::wire::Wire;
use serde_json::{Value as Json, json};

use super::{OtlpOptions, Temporality, Value, attributes, input_tokens, nanoseconds, provider};
use crate::event::outcome::OutcomeKind;
use crate::event::{Envelope, RunEvent};
use crate::record::Record;

/// The bounds of the conventions: tokens by powers of four, seconds by powers of two.
const TOKENS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];
const SECONDS: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

/// The key of one series of a model's metrics.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Series {
    requested: String,
    answered: String,
    provider: &'static str,
    token_type: &'static str,
    error: String,
}

/// How often a value fell between two bounds.
struct Histogram {
    bounds: &'static [f64],
    counts: Vec<u64>,
    sum: f64,
    least: f64,
    most: f64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0, least: f64::INFINITY, most: 0.0 }
    }

    fn add(&mut self, value: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket] += 1;
        self.sum += value;
        self.least = self.least.min(value);
        self.most = self.most.max(value);
    }
}

/// The time range of the numbers, and their temporality.
struct Interval {
    start: String,
    end: String,
    temporality: u32,
}

impl Interval {
    fn point(&self, attributes: &[Json], rest: Json) -> Json {
        let mut point = json!({
            "attributes": attributes, "startTimeUnixNano": self.start, "timeUnixNano": self.end,
        });
        if let (Some(point), Json::Object(rest)) = (point.as_object_mut(), rest) {
            point.extend(rest);
        }
        point
    }

    fn histogram(&self, name: &str, unit: &str, series: &BTreeMap<Series, Histogram>) -> Option<Json> {
        let points: Vec<Json> = series
            .iter()
            .map(|(series, values)| {
                self.point(
                    &series.attributes(),
                    json!({
                        // OTLP's JSON writes 64-bit numbers as texts.
                        "count": values.counts.iter().sum::<u64>().to_string(),
                        "sum": values.sum, "min": values.least, "max": values.most,
                        "bucketCounts": values.counts.iter().map(u64::to_string).collect::<Vec<_>>(),
                        "explicitBounds": values.bounds,
                    }),
                )
            })
            .collect();
        (!points.is_empty()).then(|| {
            json!({
                "name": name, "unit": unit,
                "histogram": { "dataPoints": points, "aggregationTemporality": self.temporality },
            })
        })
    }

    fn sum(&self, name: &str, unit: &str, points: &[Json]) -> Json {
        json!({ "name": name, "unit": unit, "sum": {
            "dataPoints": points, "aggregationTemporality": self.temporality, "isMonotonic": true,
        } })
    }
}

impl Series {
    fn attributes(&self) -> Vec<Json> {
        attributes([
            ("gen_ai.operation.name", Value::Text("chat")),
            ("gen_ai.provider.name", Value::Text(self.provider)),
            ("gen_ai.request.model", Value::Text(&self.requested)),
            ("gen_ai.response.model", Value::Text(&self.answered)),
            ("gen_ai.token.type", Value::Text(self.token_type)),
            ("error.type", Value::Text(&self.error)),
        ])
    }
}

pub(super) fn metrics(events: &[Envelope], record: &Record, options: &OtlpOptions) -> Vec<Json> {
    let interval = Interval {
        start: nanoseconds(&record.started),
        end: nanoseconds(events.last().map_or("", |last| &last.time)),
        temporality: match options.temporality {
            Temporality::Delta => 1,
            Temporality::Cumulative => 2,
        },
    };
    let requests = ModelRequests::fold(events);
    let mut metrics = Vec::new();
    metrics.extend(interval.histogram("gen_ai.client.token.usage", "{token}", &requests.tokens));
    metrics.extend(interval.histogram("gen_ai.client.operation.duration", "s", &requests.seconds));
    let harness = || ("gen_ai.agent.name", Value::Text(&record.harness));
    let outcome = record.outcome.map_or("running", OutcomeKind::as_str);
    let about_run = attributes([harness(), ("fullsend.outcome", Value::Text(outcome))]);
    let seconds = record.duration_ms().unwrap_or(0) as f64 / 1e3;
    let ran = interval.point(&about_run, json!({ "asInt": "1" }));
    metrics.push(interval.sum("fullsend.runs", "{run}", &[ran]));
    let took = interval.point(&about_run, json!({ "asDouble": seconds }));
    metrics.push(interval.sum("fullsend.run.time", "s", &[took]));
    let costs: Vec<Json> = record
        .usage
        .iter()
        .filter_map(|(model, usage)| {
            let about = attributes([harness(), ("gen_ai.response.model", Value::Text(model))]);
            Some(interval.point(&about, json!({ "asDouble": usage.usd? })))
        })
        .collect();
    if !costs.is_empty() {
        metrics.push(interval.sum("fullsend.run.cost", "{USD}", &costs));
    }
    metrics
}

/// The requests to the models.
#[derive(Default)]
struct ModelRequests {
    open: BTreeMap<u64, (Wire, String)>,
    tokens: BTreeMap<Series, Histogram>,
    seconds: BTreeMap<Series, Histogram>,
}

impl ModelRequests {
    fn fold(events: &[Envelope]) -> Self {
        let mut requests = Self::default();
        for envelope in events {
            if let RunEvent::Model { event } = &envelope.event {
                requests.add(event);
            }
        }
        requests
    }

    fn add(&mut self, event: &ModelEvent) {
        match event {
            ModelEvent::ModelRequest { exchange, wire, model, .. } => {
                self.open.insert(*exchange, (*wire, model.clone()));
            }
            ModelEvent::ModelAnswer { exchange, model, status, usage, duration_ms, .. } => {
                let Some((wire, requested)) = self.open.remove(exchange) else { return };
                let error = if *status >= 400 { status.to_string() } else { String::new() };
                let series = |token_type| Series {
                    requested: requested.clone(),
                    answered: model.clone(),
                    provider: provider(wire),
                    token_type,
                    error: if token_type.is_empty() { error.clone() } else { String::new() },
                };
                for (kind, count) in [("input", input_tokens(usage)), ("output", usage.output)] {
                    if count > 0 {
                        let counted = self.tokens.entry(series(kind));
                        counted.or_insert_with(|| Histogram::new(&TOKENS)).add(count as f64);
                    }
                }
                let timed = self.seconds.entry(series(""));
                timed.or_insert_with(|| Histogram::new(&SECONDS)).add(*duration_ms as f64 / 1e3);
            }
            _ => {}
        }
    }
}
