//! The native runtime, our own small agent. `launch` is the host's side; `agent` runs inside, as the hidden `__agent`
//! command of this program; `protocol` is what they exchange, and `stream` reads it. `tools` runs the tools; `mcp_client`
//! those of MCP servers.

pub(crate) mod agent;
mod compaction;
mod files;
mod hooks;
pub(crate) mod launch;
mod mcp_client;
mod mcp_http;
pub mod protocol;
pub(crate) mod settings;
mod shell;
pub mod stream;
mod tool_outcome;
pub(crate) mod tools;

use model::wire::Wire;

use crate::defaults;
use crate::harness::names::RuntimeName;
use crate::runtime::contract::{InitFiles, Runtime};

pub const RUNTIME: Runtime = Runtime {
    name: RuntimeName::Native,
    program: None,
    uses_program: |_| true,
    wires: &[Wire::Messages, Wire::Responses, Wire::Chat],
    side_models: &[],
    config_directory: settings::CONFIG_DIRECTORY,
    instruction_file: "AGENTS.md",
    hooks: hooks::HOOKS,
    dialect: &hooks::DIALECT,
    movable_hooks: true,
    dead_hook_blocks: true,
    hook_rewrites: true,
    debug_log: None,
    has_plugins: false,
    refused_options: settings::refused_options,
    limited_options: settings::limited_options,
    model_variables: &[],
    kept_variable: |_| None,
    mounts: settings::mounts,
    attempt: launch::attempt,
    init: InitFiles { provider: defaults::INIT_PROVIDER_ANTHROPIC, lists_tools: true },
};
