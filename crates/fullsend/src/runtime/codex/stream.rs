//! Reads what Codex prints with `--json`, one object a line. Items of the type `error` are warnings; only a failed turn is a
//! failure. Unknown lines are ignored.

use serde_json::Value as Json;

use crate::event::RunEvent;

/// The state after the lines so far.
#[derive(Clone, Debug, Default)]
pub struct CodexStream {
    pub thread: Option<String>,
    /// The agent's final message.
    pub last_words: String,
    /// Whether a turn was completed, and nothing failed after it.
    pub completed: bool,
    pub failure: Option<String>,
    pub turns: u64,
}

impl CodexStream {
    /// Takes one line and returns its events.
    pub fn line(&mut self, line: &[u8], iteration: u32) -> Vec<RunEvent> {
        let Ok(line) = serde_json::from_slice::<Json>(line) else { return Vec::new() };
        match line["type"].as_str() {
            Some("thread.started") => {
                self.thread = line["thread_id"].as_str().map(str::to_owned).or(self.thread.take());
            }
            Some("turn.completed") => {
                self.completed = true;
                self.failure = None;
                self.turns += 1;
            }
            Some("turn.failed") => self.fail(&line["error"]["message"]),
            Some("error") => self.fail(&line["message"]),
            Some("item.started") => return started(&line["item"], iteration).into_iter().collect(),
            Some("item.completed") => return self.completed_item(&line["item"], iteration),
            _ => {}
        }
        Vec::new()
    }

    fn fail(&mut self, message: &Json) {
        self.completed = false;
        self.failure = Some(message.as_str().unwrap_or("Codex gave no reason").to_owned());
    }

    fn completed_item(&mut self, item: &Json, iteration: u32) -> Vec<RunEvent> {
        match item["type"].as_str() {
            Some("agent_message") => {
                item["text"].as_str().unwrap_or_default().clone_into(&mut self.last_words);
                let text = self.last_words.clone();
                vec![RunEvent::AgentText { iteration, text }]
            }
            // A file change has no start event.
            Some("file_change") => {
                started(item, iteration).into_iter().chain(finished(item, iteration)).collect()
            }
            _ => finished(item, iteration).into_iter().collect(),
        }
    }
}

fn tool_of(item: &Json) -> Option<&str> {
    match item["type"].as_str()? {
        "command_execution" => Some("Bash"),
        "file_change" => Some("apply_patch"),
        "mcp_tool_call" => Some(item["tool"].as_str().unwrap_or("mcp")),
        _ => None,
    }
}

fn started(item: &Json, iteration: u32) -> Option<RunEvent> {
    let tool = tool_of(item)?.to_owned();
    let shown = item["command"].as_str().or_else(|| item["changes"][0]["path"].as_str()).unwrap_or_default();
    let summary = shown.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(120).collect();
    Some(RunEvent::ToolStarted { iteration, call: item["id"].as_str()?.to_owned(), tool, summary })
}

fn finished(item: &Json, iteration: u32) -> Option<RunEvent> {
    tool_of(item)?;
    let bytes = item["aggregated_output"].as_str().map_or(0, str::len) as u64;
    let is_error = item["status"] == "failed" || item["exit_code"].as_i64().is_some_and(|code| code != 0);
    Some(RunEvent::ToolFinished { iteration, call: item["id"].as_str()?.to_owned(), is_error, bytes })
}
