//! One line for a request or a name that egress refused or only audited: what was tried, by which program, and why.

use egress::event::{ConnectionDecision, ConnectionEvent, EgressEvent};

use crate::provision::PROOF_NAME;

/// `None` if nothing was refused, and for the name that the sandbox's own proof asks for.
pub fn refusal(event: &EgressEvent) -> Option<String> {
    match event {
        EgressEvent::NameRefused { name, .. } if name.trim_end_matches('.') == PROOF_NAME => None,
        EgressEvent::NameRefused { name, reason } => Some(format!("the name {name}: {reason}")),
        EgressEvent::Connection(attempt) => decided(attempt, ConnectionDecision::Denied),
    }
}

/// A request outside of the rules that passed because its endpoint only audits.
pub fn audited(event: &EgressEvent) -> Option<String> {
    match event {
        EgressEvent::NameRefused { .. } => None,
        EgressEvent::Connection(attempt) => decided(attempt, ConnectionDecision::Audited),
    }
}

fn decided(attempt: &ConnectionEvent, decision: ConnectionDecision) -> Option<String> {
    if attempt.decision != decision {
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
