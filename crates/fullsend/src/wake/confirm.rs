//! Tool calls that somebody must allow: answers that this wake was given are used once each, for exactly the input that was
//! shown; every other call is asked about, and the session pauses when the run has ended.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value as Json;

use crate::event::clock::Moment as Clock;
use crate::guard::confirmation::Confirmation;
use session::{
    Approval, ApprovalDecision, Approvals, Payload, RequestId, SessionEvent, SessionState, Sha256Digest,
    Timestamp, ToolRequestRef,
};

/// Open questions of one wake; the session has a bound of its own.
const MAX_QUESTIONS: usize = 8;

/// The answers and the questions of one wake.
#[derive(Debug)]
pub struct Confirmations(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    approvals: Approvals,
    asked: Vec<Payload>,
}

impl Confirmations {
    pub fn of(state: &SessionState, inputs: &[SessionEvent]) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Inner { approvals: Approvals::of(state, inputs), asked: Vec::new() })))
    }

    /// What was said about this very call, or that it is asked about now.
    pub fn ask(&self, tool: &str, input: &Json) -> Confirmation {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let digest = Sha256Digest::of_json(input);
        match inner.approvals.take(tool, digest) {
            Some(Approval { decision: ApprovalDecision::Allow, .. }) => return Confirmation::Allow,
            Some(Approval { note, .. }) => {
                return Confirmation::Deny(note.unwrap_or_else(|| "no reason was given".to_owned()));
            }
            None => {}
        }
        let known = |asked: &Payload| {
            matches!(asked, Payload::AgentToolUse { tool: known, confirmation: Some(question), .. }
                if known == tool && question.input_digest == digest)
        };
        if !inner.asked.iter().any(known) {
            if inner.asked.len() >= MAX_QUESTIONS {
                return Confirmation::Deny(
                    "too many calls wait for an answer already; end this wake".to_owned(),
                );
            }
            let now = i64::try_from(Clock::now().millis()).unwrap_or(0);
            let request_id = RequestId::generate(&mut super::seed(Timestamp(now)));
            let question = ToolRequestRef { request_id, input_digest: digest, expires_ms: None };
            inner.asked.push(Payload::AgentToolUse {
                tool: tool.to_owned(),
                input: input.clone(),
                output: None,
                is_error: false,
                confirmation: Some(question),
            });
        }
        Confirmation::Pending(format!(
            "somebody must allow this call of {tool} first, and is asked when this wake ends. End it now; when you are woken \
             with the answer, make exactly the same call again, once"
        ))
    }

    pub fn take(&self) -> Vec<Payload> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).asked)
    }
}
