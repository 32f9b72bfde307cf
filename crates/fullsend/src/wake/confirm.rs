//! Tool calls that a person must confirm. Each answer of this wake allows or denies one call with exactly the input that was
//! shown. Every other call becomes a new request, and the session pauses when the run ends.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value as Json;

use crate::event::clock::Moment as Clock;
use crate::guard::confirmation::Confirmation;
use session::{
    Approval, ApprovalDecision, Approvals, Payload, RequestId, SessionEvent, SessionState, Sha256Digest,
    Timestamp, ToolRequestRef,
};

/// New requests of one wake. The session has a limit of its own.
const MAX_REQUESTS: usize = 8;

/// The answers and the new requests of one wake.
#[derive(Debug)]
pub struct ToolConfirmations(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    approvals: Approvals,
    requested: Vec<Payload>,
}

impl ToolConfirmations {
    pub fn new(state: &SessionState, inputs: &[SessionEvent]) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Inner { approvals: Approvals::of(state, inputs), requested: Vec::new() })))
    }

    /// The answer to exactly this call, or a new request for one.
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
        let known = |request: &Payload| {
            matches!(request, Payload::AgentToolUse { tool: known, confirmation: Some(question), .. }
                if known == tool && question.input_digest == digest)
        };
        if !inner.requested.iter().any(known) {
            if inner.requested.len() >= MAX_REQUESTS {
                return Confirmation::Deny(format!(
                    "{MAX_REQUESTS} calls already wait for a confirmation. End this wake."
                ));
            }
            let now = i64::try_from(Clock::now().millis()).unwrap_or(0);
            let request_id = RequestId::generate(&mut super::time_seed(Timestamp(now)));
            let question = ToolRequestRef { request_id, input_digest: digest, expires_ms: None };
            inner.requested.push(Payload::AgentToolUse {
                tool: tool.to_owned(),
                input: input.clone(),
                output: None,
                is_error: false,
                confirmation: Some(question),
            });
        }
        Confirmation::Pending(format!(
            "a person must confirm this {tool} call. End this wake now: the person is asked when it ends. The next wake tells you \
             the answer. If it is allowed, make exactly the same call again, once."
        ))
    }

    pub fn take(&self) -> Vec<Payload> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).requested)
    }
}
