//! Agents that speak the Agent Client Protocol: we are the client, on the standard streams of the agent inside. `agent`
//! says which one; `opencode` writes its configuration; `client` is our side of the protocol, `messages` its texts;
//! `driver` connects it with the guard and the log; `launch` starts the agent. It has no hooks: the model gateway judges
//! the calls, and the guard answers requests for permission.

mod agent;
mod client;
mod dialect;
mod driver;
mod launch;
mod messages;
mod opencode;
mod transcript;

use model::wire::Wire;

use crate::defaults;
use crate::harness::names::RuntimeName;
use crate::runtime::contract::{InitFiles, Runtime};

pub const RUNTIME: Runtime = Runtime {
    name: RuntimeName::Acp,
    program: Some(opencode::PACKAGE),
    uses_program: |harness| agent::chosen(harness).uses_program(),
    wires: &[Wire::Messages, Wire::Responses, Wire::Chat],
    side_models: &[],
    config_directory: agent::CONFIG_DIRECTORY,
    instruction_file: "AGENTS.md",
    hooks: &[],
    dialect: &dialect::DIALECT,
    movable_hooks: false,
    dead_hook_blocks: false,
    hook_rewrites: false,
    debug_log: None,
    has_plugins: false,
    refused_options: agent::refused_options,
    limited_options: |_| Vec::new(),
    model_variables: agent::MODEL_VARIABLES,
    kept_variable: |_| None,
    mounts: agent::mounts,
    attempt: launch::attempt,
    init: InitFiles { provider: defaults::INIT_PROVIDER_ANTHROPIC, lists_tools: false },
};
