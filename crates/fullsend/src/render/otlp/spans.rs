//! The spans of a run, by the conventions for generative AI: one for the run, one for each step, attempt, model request and
//! tool call.

use model::ModelEvent;
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

use super::super::console::step_name;
use super::content::SpanContent;
use super::{OtlpOptions, Value, attributes, input_tokens, nanoseconds, provider};
use crate::event::log::hex;
use crate::event::outcome::OutcomeKind;
use crate::event::{Envelope, RunEvent, Step};
use crate::record::{self, Record};

/// The kinds of a span in OTLP.
const INTERNAL: u32 = 1;
const CLIENT: u32 = 3;

/// The statuses of a span in OTLP.
const OK: u32 = 1;
const ERROR: u32 = 2;

/// A span that has begun.
struct OpenSpan {
    key: SpanKey,
    id: String,
    parent: String,
    name: String,
    kind: u32,
    start: String,
    attributes: Vec<Json>,
    events: Vec<Json>,
}

#[derive(Clone, PartialEq, Eq)]
enum SpanKey {
    Step(Step),
    Attempt(u32),
    Exchange(u64),
    Call(String),
}

struct SpanBuilder<'a> {
    trace: String,
    run: String,
    seed: String,
    open: Vec<OpenSpan>,
    done: Vec<Json>,
    parent: Option<String>,
    content: &'a SpanContent,
}

/// All spans of a run; the run's own is the first. Without a parent, the trace is the run.
pub(super) fn spans(events: &[Envelope], options: &OtlpOptions, content: &SpanContent) -> Vec<Json> {
    let record = record::fold(events);
    let mut builder = SpanBuilder::new(&record, options, content);
    events.iter().for_each(|envelope| builder.add(envelope));
    builder.finish(&record, events)
}

impl<'a> SpanBuilder<'a> {
    fn new(record: &Record, options: &OtlpOptions, content: &'a SpanContent) -> Self {
        let parent = options.parent.as_ref();
        let seed = record.run_id.clone();
        let trace: String = seed.chars().filter(char::is_ascii_hexdigit).collect();
        let own = if trace.len() == 32 { trace } else { hex(&Sha256::digest(&seed)[..16]) };
        Self {
            trace: parent.map_or(own, |parent| parent.trace.clone()),
            run: span_id(&seed, 0),
            seed,
            open: Vec::new(),
            done: Vec::new(),
            parent: parent.map(|parent| parent.span.clone()),
            content,
        }
    }

    fn begin(&mut self, envelope: &Envelope, key: SpanKey, name: String, kind: u32, attributes: Vec<Json>) {
        let below = |span: &&OpenSpan| match key {
            SpanKey::Step(_) => false,
            SpanKey::Attempt(_) => matches!(span.key, SpanKey::Step(Step::Agent)),
            SpanKey::Exchange(_) | SpanKey::Call(_) => matches!(span.key, SpanKey::Attempt(_)),
        };
        let parent = self.open.iter().rev().find(below).map_or(&self.run, |span| &span.id).clone();
        let id = span_id(&self.seed, envelope.seq);
        let start = nanoseconds(&envelope.time);
        self.open.push(OpenSpan { key, id, parent, name, kind, start, attributes, events: Vec::new() });
    }

    fn end(&mut self, envelope: &Envelope, key: &SpanKey, failure: Option<&str>, more: Vec<Json>) {
        let Some(at) = self.open.iter().position(|span| span.key == *key) else { return };
        let mut span = self.open.remove(at);
        span.attributes.extend(more);
        let ended = self.written(span, &envelope.time, failure);
        self.done.push(ended);
    }

    fn written(&self, span: OpenSpan, end: &str, failure: Option<&str>) -> Json {
        let mut attributes_of_span = span.attributes;
        attributes_of_span
            .extend(failure.map(|kind| attributes([("error.type", Value::Text(kind))])).unwrap_or_default());
        json!({
            "traceId": self.trace, "spanId": span.id, "parentSpanId": span.parent, "name": span.name, "kind": span.kind,
            "startTimeUnixNano": span.start, "endTimeUnixNano": nanoseconds(end), "attributes": attributes_of_span,
            "events": span.events, "status": { "code": if failure.is_some() { ERROR } else { OK } },
        })
    }

