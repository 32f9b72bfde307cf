//! What our own loop prints, one report a line. The last end that it says counts; lines that are not understood are left
//! out.

use serde_json::Value as Json;

use super::protocol::{AgentReport, LoopEnd};
use crate::event::RunEvent;

/// What is known after the lines so far.
#[derive(Clone, Debug, Default)]
pub struct AgentStream {
    pub end: Option<AgentEnd>,
    /// The messages of the conversation; where the loop is ended early they are all there is of it.
    pub messages: Vec<Json>,
    bytes: usize,
}

/// Of a conversation that is kept without its end.
const MAX_SAID: usize = 64 << 20;

/// How the loop ended, in its own words.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentEnd {
    pub how: LoopEnd,
    pub turns: u64,
    pub conversation: Json,
}

impl AgentStream {
    /// Takes in one line and gives the event that it means.
    pub fn line(&mut self, line: &[u8], iteration: u32) -> Option<RunEvent> {
        match serde_json::from_slice(line).ok()? {
            // The line itself tells the watchdog.
            AgentReport::ModelActive => None,
            AgentReport::Message { message } => {
                self.bytes += line.len();
                self.messages.extend(Some(message).filter(|_| self.bytes <= MAX_SAID));
                None
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
