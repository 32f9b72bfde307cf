//! The status line of a running run: the step and its time, the agent's current tool, tokens, cost, refusals.

use std::time::{Duration, Instant};

use egress::event::{ConnectionDecision, EgressEvent};
use model::ModelEvent;

use super::console::step_name;
use super::diagnostics::clean_text;
use crate::event::{Envelope, RunEvent, Step};

/// What the status line shows.
#[derive(Debug, Default)]
pub struct StatusLine {
    step: Option<(Step, Instant)>,
    tool: String,
    tokens: u64,
    usd: f64,
    refusals: u64,
    /// Why the model is asked again, and when.
    retry: Option<(String, Instant)>,
}

impl StatusLine {
    pub fn on_event(&mut self, envelope: &Envelope, now: Instant) {
        match &envelope.event {
            RunEvent::StepStarted { step } => self.step = Some((*step, now)),
            RunEvent::StepFinished { .. } => {
                self.step = None;
                self.tool.clear();
            }
            RunEvent::ToolStarted { tool, summary, .. } => self.tool = format!("{tool} {summary}"),
            RunEvent::ToolFinished { .. } => self.tool.clear(),
            RunEvent::ToolDenied { .. } => self.refusals += 1,
            RunEvent::Egress { event: EgressEvent::Connection(connection) }
                if connection.decision == ConnectionDecision::Denied =>
            {
                self.refusals += 1;
            }
            RunEvent::Model { event: ModelEvent::ModelRetry { status, reason, wait_ms, .. } } => {
                let why = retry_reason(*status, reason);
                self.retry = Some((why, now + Duration::from_millis(*wait_ms)));
            }
            RunEvent::Model { event: ModelEvent::ModelAnswer { usage, cost, .. } } => {
                self.retry = None;
                self.tokens += usage.input + usage.output;
                self.usd += cost.unwrap_or_default().0 as f64 / 1e9;
            }
            _ => {}
        }
    }

    /// Empty between two steps; never wider than the terminal.
    pub fn status(&self, now: Instant, width: usize) -> String {
        let Some((step, started)) = self.step else { return String::new() };
        let time: Duration = now.saturating_duration_since(started);
        let mut text = format!("{} {}s", step_name(step), time.as_secs());
        if self.tokens > 0 {
            text.push_str(&format!(" · {} tokens", self.tokens));
        }
        if self.usd > 0.0 {
            text.push_str(&format!(" · ${:.2}", self.usd));
        }
        if self.refusals > 0 {
            text.push_str(&format!(" · {} refused", self.refusals));
        }
        if let Some((why, at)) = &self.retry {
            let seconds = at.saturating_duration_since(now).as_secs_f64().ceil();
            text.push_str(&format!(" · {why}, next try in {seconds} s"));
        }
        if !self.tool.is_empty() {
            text.push_str(&format!(" · {}", self.tool));
        }
        clean_text(&text).replace('\n', " ").chars().take(width.saturating_sub(1)).collect()
    }
}

fn retry_reason(status: Option<u16>, reason: &str) -> String {
    match status {
        Some(429) => "rate limited".to_owned(),
        Some(529 | 503) => "the model is overloaded".to_owned(),
        _ => reason.to_owned(),
    }
}

/// The line of a retry where there is no live line: for the first try and for every long wait.
pub fn retry_line(event: &RunEvent) -> Option<String> {
    let RunEvent::Model { event: ModelEvent::ModelRetry { attempt, status, reason, wait_ms, .. } } = event
    else {
        return None;
    };
    let seconds = wait_ms.div_ceil(1000);
    let is_shown = *attempt == 1 || seconds >= LONG_WAIT_SECONDS;
    let why = retry_reason(*status, reason);
    is_shown.then(|| format!("  model     {why}, next try in {seconds} s"))
}

/// Shorter waits follow each other too quickly for a log.
const LONG_WAIT_SECONDS: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(event: RunEvent) -> Envelope {
        Envelope { v: 1, seq: 1, time: String::new(), event, previous: String::new(), hash: String::new() }
    }

    #[test]
    fn the_line_says_what_happens_now_and_fits() {
        let mut live = StatusLine::default();
        let start = Instant::now();
        assert_eq!(live.status(start, 80), "");
        let mut on_event = |event| live.on_event(&envelope(event), start);
        on_event(RunEvent::StepStarted { step: Step::Agent });
        on_event(RunEvent::ToolStarted {
            iteration: 1,
            call: "1".to_owned(),
            tool: "Bash".to_owned(),
            summary: "make\n\u{1b}[31mtest".to_owned(),
        });
        on_event(RunEvent::Model {
            event: ModelEvent::ModelAnswer {
                exchange: 1,
                model: "m".to_owned(),
                status: 200,
                ending: model::AnswerEnding::Complete,
                usage: model::wire::TokenUsage { input: 10, output: 2, ..Default::default() },
                cost: Some(model::Money(1_230_000_000)),
                estimated: false,
                duration_ms: 1,
            },
        });
        let line = live.status(start + Duration::from_secs(3), 200);
        assert_eq!(line, "agent 3s · 12 tokens · $1.23 · Bash make \u{fffd}[31mtest");
        assert!(live.status(start, 20).chars().count() < 20);
        live.on_event(
            &envelope(RunEvent::StepFinished { step: Step::Agent, duration_ms: 1, ok: true }),
            start,
        );
        assert_eq!(live.status(start, 80), "");
    }
}