    fn add(&mut self, envelope: &Envelope) {
        match &envelope.event {
            RunEvent::StepStarted { step } => {
                let name = format!("step {}", step_name(*step));
                self.begin(envelope, SpanKey::Step(*step), name, INTERNAL, Vec::new());
            }
            RunEvent::StepFinished { step, ok, .. } => {
                self.end(envelope, &SpanKey::Step(*step), (!ok).then_some("step_failed"), Vec::new());
            }
            RunEvent::AgentStarted { iteration } => {
                let about = attributes([("fullsend.attempt", Value::Number(u64::from(*iteration)))]);
                self.begin(
                    envelope,
                    SpanKey::Attempt(*iteration),
                    format!("attempt {iteration}"),
                    INTERNAL,
                    about,
                );
            }
            RunEvent::AgentFinished { iteration, turns, .. } => {
                let mut about = attributes([("fullsend.turns", Value::Number(*turns))]);
                about.extend(self.content.of_attempt(*iteration));
                self.end(envelope, &SpanKey::Attempt(*iteration), None, about);
            }
            RunEvent::ToolStarted { call, tool, .. } => {
                let about = attributes([
                    ("gen_ai.operation.name", Value::Text("execute_tool")),
                    ("gen_ai.tool.name", Value::Text(tool)),
                    ("gen_ai.tool.call.id", Value::Text(call)),
                ]);
                self.begin(
                    envelope,
                    SpanKey::Call(call.clone()),
                    format!("execute_tool {tool}"),
                    INTERNAL,
                    about,
                );
            }
            RunEvent::ToolDenied { call, .. } => {
                let about = self.content.of_call(call);
                self.end(envelope, &SpanKey::Call(call.clone()), Some("denied"), about);
            }
            RunEvent::ToolFinished { call, is_error, bytes, .. } => {
                let mut about = attributes([("fullsend.tool.output_bytes", Value::Number(*bytes))]);
                about.extend(self.content.of_call(call));
                self.end(envelope, &SpanKey::Call(call.clone()), is_error.then_some("tool_error"), about);
            }
            RunEvent::Model { event } => self.add_model(envelope, event),
            RunEvent::Finding(finding) => self.note(
                envelope,
                "fullsend.finding",
                &attributes([
                    ("fullsend.rule", Value::Text(&finding.rule)),
                    ("fullsend.severity", Value::Text(finding.severity.as_str())),
                    ("fullsend.action", Value::Text(finding.action.as_str())),
                ]),
            ),
            _ => {}
        }
    }

    fn add_model(&mut self, envelope: &Envelope, event: &ModelEvent) {
        match event {
            ModelEvent::ModelRequest { exchange, model, wire, .. } => {
                let about = attributes([
                    ("gen_ai.operation.name", Value::Text("chat")),
                    ("gen_ai.provider.name", Value::Text(provider(*wire))),
                    ("gen_ai.request.model", Value::Text(model)),
                    ("fullsend.wire", Value::Text(wire.name())),
                ]);
                self.begin(envelope, SpanKey::Exchange(*exchange), format!("chat {model}"), CLIENT, about);
            }
            ModelEvent::ModelAnswer { exchange, model, status, usage, cost, .. } => {
                let mut about = attributes([
                    ("gen_ai.response.model", Value::Text(model)),
                    ("gen_ai.usage.input_tokens", Value::Number(input_tokens(usage))),
                    ("gen_ai.usage.output_tokens", Value::Number(usage.output)),
                    ("gen_ai.usage.cache_read.input_tokens", Value::Number(usage.cache_read)),
                    ("http.response.status_code", Value::Number(u64::from(*status))),
                ]);
                about.extend(
                    cost.map(|cost| attributes([("fullsend.usd", Value::Real(cost.0 as f64 / 1e9))]))
                        .unwrap_or_default(),
                );
                let failed = (*status >= 400).then(|| status.to_string());
                self.end(envelope, &SpanKey::Exchange(*exchange), failed.as_deref(), about);
            }
            ModelEvent::ModelRefused { exchange, .. } => {
                self.end(envelope, &SpanKey::Exchange(*exchange), Some("refused"), Vec::new());
            }
            _ => {}
        }
    }

    /// An event of the span that began last.
    fn note(&mut self, envelope: &Envelope, name: &str, about: &[Json]) {
        if let Some(span) = self.open.last_mut() {
            span.events.push(
                json!({ "timeUnixNano": nanoseconds(&envelope.time), "name": name, "attributes": about }),
            );
        }
    }

    fn finish(mut self, record: &Record, events: &[Envelope]) -> Vec<Json> {
        let end = events.last().map(|envelope| envelope.time.clone()).unwrap_or_default();
        for span in std::mem::take(&mut self.open) {
            let unfinished = self.written(span, &end, Some("not_ended"));
            self.done.push(unfinished);
        }
        let outcome = record.outcome.map_or("running", OutcomeKind::as_str);
        let about = attributes([
            ("gen_ai.operation.name", Value::Text("invoke_agent")),
            ("gen_ai.agent.name", Value::Text(&record.harness)),
            ("gen_ai.agent.id", Value::Text(&record.run_id)),
            ("gen_ai.request.model", Value::Text(&record.model)),
            ("fullsend.runtime", Value::Text(&record.runtime)),
            ("fullsend.outcome", Value::Text(outcome)),
            ("vcs.ref.head.revision", Value::Text(&record.commit)),
            ("vcs.ref.head.name", Value::Text(&record.branch)),
        ]);
        let root = OpenSpan {
            key: SpanKey::Step(Step::Agent),
            id: self.run.clone(),
            parent: self.parent.clone().unwrap_or_default(),
            name: format!("invoke_agent {}", record.harness),
            kind: INTERNAL,
            start: nanoseconds(&record.started),
            attributes: about,
            events: Vec::new(),
        };
        let good = matches!(record.outcome, Some(OutcomeKind::Completed | OutcomeKind::Skipped));
        let root = self.written(root, &end, (!good).then_some(outcome));
        self.done.insert(0, root);
        self.done
    }
}

/// The same run has the same ids, so that a second export adds no new spans.
fn span_id(seed: &str, number: u64) -> String {
    hex(&Sha256::digest(format!("{seed}/{number}"))[..8])
}
