//! The protocol between the host and the native agent: one task in, reports out, one JSON object a line.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::net::SocketAddr;

use crate::guard::hook_client::HookAddress;

/// The configuration and state of the agent, inside.
pub const CONFIG_DIRECTORY: &str = "/sandbox/native-config";

/// On standard input.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AgentTask {
    pub gateway: SocketAddr,
    /// The wire format of the model.
    pub wire: AgentWire,
    pub guard: HookAddress,
    pub model: String,
    pub effort: Option<String>,
    pub system: String,
    /// The user's message: the task, or what was wrong with the last output.
    pub prompt: String,
    /// The conversation so far, as the last end reported it.
    pub conversation: Option<Json>,
    /// Only these tools; `None` means all of them.
    pub tools: Option<Vec<String>>,
    pub disallowed_tools: Vec<String>,
    /// A file with the MCP servers of the harness.
    pub servers: String,
    /// Where the finish tool writes, and what it must look like.
    pub output_path: String,
    pub output_schema: Option<Json>,
    pub max_turns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentWire {
    Messages,
    Responses,
    Chat,
}

/// On standard output.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AgentReport {
    /// The model still answers.
    ModelActive,
    /// A message of the conversation. The host keeps it if the agent is stopped before its end.
    Message {
        message: Json,
    },
    ToolStarted {
        call: String,
        tool: String,
        summary: String,
    },
    ToolFinished {
        call: String,
        is_error: bool,
        bytes: u64,
    },
    #[serde(rename = "end")]
    LoopEnd {
        how: LoopEnd,
        turns: u64,
        conversation: Json,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum LoopEnd {
    Finished,
    Stopped { last_words: String },
    Failed { why: String },
}
