//! Reads what the native agent prints, one report a line. The last end counts. Unknown lines are ignored.

use serde_json::Value as Json;

use super::protocol::{AgentReport, LoopEnd};
use crate::event::RunEvent;

/// The state after the lines so far.
#[derive(Clone, Debug, Default)]
pub struct AgentStream {
    pub end: Option<AgentEnd>,
    /// The messages of the conversation, for an agent that is stopped before its end.
    pub messages: Vec<Json>,
    bytes: usize,
}

/// The most of such a conversation that is kept.
const MAX_MESSAGES: usize = 64 << 20;

/// How the agent ended, as it reported.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentEnd {
    pub how: LoopEnd,
    pub turns: u64,
    pub conversation: Json,
}

impl AgentStream {
    /// Takes one line and returns its event.
    pub fn line(&mut self, line: &[u8], iteration: u32) -> Option<RunEvent> {
        match serde_json::from_slice(line).ok()? {
            // The line itself feeds the watchdog.
            AgentReport::ModelActive => None,
            AgentReport::Message { message } => {
                let text = text_of(&message);
                self.bytes += line.len();
                self.messages.extend(Some(message).filter(|_| self.bytes <= MAX_MESSAGES));
                text.map(|text| RunEvent::AgentText { iteration, text })
            }
            AgentReport::ToolStarted { call, tool, summary } => {
                Some(RunEvent::ToolStarted { iteration, call, tool, summary })
            }
            AgentReport::ToolFinished { call, is_error, bytes } => {
                Some(RunEvent::ToolFinished { iteration, call, is_error, bytes })
            }
            AgentReport::LoopEnd { how, turns, conversation } => {
                self.end = Some(AgentEnd { how, turns, conversation });
                None
            }
        }
    }
}

/// What the agent wrote for people. The rest of a message is tool calls and their results.
fn text_of(message: &Json) -> Option<String> {
    if message["role"] != "assistant" {
        return None;
    }
    let blocks = message["content"].as_array().into_iter().flatten();
    let texts: Vec<&str> = blocks.filter_map(|block| block["text"].as_str()).collect();
    let text = texts.join("\n");
    (!text.trim().is_empty()).then_some(text)
}
