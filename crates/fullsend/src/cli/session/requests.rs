//! The open questions of a session as people need them: what was asked, with which input, and how it is answered.

use std::io::Write;

use serde_json::{Value as Json, json};

use crate::render::diagnostics::clean_text;
use session::{Payload, Seq, Session, SessionError, Sessions, ToolRequest, ToolRequestKind};

/// Longer inputs are in the log.
const SHOWN_CHARACTERS: usize = 2_000;

/// Each open question with the input that an answer is bound to.
pub(super) fn open(
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

pub(super) fn describe(asked: &[(ToolRequest, Json)]) -> Vec<Json> {
    let one = |(request, input): &(ToolRequest, Json)| {
        json!({
            "id": request.id, "kind": request.kind, "tool": request.tool, "input": input,
            "input_digest": request.input_digest, "asked": request.asked, "expires_ms": request.expires_ms,
        })
    };
    asked.iter().map(one).collect()
}

pub(super) fn tell(
    out: &mut impl Write,
    session: &Session,
    asked: &[(ToolRequest, Json)],
) -> std::io::Result<()> {
    for (request, input) in asked {
        let input: String = clean_text(&input.to_string()).chars().take(SHOWN_CHARACTERS).collect();
        let (tool, event) = (clean_text(&request.tool), request.asked.0);
        writeln!(out, "asks      {tool} {input} (event {event})")?;
        let (command, answer) = match request.kind {
            ToolRequestKind::CustomTool => ("tool-result", "JSON"),
            ToolRequestKind::Confirmation => ("confirm", "allow|deny"),
        };
        let (id, request) = (session.header.id, request.id);
        writeln!(out, "          fullsend session {command} {id} {request} {answer}")?;
    }
    Ok(())
}
