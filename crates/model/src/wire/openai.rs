//! What the two OpenAI formats share: the shape of errors, and how tool arguments are written inside strings.

use super::fault::{self, Fault, FaultKind};
use serde_json::{Value, json};

pub(super) fn write_fault(fault: &Fault) -> Value {
    let kind = match fault.kind {
        FaultKind::RateLimit => "rate_limit_exceeded",
        FaultKind::Overloaded => "server_is_overloaded",
        other => other.name(),
    };
    json!({"error": {"message": fault.message, "type": kind, "code": kind, "param": null}})
}

/// There is no 529 here.
pub(super) fn status(kind: FaultKind) -> u16 {
    match kind {
        FaultKind::Overloaded => 503,
        other => other.status(),
    }
}

pub(super) fn read_fault(status: u16, body: &[u8]) -> Fault {
    let kind = if status == 503 { FaultKind::Overloaded } else { FaultKind::from_status(status) };
    Fault::new(kind, fault::words(body))
}

pub(super) fn fault_kind(code: &str) -> FaultKind {
    match code {
        "rate_limit_exceeded" => FaultKind::RateLimit,
        "server_is_overloaded" | "slow_down" => FaultKind::Overloaded,
        other => FaultKind::from_name(other),
    }
}

/// Arguments are JSON inside a string; other text is kept as it is.
pub(crate) fn read_arguments(text: &str) -> Value {
    if text.trim().is_empty() {
        return json!({});
    }
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}

/// One string, or parts that have text.
pub(super) fn texts(content: &Value) -> Vec<String> {
    match content {
        Value::String(text) => vec![text.clone()],
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part["text"].as_str().map(str::to_owned)).collect()
        }
        _ => Vec::new(),
    }
}
