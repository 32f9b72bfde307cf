//! A file with an event of a forge, for `trigger` and `run`.

use std::io::Read;
use std::path::Path;

use serde_json::Value as Json;
use trigger::TriggerEvent;

use super::exit::{Exit, Failure};

/// The largest payload. GitHub sends 25 MB at most.
const MAX_BYTES: u64 = 32 << 20;

/// The event in the file: a forge's payload, or without `kind` GitLab's payload or an event in the form of triggers.
/// `None`: triggers do not support this kind of event.
pub fn read(path: &Path, kind: Option<&str>) -> Result<Option<TriggerEvent>, Failure> {
    let shown = path.display();
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| Failure::new(Exit::Missing, format!("cannot read {shown}: {error}")))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Failure::new(Exit::Invalid, format!("{shown} has more than {MAX_BYTES} bytes")));
    }
    let payload: Json = serde_json::from_slice(&bytes)
        .map_err(|error| Failure::new(Exit::Invalid, format!("{shown} is not JSON: {error}")))?;
    Ok(match kind {
        // Only GitLab's kinds have this word.
        Some(kind) if kind.ends_with(" Hook") => TriggerEvent::of_gitlab(kind, &payload),
        Some(kind) => TriggerEvent::of_github(kind, &payload),
        None if payload.get("object_kind").is_some() => TriggerEvent::of_gitlab_body(&payload),
        None => Some(TriggerEvent::normalized(payload)),
    })
}
