//! The open requests of a session for people: the tool, its input, and the command that answers.

use std::io::Write;

use serde_json::Value as Json;

use crate::render::diagnostics::clean_text;
use session::{Session, ToolRequest, ToolRequestKind};

/// A longer input is in the log in full.
const SHOWN_CHARACTERS: usize = 2_000;

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
