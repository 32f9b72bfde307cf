//! One line for a connection or a name that egress refused: what was tried, by which program, and why it was refused.

use egress::event::{ConnectionDecision, EgressEvent};

use crate::provision::PROOF_NAME;

/// `None` for what was not refused, and for the question that the sandbox's proof asks itself.
pub fn refusal(event: &EgressEvent) -> Option<String> {
    let attempt = match event {
        EgressEvent::NameRefused { name, .. } if name.trim_end_matches('.') == PROOF_NAME => return None,
        EgressEvent::NameRefused { name, reason } => return Some(format!("the name {name}: {reason}")),
        EgressEvent::Connection(attempt) => attempt,
    };
    if attempt.decision != ConnectionDecision::Denied {
        return None;
    }
    let program = match (&attempt.binary, attempt.pid) {
        (Some(binary), Some(pid)) => format!(" by {binary} (pid {pid})"),
        (Some(binary), None) => format!(" by {binary}"),
        (None, Some(pid)) => format!(" by pid {pid}"),
        (None, None) => String::new(),
    };
    let method = attempt.method.as_deref().unwrap_or_default();
    let path = attempt.path.as_deref().unwrap_or_default();
    let request = format!("{method} {}:{}{path}", attempt.host, attempt.port);
    Some(format!("{}{program}: {}", request.trim(), attempt.reason.as_deref().unwrap_or_default()))
}
