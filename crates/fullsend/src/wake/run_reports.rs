//! What a run says of itself while it goes on, as a session keeps it: which run it is, the tools it is about to use and has
//! used, what it spent. It hears every event and keeps only what the log needs, bounded.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value as Json, json};

use crate::event::clock::Moment as Clock;
use crate::event::{Envelope, RunEvent, Violation};
use session::{CompletedSpan, Payload, SessionUsage, SpanId, SpanResult, StartedSpan, Timestamp, WakeId};

/// Tool calls that the log tells one by one. Beyond it they are in the run's own record only.
const MAX_CALLS: usize = 2_000;

/// What was heard so far.
#[derive(Debug)]
pub struct RunReports {
    wake: WakeId,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Not yet in the log.
    waiting: Vec<Payload>,
    open: HashMap<String, Open>,
    calls: usize,
    run_id: Option<String>,
    usage: SessionUsage,
    nanodollars: u64,
    fault: Option<u16>,
    violations: Vec<Violation>,
}

#[derive(Debug)]
struct Open {
    span: SpanId,
    tool: String,
    summary: String,
}

impl RunReports {
    #[must_use]
    pub fn new(wake: WakeId) -> Self {
        Self { wake, inner: Mutex::default() }
    }

    pub fn on_event(&self, envelope: &Envelope) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        match &envelope.event {
            RunEvent::RunStarted { run_id, .. } => {
                inner.run_id = Some(run_id.clone());
                inner.waiting.push(Payload::RunAttached { run_id: run_id.clone(), digest: None });
            }
            RunEvent::ToolStarted { call, tool, summary, .. } => inner.begin(self.wake, call, tool, summary),
            RunEvent::ToolFinished { call, is_error, bytes, .. } => inner.end(call, *is_error, *bytes),
            RunEvent::Model { event } => inner.model(event),
            RunEvent::OutputRejected { violations, .. } => inner.violations.clone_from(violations),
            _ => {}
        }
    }

    /// What is to be written now.
    pub fn take(&self) -> Vec<Payload> {
        std::mem::take(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner).waiting)
    }

    /// Puts back, before everything newer, what could not be written.
    pub fn put_back(&self, reports: Vec<Payload>) {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).waiting.splice(0..0, reports);
    }

    pub fn run_id(&self) -> Option<String> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).run_id.clone()
    }

    pub fn usage(&self) -> SessionUsage {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        SessionUsage { cost_microdollars: inner.nanodollars / 1_000, ..inner.usage }
    }

    /// What was wrong with the last output that was rejected.
    pub fn violations(&self) -> Vec<Violation> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).violations.clone()
    }

    /// The status of the model's last answer, if it was a fault.
    pub fn fault(&self) -> Option<u16> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).fault
    }
}

impl Inner {
    /// The intent, before the tool has done anything: after a crash the log says what may have happened.
    fn begin(&mut self, wake: WakeId, call: &str, tool: &str, summary: &str) {
        self.calls += 1;
        if self.calls > MAX_CALLS {
            return;
        }
        let now = i64::try_from(Clock::now().millis()).unwrap_or(0);
        let span = SpanId::generate(&mut super::seed(Timestamp(now)));
        let name = if summary.is_empty() { tool.to_owned() } else { format!("{tool}: {summary}") };
        let started = StartedSpan::Tool;
        self.waiting.push(Payload::SpanStarted {
            span_id: span,
            parent_id: Some(wake.into()),
            name,
            span: started,
        });
        self.open.insert(call.to_owned(), Open { span, tool: tool.to_owned(), summary: summary.to_owned() });
    }

    fn end(&mut self, call: &str, is_error: bool, bytes: u64) {
        let Some(Open { span, tool, summary }) = self.open.remove(call) else { return };
        let (input, output) = (json!({ "call": call, "summary": summary }), Some(json!({ "bytes": bytes })));
        self.waiting.push(Payload::AgentToolUse { tool, input, output, is_error, confirmation: None });
        let result = if is_error { SpanResult::Error } else { SpanResult::Success };
        self.waiting.push(Payload::SpanCompleted { span_id: span, result, span: CompletedSpan::Tool });
    }

    fn model(&mut self, event: &Json) {
        let status = event["status"].as_u64().and_then(|status| u16::try_from(status).ok());
        match event["type"].as_str() {
            Some("model_answer") => {
                let number = |key: &str| event["usage"][key].as_u64().unwrap_or(0);
                let cached = number("cache_read") + number("cache_write") + number("cache_write_hour");
                self.usage.turns += 1;
                self.usage.input_tokens += number("input") + cached;
                self.usage.output_tokens += number("output");
                self.nanodollars = self.nanodollars.saturating_add(event["cost"].as_u64().unwrap_or(0));
                let complete = event["ending"] == "complete";
                self.fault = if complete { None } else { status };
            }
            Some("model_refused") => self.fault = status,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(events: Vec<RunEvent>) -> RunReports {
        let notes = RunReports::new("018bcfe5-6800-7000-8000-00000000000a".parse().unwrap());
        for event in events {
            notes.on_event(&Envelope {
                v: 1,
                seq: 1,
                time: String::new(),
                event,
                previous: String::new(),
                hash: String::new(),
            });
        }
        notes
    }

    fn call(name: &str) -> [RunEvent; 2] {
        let (call, tool, summary) = (name.to_owned(), "Bash".to_owned(), "ls".to_owned());
        [
            RunEvent::ToolStarted { iteration: 1, call: call.clone(), tool, summary },
            RunEvent::ToolFinished { iteration: 1, call, is_error: false, bytes: 3 },
        ]
    }

    #[test]
    fn the_intent_comes_before_the_result() {
        let notes = heard(call("a").to_vec());
        let kinds: Vec<&str> = notes.take().iter().map(Payload::kind).collect();
        assert_eq!(kinds, ["span.started", "agent.tool_use", "span.completed"]);
        assert!(notes.take().is_empty());
    }

    #[test]
    fn a_flood_of_calls_is_bounded() {
        let notes = heard((0..3_000).flat_map(|number| call(&number.to_string())).collect());
        assert_eq!(notes.take().len(), 3 * MAX_CALLS);
    }

    #[test]
    fn a_fault_is_forgotten_when_an_answer_comes() {
        let answer = |status: u16, ending: &str| RunEvent::Model {
            event: json!({ "type": "model_answer", "status": status, "ending": ending, "usage": { "input": 5 } }),
        };
        assert_eq!(heard(vec![answer(529, "fault")]).fault(), Some(529));
        let notes = heard(vec![answer(529, "fault"), answer(200, "complete")]);
        assert_eq!((notes.fault(), notes.usage().input_tokens), (None, 10));
    }
}
