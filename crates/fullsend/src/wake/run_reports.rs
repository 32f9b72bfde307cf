//! What a session's log records about a run while it goes on: its id, the tools that it starts and finishes, its usage. It
//! receives every event of the run and keeps only what the log needs, within bounds.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use model::{AnswerEnding, ModelEvent};
use serde_json::json;

use crate::event::clock::Moment as Clock;
use crate::event::{Envelope, RunEvent};
use session::{CompletedSpan, Payload, SessionUsage, SpanId, SpanResult, StartedSpan, Timestamp, WakeId};

/// Tool calls that the log lists one by one. Later ones are only in the run's own record.
const MAX_CALLS: usize = 2_000;

/// The reports of one run so far.
#[derive(Debug)]
pub struct RunReports {
    wake: WakeId,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Not in the log yet.
    pending: Vec<Payload>,
    running: HashMap<String, RunningCall>,
    calls: usize,
    run_id: Option<String>,
    usage: SessionUsage,
    nanodollars: u64,
    model_fault: Option<u16>,
}

#[derive(Debug)]
struct RunningCall {
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
                inner.pending.push(Payload::RunAttached { run_id: run_id.clone(), digest: None });
            }
            RunEvent::ToolStarted { call, tool, summary, .. } => {
                inner.start_call(self.wake, call, tool, summary);
            }
            RunEvent::ToolFinished { call, is_error, bytes, .. } => {
                inner.finish_call(call, *is_error, *bytes);
            }
            RunEvent::Model { event } => inner.model(event),
            _ => {}
        }
    }

    /// Takes the reports that the log does not have yet.
    pub fn take(&self) -> Vec<Payload> {
        std::mem::take(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner).pending)
    }

    /// Puts reports back that could not be stored, before all newer ones.
    pub fn put_back(&self, reports: Vec<Payload>) {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).pending.splice(0..0, reports);
    }

    pub fn run_id(&self) -> Option<String> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).run_id.clone()
    }

    pub fn usage(&self) -> SessionUsage {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        SessionUsage { cost_microdollars: inner.nanodollars / 1_000, ..inner.usage }
    }

    /// The HTTP status of the model's last response, if it was an error.
    pub fn model_fault(&self) -> Option<u16> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).model_fault
    }
}

impl Inner {
    /// Reports the call before the tool does anything: after a crash the log shows what may have happened.
    fn start_call(&mut self, wake: WakeId, call: &str, tool: &str, summary: &str) {
        self.calls += 1;
        if self.calls > MAX_CALLS {
            return;
        }
        let now = i64::try_from(Clock::now().millis()).unwrap_or(0);
        let span = SpanId::generate(&mut super::time_seed(Timestamp(now)));
        let name = if summary.is_empty() { tool.to_owned() } else { format!("{tool}: {summary}") };
        let started = StartedSpan::Tool;
        self.pending.push(Payload::SpanStarted {
            span_id: span,
            parent_id: Some(wake.into()),
            name,
            span: started,
        });
        self.running.insert(
            call.to_owned(),
            RunningCall { span, tool: tool.to_owned(), summary: summary.to_owned() },
        );
    }

    fn finish_call(&mut self, call: &str, is_error: bool, bytes: u64) {
        let Some(RunningCall { span, tool, summary }) = self.running.remove(call) else { return };
        let input = json!({ "call": call, "summary": summary });
        let output = Some(json!({ "bytes": bytes }));
        self.pending.push(Payload::AgentToolUse { tool, input, output, is_error, confirmation: None });
        let result = if is_error { SpanResult::Error } else { SpanResult::Success };
        self.pending.push(Payload::SpanCompleted { span_id: span, result, span: CompletedSpan::Tool });
    }

    fn model(&mut self, event: &ModelEvent) {
        match event {
            ModelEvent::ModelAnswer { status, ending, usage, cost, .. } => {
                let cached = usage.cache_read + usage.cache_write + usage.cache_write_hour;
                self.usage.turns += 1;
                self.usage.input_tokens += usage.input + cached;
                self.usage.output_tokens += usage.output;
                self.nanodollars = self.nanodollars.saturating_add(cost.unwrap_or_default().0);
                self.model_fault = (*ending != AnswerEnding::Complete).then_some(*status);
            }
            ModelEvent::ModelRefused { status, .. } => self.model_fault = Some(*status),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reports_of(events: Vec<RunEvent>) -> RunReports {
        let reports = RunReports::new("018bcfe5-6800-7000-8000-00000000000a".parse().unwrap());
        for event in events {
            reports.on_event(&Envelope {
                v: 1,
                seq: 1,
                time: String::new(),
                event,
                previous: String::new(),
                hash: String::new(),
            });
        }
        reports
    }

    fn call(name: &str) -> [RunEvent; 2] {
        let call = name.to_owned();
        let tool = "Bash".to_owned();
        let summary = "ls".to_owned();
        [
            RunEvent::ToolStarted { iteration: 1, call: call.clone(), tool, summary },
            RunEvent::ToolFinished { iteration: 1, call, is_error: false, bytes: 3 },
        ]
    }

    #[test]
    fn a_call_is_reported_before_its_result() {
        let reports = reports_of(call("a").to_vec());
        let kinds: Vec<&str> = reports.take().iter().map(Payload::kind).collect();
        assert_eq!(kinds, ["span.started", "agent.tool_use", "span.completed"]);
        assert!(reports.take().is_empty());
    }

    #[test]
    fn a_flood_of_calls_is_bounded() {
        let reports = reports_of((0..3_000).flat_map(|number| call(&number.to_string())).collect());
        assert_eq!(reports.take().len(), 3 * MAX_CALLS);
    }

    #[test]
    fn a_complete_response_clears_the_fault() {
        let answer = |status, ending| RunEvent::Model {
            event: ModelEvent::ModelAnswer {
                exchange: 1,
                model: "m".to_owned(),
                status,
                ending,
                usage: model::wire::TokenUsage { input: 5, ..Default::default() },
                cost: None,
                estimated: false,
                duration_ms: 1,
            },
        };
        assert_eq!(reports_of(vec![answer(529, AnswerEnding::Fault)]).model_fault(), Some(529));
        let reports = reports_of(vec![answer(529, AnswerEnding::Fault), answer(200, AnswerEnding::Complete)]);
        assert_eq!((reports.model_fault(), reports.usage().input_tokens), (None, 10));
    }
}
