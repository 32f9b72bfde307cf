//! Claude Code. `settings` writes the files around it, so that nothing in the repository can change its configuration; `launch`
//! starts it; `stream` reads what it prints; `hooks` is its hook dialect; `hosted` is the format of Vertex AI and Bedrock.

mod hooks;
mod hosted;
pub(crate) mod launch;
pub(crate) mod settings;
pub mod stream;

use model::wire::Wire;

use crate::defaults;
use crate::harness::names::RuntimeName;
use crate::runtime::contract::{InitFiles, Runtime};
use crate::runtime::package::{Package, Version};

pub const RUNTIME: Runtime = Runtime {
    name: RuntimeName::Claude,
    program: Some(Package {
        spec: "@anthropic-ai/claude-code-linux-{arch}@{version}",
        directory: "@anthropic-ai/claude-code-linux-{arch}",
        global_directory: "@anthropic-ai/claude-code-linux-{arch}",
        executable: "claude",
        command: "claude",
        tested: Version(2, 1, 325),
        integrity: &[
            (
                "x64",
                "sha512-BqZzMvP/zgLLL34S+7OzbG+cyoFp7gwWHU5koVwsyMlTAz+0zZAmbY+UkzvtN2RXxp6AcMenbYIjQJxoXfUY3w==",
            ),
            (
                "arm64",
                "sha512-NCvQcOxr685Y4mkYUjQT8l/Ouzw0k2xWloWeyzfsUtWiOedHosPkaW6XCSpzAl1dMuvDNBF97qpWgVDrSdK2Vw==",
            ),
        ],
        below: Version(2, 2, 0),
    }),
    uses_program: |_| true,
    wires: &[Wire::Messages],
    side_models: &["haiku"],
    config_directory: settings::CONFIG_DIRECTORY,
    instruction_file: "CLAUDE.md",
    hooks: hooks::HOOKS,
    dialect: &hooks::DIALECT,
    movable_hooks: true,
    dead_hook_blocks: true,
    hook_rewrites: true,
    debug_log: Some(launch::DEBUG_LOG),
    has_plugins: true,
    refused_options: |_| Vec::new(),
    limited_options: |_| Vec::new(),
    model_variables: launch::MODEL_VARIABLES,
    kept_variable: hosted::selecting_variable,
    mounts: settings::mounts,
    attempt: launch::attempt,
    init: InitFiles { provider: defaults::INIT_PROVIDER_ANTHROPIC, lists_tools: true },
};
