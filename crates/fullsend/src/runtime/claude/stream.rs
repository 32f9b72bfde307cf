//! Reads what Claude Code prints, one JSON object a line. The last result counts; its `is_error` says whether it failed, not
//! its subtype. Unknown lines are ignored.

use serde_json::Value as Json;

use crate::event::RunEvent;

/// The state after the lines so far.
#[derive(Clone, Debug, Default)]
pub struct ClaudeStream {
    pub session: Option<String>,
    pub result: Option<ClaudeResult>,
}

/// The last result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClaudeResult {
    pub is_error: bool,
    /// The final message, or the error.
    pub text: String,
    /// The structured output.
    pub output: Option<Json>,
    /// Whether the agent used up its attempts to return output that matches the schema.
    pub output_exhausted: bool,
    pub turns: u64,
    /// Why it ended, as Claude Code says.
    pub reason: String,
}

impl ClaudeStream {
    /// Takes one line and returns its events.
    pub fn line(&mut self, line: &[u8], iteration: u32) -> Vec<RunEvent> {
        let Ok(line) = serde_json::from_slice::<Json>(line) else { return Vec::new() };
        match line["type"].as_str() {
            Some("system") if line["subtype"] == "init" => {
                self.session = line["session_id"].as_str().map(str::to_owned).or(self.session.take());
                Vec::new()
            }
            Some("assistant") => blocks(&line).filter_map(|block| content_event(block, iteration)).collect(),
            Some("user") => blocks(&line).filter_map(|block| finished(block, iteration)).collect(),
            Some("result") => {
                self.result = Some(outcome(&line));
                Vec::new()
            }
            _ => Vec::new(),
        }
    }
}

fn blocks(line: &Json) -> impl Iterator<Item = &Json> {
    line["message"]["content"].as_array().into_iter().flatten()
}

fn content_event(block: &Json, iteration: u32) -> Option<RunEvent> {
    match block["type"].as_str()? {
        "tool_use" => started(block, iteration),
        "text" => {
            let text = block["text"].as_str()?.to_owned();
            (!text.trim().is_empty()).then_some(RunEvent::AgentText { iteration, text })
        }
        _ => None,
    }
}

fn started(block: &Json, iteration: u32) -> Option<RunEvent> {
    let input = &block["input"];
    let shown = ["command", "file_path", "path", "pattern", "url", "description", "skill"];
    let summary = shown.iter().find_map(|key| input[*key].as_str()).unwrap_or_default();
    Some(RunEvent::ToolStarted {
        iteration,
        call: block["id"].as_str()?.to_owned(),
        tool: block["name"].as_str()?.to_owned(),
        summary: summary.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(120).collect(),
    })
}

fn finished(block: &Json, iteration: u32) -> Option<RunEvent> {
    if block["type"] != "tool_result" {
        return None;
    }
    let bytes = match &block["content"] {
        Json::String(text) => text.len(),
        Json::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).map(str::len).sum(),
        _ => 0,
    };
    Some(RunEvent::ToolFinished {
        iteration,
        call: block["tool_use_id"].as_str()?.to_owned(),
        is_error: block["is_error"] == true,
        bytes: bytes as u64,
    })
}

fn outcome(line: &Json) -> ClaudeResult {
    let errors: Vec<&str> =
        line["errors"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
    let message = line["result"].as_str().unwrap_or_default();
    ClaudeResult {
        // Without the flag it is an error.
        is_error: line["is_error"] != false,
        text: if errors.is_empty() { message.to_owned() } else { errors.join("; ") },
        output: line.get("structured_output").filter(|output| !output.is_null()).cloned(),
        output_exhausted: line["subtype"] == "error_max_structured_output_retries",
        turns: line["num_turns"].as_u64().unwrap_or(0),
        reason: line["terminal_reason"].as_str().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exhausted_structured_output_is_told_from_other_errors() {
        let check = |subtype: &str, expected: bool| {
            let line = serde_json::json!({ "type": "result", "subtype": subtype, "is_error": true });
            let mut stream = ClaudeStream::default();
            stream.line(line.to_string().as_bytes(), 1);
            assert_eq!(stream.result.unwrap().output_exhausted, expected, "{subtype}");
        };
        check("error_max_structured_output_retries", true);
        check("error_max_turns", false);
        check("error_during_execution", false);
    }
}
