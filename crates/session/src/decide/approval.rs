//! The answers to confirmations as a run uses them. Each allows or denies one call with exactly the input that was shown.

use crate::log::digest::Sha256Digest;
use crate::log::event::{ApprovalDecision, Payload, SessionEvent};
use crate::log::id::RequestId;
use crate::log::state::SessionState;

/// The answers about tool calls among a wake's inputs.
#[derive(Debug, Clone, Default)]
pub struct Approvals(Vec<Approval>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    pub request_id: RequestId,
    pub tool: String,
    pub input_digest: Sha256Digest,
    pub decision: ApprovalDecision,
    pub note: Option<String>,
}

impl Approvals {
    /// The answers among a wake's inputs. The tool name comes from the request, not from the answer.
    #[must_use]
    pub fn of(state: &SessionState, inputs: &[SessionEvent]) -> Self {
        let approvals = inputs.iter().filter_map(|event| {
            let Payload::UserToolConfirmation { request_id, decision, note, .. } = &event.payload else {
                return None;
            };
            let request = state.request(*request_id)?;
            Some(Approval {
                request_id: *request_id,
                tool: request.tool.clone(),
                input_digest: request.input_digest,
                decision: *decision,
                note: note.clone(),
            })
        });
        Self(approvals.collect())
    }

    /// Takes the answer for this call. An identical later call needs a new answer.
    pub fn take(&mut self, tool: &str, input_digest: Sha256Digest) -> Option<Approval> {
        let at = self.0.iter().position(|known| known.tool == tool && known.input_digest == input_digest)?;
        Some(self.0.remove(at))
    }
}
