//! `egress.jsonl`: what tried to leave the sandbox, one line for each attempt, for people who grep. Made from the events,
//! and from nothing else.

use std::io::Write;
use std::path::Path;

use serde_json::{Value as Json, json};

use crate::event::{Envelope, RunEvent};

pub fn write(directory: &Path, events: &[Envelope]) -> std::io::Result<()> {
    let temporary = directory.join(".egress.jsonl.new");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&temporary)?);
    for line in events.iter().filter_map(line) {
        writeln!(file, "{line}")?;
    }
    file.flush()?;
    std::fs::rename(temporary, directory.join("egress.jsonl"))
}

fn line(envelope: &Envelope) -> Option<Json> {
    let RunEvent::Egress { event } = &envelope.event else { return None };
    let time = &envelope.time;
    match event["type"].as_str()? {
        "attempt" => Some(json!({
            "time": time,
            "pid": event["pid"],
            "binary": event["binary"],
            "endpoint": format!("{}:{}", event["host"].as_str().unwrap_or_default(), event["port"]),
            "method": event["method"],
            "path": event["path"],
            "decision": event["decision"],
            "rule": event["rule"],
            "reason": event["reason"],
            "status": event["status"],
            "bytes_out": event["bytes_out"],
            "bytes_in": event["bytes_in"],
            "duration_ms": event["duration_ms"],
        })),
        // A name that is not told is an attempt too: it ends before there is a connection.
        "name_refused" => Some(json!({
            "time": time, "endpoint": event["name"], "decision": "denied", "reason": event["reason"],
        })),
        _ => None,
    }
}
