//! What a session's log records about a run while it goes on: its id, the tools that it starts and finishes, its usage. It
//! receives every event of the run and keeps only what the log needs, within bounds.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use model::{AnswerEnding, ModelEvent};
use serde_json::json;

use crate::event::clock::Moment as Clock;
use crate::event::{Envelope, RunEvent};
use session::{
    CompletedSpan, EventId, Payload, RunReport, SessionUsage, SpanId, SpanResult, StartedSpan, TimeSeed,
    Timestamp, WakeId,
};

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
    /// Reports that may not be in the log yet. Each has its id from the start, so that retries store it once.
    pending: Vec<RunReport>,
    /// How many of the pending reports are being stored.
    in_flight: usize,
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
                inner.push(Payload::RunAttached { run_id: run_id.clone(), digest: None });
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

    /// The reports that the log may not have yet. They stay pending until `finish`.
    pub fn begin(&self) -> Vec<RunReport> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.in_flight = inner.pending.len();
        inner.pending.clone()
    }

    /// These reports are stored.
    pub fn finish(&self, stored: &[RunReport]) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.pending.retain(|report| !stored.iter().any(|known| known.id == report.id));
        inner.in_flight = 0;
    }

    pub fn run_id(&self) -> Option<String> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).run_id.clone()
    }

    pub fn usage(&self) -> SessionUsage {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).usage()
    }

    /// The HTTP status of the model's last response, if it was an error.
    pub fn model_fault(&self) -> Option<u16> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).model_fault
    }
}

impl Inner {
    fn push(&mut self, payload: Payload) {
        self.pending.push(RunReport { id: EventId::generate(&mut seed()), payload });
    }

    fn usage(&self) -> SessionUsage {
        SessionUsage { cost_microdollars: self.nanodollars / 1_000, ..self.usage }
    }

    /// Reports the usage so far, in case this worker is lost. It replaces an earlier report that is not being stored
    /// yet.
    fn report_usage(&mut self) {
        let is_usage = |report: &RunReport| matches!(report.payload, Payload::RunUsage { .. });
        let in_flight = self.in_flight.min(self.pending.len());
        let waiting = self.pending.split_off(in_flight);
        self.pending.extend(waiting.into_iter().filter(|report| !is_usage(report)));
        self.push(Payload::RunUsage { usage: self.usage() });
    }

    /// Reports the call before the tool does anything: after a crash the log shows what may have happened.
    fn start_call(&mut self, wake: WakeId, call: &str, tool: &str, summary: &str) {
        self.calls += 1;
        if self.calls > MAX_CALLS {
            return;
        }
        let span = SpanId::generate(&mut seed());
        let name = if summary.is_empty() { tool.to_owned() } else { format!("{tool}: {summary}") };
        let started = StartedSpan::Tool;
        self.push(Payload::SpanStarted { span_id: span, parent_id: Some(wake.into()), name, span: started });
        self.running.insert(
            call.to_owned(),
            RunningCall { span, tool: tool.to_owned(), summary: summary.to_owned() },
        );
    }

    fn finish_call(&mut self, call: &str, is_error: bool, bytes: u64) {
        let Some(RunningCall { span, tool, summary }) = self.running.remove(call) else { return };
        let input = json!({ "call": call, "summary": summary });
        let output = Some(json!({ "bytes": bytes }));
        self.push(Payload::AgentToolUse { tool, input, output, is_error, confirmation: None });
        let result = if is_error { SpanResult::Error } else { SpanResult::Success };
        self.push(Payload::SpanCompleted { span_id: span, result, span: CompletedSpan::Tool });
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
                self.report_usage();
            }
            ModelEvent::ModelRefused { status, .. } => self.model_fault = Some(*status),
            _ => {}
        }
    }
}

fn seed() -> TimeSeed {
    super::time_seed(Timestamp(i64::try_from(Clock::now().millis()).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reports_of(events: Vec<RunEvent>) -> RunReports {
        let reports = RunReports::new("018bcfe5-6800-7000-8000-00000000000a".parse().unwrap());
        for event in events {
            reports.on_event(&envelope(event));
        }
        reports
    }

    fn envelope(event: RunEvent) -> Envelope {
        let text = String::new;
        Envelope { v: 1, seq: 1, time: text(), event, previous: text(), hash: text() }
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
        let first = reports.begin();
        let kinds: Vec<&str> = first.iter().map(|report| report.payload.kind()).collect();
        assert_eq!(kinds, ["span.started", "agent.tool_use", "span.completed"]);
        assert_eq!(
            reports.begin(),
            first,
            "what is not stored for certain is tried again, with the same ids"
        );
        reports.finish(&first);
        assert!(reports.begin().is_empty());
    }

    #[test]
    fn a_flood_of_calls_is_bounded() {
        let reports = reports_of((0..3_000).flat_map(|number| call(&number.to_string())).collect());
        assert_eq!(reports.begin().len(), 3 * MAX_CALLS);
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
        let usage = |report: &RunReport| match report.payload {
            Payload::RunUsage { usage } => usage.turns,
            _ => 0,
        };
        assert_eq!(
            reports.begin().iter().map(usage).collect::<Vec<_>>(),
            [2],
            "the newest replaces the others"
        );
        let more = answer(200, AnswerEnding::Complete);
        reports.on_event(&envelope(more));
        assert_eq!(reports.begin().iter().map(usage).collect::<Vec<_>>(), [2, 3], "but not one on its way");
    }
}
