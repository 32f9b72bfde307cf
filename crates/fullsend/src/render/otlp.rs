//! A run as OpenTelemetry spans in OTLP's JSON form, by the conventions for generative AI: one span for the run, one for each
//! step, attempt, model request and tool call. What was said and done is not in them: names, times, amounts and outcomes are.

use model::ModelEvent;
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

use super::console::step_name;
use crate::event::clock::Moment;
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

/// Where the run's span hangs: W3C's `traceparent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceParent {
    trace: String,
    span: String,
}

impl TraceParent {
    /// Reads `00-TRACE-SPAN-FLAGS`. Anything else is no parent, as the specification wants it.
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

/// One export request with all spans of a run. Without a parent, the trace is the run.
pub fn spans(events: &[Envelope], parent: Option<&TraceParent>, service: &str) -> Json {
    let record = record::fold(events);
    let mut builder = SpanBuilder::new(&record, parent);
    events.iter().for_each(|envelope| builder.add(envelope));
    let spans = builder.finish(&record, events);
    json!({ "resourceSpans": [{
        "resource": { "attributes": attributes([
            ("service.name", Value::Text(service)),
            ("service.version", Value::Text(&record.fullsend)),
        ]) },
        "scopeSpans": [{ "scope": { "name": "fullsend", "version": env!("CARGO_PKG_VERSION") }, "spans": spans }],
    }] })
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

struct SpanBuilder {
    trace: String,
    run: String,
    seed: String,
    open: Vec<OpenSpan>,
    done: Vec<Json>,
    parent: Option<String>,
}

impl SpanBuilder {
    fn new(record: &Record, parent: Option<&TraceParent>) -> Self {
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
                let about = attributes([("fullsend.turns", Value::Number(*turns))]);
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
                self.end(envelope, &SpanKey::Call(call.clone()), Some("denied"), Vec::new());
            }
            RunEvent::ToolFinished { call, is_error, bytes, .. } => {
                let about = attributes([("fullsend.tool.output_bytes", Value::Number(*bytes))]);
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
                    ("gen_ai.request.model", Value::Text(model)),
                    ("fullsend.wire", Value::Text(wire.name())),
                ]);
                self.begin(envelope, SpanKey::Exchange(*exchange), format!("chat {model}"), CLIENT, about);
            }
            ModelEvent::ModelAnswer { exchange, model, status, usage, cost, .. } => {
                let mut about = attributes([
                    ("gen_ai.response.model", Value::Text(model)),
                    ("gen_ai.usage.input_tokens", Value::Number(usage.input)),
                    ("gen_ai.usage.output_tokens", Value::Number(usage.output)),
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

/// The same run gives the same ids, so that a second export repeats spans and adds none.
fn span_id(seed: &str, number: u64) -> String {
    hex(&Sha256::digest(format!("{seed}/{number}"))[..8])
}

fn nanoseconds(time: &str) -> String {
    let millis = Moment::parse(time).map_or(0, Moment::millis);
    let fraction: u64 = time.get(20..23).and_then(|digits| digits.parse().ok()).unwrap_or(0);
    format!("{}000000", millis + fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(seq: u64, event: &Json) -> Envelope {
        let mut line = json!({ "v": 1, "seq": seq, "time": format!("2030-01-31T12:00:0{seq}.500Z"), "previous": "", "hash": "" });
        line.as_object_mut().unwrap().extend(event.as_object().unwrap().clone());
        serde_json::from_value(line).unwrap()
    }

    fn sample() -> Vec<Envelope> {
        let run_id = "01990000-0000-7000-8000-000000000001";
        let usage =
            json!({ "input": 7, "output": 2, "cache_read": 0, "cache_write": 0, "cache_write_hour": 0 });
        let request = json!({ "type": "model_request", "exchange": 1, "wire": "messages", "model": "m", "turn": 0, "tools": 0, "bytes": 1 });
        let answer = json!({ "type": "model_answer", "exchange": 1, "model": "m", "status": 200, "ending": "complete", "usage": usage, "cost": null, "duration_ms": 1 });
        [
            json!({ "type": "run_started", "run_id": run_id, "harness": "triage", "runtime": "native", "repository": "", "fullsend": "0" }),
            json!({ "type": "step_started", "step": "agent" }),
            json!({ "type": "agent_started", "iteration": 1 }),
            json!({ "type": "model", "event": request }),
            json!({ "type": "model", "event": answer }),
            json!({ "type": "tool_started", "iteration": 1, "call": "c", "tool": "Bash", "summary": "the secret command" }),
            json!({ "type": "tool_denied", "call": "c", "tool": "Bash", "reason": "the secret reason" }),
            json!({ "type": "agent_finished", "iteration": 1, "ending": "finished", "turns": 1 }),
        ]
        .into_iter()
        .zip(1..)
        .map(|(event, seq)| envelope(seq, &event))
        .collect()
    }

    #[test]
    fn spans_hang_below_each_other_and_have_no_content() {
        let exported = spans(&sample(), None, "fullsend");
        let text = exported.to_string();
        assert!(!text.contains("secret"), "{text}");
        let spans = exported["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
        let find = |name: &str| spans.iter().find(|span| span["name"] == name).unwrap();
        let below = |name: &str, parent: &str| {
            assert_eq!(find(name)["parentSpanId"], find(parent)["spanId"], "{name}");
        };
        assert_eq!(find("invoke_agent triage")["traceId"], "01990000000070008000000000000001");
        assert_eq!(find("invoke_agent triage")["parentSpanId"], "");
        below("step agent", "invoke_agent triage");
        below("attempt 1", "step agent");
        below("chat m", "attempt 1");
        below("execute_tool Bash", "attempt 1");
        assert_eq!(find("chat m")["startTimeUnixNano"], "1896091204500000000");
        assert_eq!(find("execute_tool Bash")["status"]["code"], ERROR);
        assert_eq!(find("chat m")["status"]["code"], OK);
        assert_eq!(spans.len(), 5, "{text}");
    }

    #[test]
    fn a_parent_of_the_caller_is_used_if_it_is_valid() {
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let exported = spans(&sample(), TraceParent::parse(parent).as_ref(), "ci");
        let root = &exported["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
        assert_eq!(
            (&root["traceId"], &root["parentSpanId"]),
            (&json!("4bf92f3577b34da6a3ce929d0e0e4736"), &json!("00f067aa0ba902b7"))
        );
        let zeros = "00-00000000000000000000000000000000-00f067aa0ba902b7-01";
        for wrong in [
            "",
            "00-1-2-3",
            zeros,
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(TraceParent::parse(wrong), None, "{wrong}");
        }
    }
}
