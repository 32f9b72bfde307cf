//! `egress.jsonl`: one line for each connection or name that the sandbox tried to reach. Made from the events and from
//! nothing else.

use std::io::Write;
use std::path::Path;

use egress::event::{ConnectionDecision, EgressEvent};
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
    Some(match event {
        EgressEvent::Connection(attempt) => json!({
            "time": time,
            "pid": attempt.pid,
            "binary": attempt.binary,
            "endpoint": format!("{}:{}", attempt.host, attempt.port),
            "method": attempt.method,
            "path": attempt.path,
            "decision": attempt.decision,
            "rule": attempt.rule,
            "reason": attempt.reason,
            "status": attempt.status,
            "bytes_out": attempt.bytes_out,
            "bytes_in": attempt.bytes_in,
            "duration_ms": attempt.duration_ms,
        }),
        // A refused name is an attempt too: it ends before there is a connection.
        EgressEvent::NameRefused { name, reason } => json!({
            "time": time, "endpoint": name, "decision": ConnectionDecision::Denied, "reason": reason,
        }),
    })
}
