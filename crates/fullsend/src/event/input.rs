//! What an input of a run is, as the event log writes it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an input is to the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InputKind {
    Harness,
    Agent,
    Skill,
    Plugin,
    Policy,
    Schema,
    /// The agent's text and the schema, in one digest.
    #[serde(rename = "prompt and schema")]
    PromptAndSchema,
    /// A text of the repository, or a prompt of the caller beside the agent's task.
    Context,
    /// What fullsend writes into the runtime's instruction file.
    Instructions,
    HostFile,
    AgentInput,
    /// A file that the caller mounts.
    Input,
    /// A directory that the caller mounts.
    Resource,
    Image,
    /// A tool of an MCP server: its description and the schema of its arguments, in one digest.
    Tool,
}
