//! The open requests of a session for people: the tool, its input, and the command that answers.

use std::io::Write;

use serde_json::{Value as Json, json};

use crate::render::diagnostics::clean_text;
use session::{Payload, Seq, Session, SessionError, Sessions, ToolRequest, ToolRequestKind};

/// A longer input is in the log in full.
const SHOWN_CHARACTERS: usize = 2_000;

/// Each open request with its input.
pub(super) fn load_open(
    sessions: &mut Sessions,
    session: &Session,
) -> Result<Vec<(ToolRequest, Json)>, SessionError> {
    let mut all = Vec::new();
    for request in session.state.open_requests() {
        let before = Seq(request.asked.0.saturating_sub(1));
        let event = sessions.events(session.header.id, before, 1)?.pop().map(|event| event.payload);
        let input = match event {
            Some(Payload::AgentCustomToolUse { input, .. } | Payload::AgentToolUse { input, .. }) => input,
            _ => Json::Null,
        };
        all.push((request.clone(), input));
    }
    Ok(all)
}

pub(super) fn to_json(requests: &[(ToolRequest, Json)]) -> Vec<Json> {
    let to_json = |(request, input): &(ToolRequest, Json)| {
        json!({
            "id": request.id, "kind": request.kind, "tool": request.tool, "input": input,
            "input_digest": request.input_digest, "asked": request.asked, "expires_ms": request.expires_ms,
        })
    };
    requests.iter().map(to_json).collect()
}

pub(super) fn print(
    out: &mut impl Write,
    session: &Session,
    requests: &[(ToolRequest, Json)],
) -> std::io::Result<()> {
    for (request, input) in requests {
        let input: String = clean_text(&input.to_string()).chars().take(SHOWN_CHARACTERS).collect();
        writeln!(out, "asks      {} {input} (event {})", clean_text(&request.tool), request.asked.0)?;
        let (command, answer) = match request.kind {
            ToolRequestKind::CustomTool => ("tool-result", "JSON"),
            ToolRequestKind::Confirmation => ("confirm", "allow|deny"),
        };
        writeln!(out, "          fullsend session {command} {} {} {answer}", session.header.id, request.id)?;
    }
    Ok(())
}
