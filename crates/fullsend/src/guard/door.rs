//! What the guard answers to the model's door: every tool call is remembered before the agent sees it, every result is
//! matched with its call's verdict and cleaned once more before the model sees it.

use std::borrow::Cow;
use std::sync::{Arc, PoisonError};

use egress::door::{Judge, StartSignal, Subject, Verdict};
use serde_json::Value as Json;

use super::calls::Decision;
use super::{Guard, dialect};
use crate::event::RunEvent;
use crate::harness::security::FailMode;

/// How long the model's first request waits for the start hook.
const START_PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

impl Guard {
    /// The same guard, as the door asks it.
    pub fn door_judge(&self) -> Judge {
        let guard = self.clone();
        Arc::new(move |subject| guard.judge(subject))
    }

    /// What the door waits for before the first request.
    pub fn start_signal(&self) -> StartSignal {
        StartSignal { started: self.started.subscribe(), patience: START_PATIENCE }
    }

    fn judge(&self, subject: &Subject<'_>) -> Verdict {
        match *subject {
            Subject::Text { .. } => Verdict::Pass,
            Subject::ToolCall { call_id, tool, input } => self.remember(call_id, tool, input),
            Subject::ToolResult { call_id, text, is_error, fresh, .. } => {
                if fresh && let Err(stop) = self.match_result(call_id, text, is_error) {
                    return stop;
                }
                match self.clean_result(text) {
                    Cow::Owned(clean) => Verdict::Replace(clean),
                    Cow::Borrowed(_) => Verdict::Pass,
                }
            }
        }
    }

    /// A call that would be denied still passes: its hook tells the agent why, and the agent goes on. Where the runtime
    /// asks no hook, the door denies it itself.
    fn remember(&self, id: &str, tool: &str, input: &Json) -> Verdict {
        let decision = self.judge_call(tool, input);
        let hookless = dialect::habits(self.runtime).tools_without_hooks.contains(&tool);
        let verdict = match &decision {
            Decision::Deny { reason } if hookless => Verdict::Deny(reason.clone()),
            _ => Verdict::Pass,
        };
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.asked_for(id, tool, input, decision);
        verdict
    }

    fn match_result(&self, id: &str, text: &str, is_error: bool) -> Result<(), Verdict> {
        let habits = dialect::habits(self.runtime);
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let Err(irregular) = calls.result(id, text, is_error, &habits) else { return Ok(()) };
        let (call, reason) = (id.to_owned(), irregular.to_string());
        let stopped = self.fail_mode == FailMode::Closed;
        self.emit.emit(RunEvent::HookMissing { call, reason: reason.clone(), stopped });
        if stopped { Err(Verdict::Stop(reason)) } else { Ok(()) }
    }
}
