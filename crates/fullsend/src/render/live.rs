//! The one line at the bottom of a terminal that says what a run does now: the step and its time, the agent's current
//! tool, tokens, cost, refusals.

use std::time::{Duration, Instant};

use super::console::step_name;
use super::diagnostics::clean_text;
use crate::event::{Envelope, RunEvent, Step};

/// What the line is made of.
#[derive(Debug, Default)]
pub struct Live {
    step: Option<(Step, Instant)>,
    tool: String,
    tokens: u64,
    usd: f64,
    refusals: u64,
}

impl Live {
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
            RunEvent::Egress { event } if event["decision"] == "denied" => self.refusals += 1,
            RunEvent::Model { event } if event["type"] == "model_answer" => {
                let used = |key: &str| event["usage"][key].as_u64().unwrap_or(0);
                self.tokens += used("input") + used("output");
                self.usd += event["cost"].as_u64().unwrap_or(0) as f64 / 1e9;
            }
            _ => {}
        }
    }

    /// Nothing between two steps; never wider than the terminal.
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
        if !self.tool.is_empty() {
            text.push_str(&format!(" · {}", self.tool));
        }
        clean_text(&text).replace('\n', " ").chars().take(width.saturating_sub(1)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(event: RunEvent) -> Envelope {
        Envelope { v: 1, seq: 1, time: String::new(), event, previous: String::new(), hash: String::new() }
    }

    #[test]
    fn the_line_says_what_happens_now_and_fits() {
        let (mut live, start) = (Live::default(), Instant::now());
        assert_eq!(live.status(start, 80), "");
        let mut hear = |event| live.on_event(&envelope(event), start);
        hear(RunEvent::StepStarted { step: Step::Agent });
        hear(RunEvent::ToolStarted {
            iteration: 1,
            call: "1".to_owned(),
            tool: "Bash".to_owned(),
            summary: "make\n\u{1b}[31mtest".to_owned(),
        });
        hear(RunEvent::Model {
            event: serde_json::json!({ "type": "model_answer", "usage": { "input": 10, "output": 2 }, "cost": 1_230_000_000_u64 }),
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
