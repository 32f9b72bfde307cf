//! Codex. `settings` writes the files around it, so that nothing in the repository can change its configuration; `launch`
//! starts it; `stream` reads what it prints; `hooks` is its hook dialect.

mod hooks;
pub(crate) mod launch;
pub(crate) mod settings;
pub mod stream;

use model::wire::Wire;

use crate::defaults;
use crate::harness::names::RuntimeName;
use crate::runtime::contract::{InitFiles, Runtime};
use crate::runtime::package::{Package, Version};

pub const RUNTIME: Runtime = Runtime {
    name: RuntimeName::Codex,
    program: Some(Package {
        spec: "@openai/codex@{version}-linux-{arch}",
        directory: "@openai/codex/vendor/{triple}-unknown-linux-musl",
        global_directory: "@openai/codex-linux-{arch}/vendor/{triple}-unknown-linux-musl",
        executable: "bin/codex",
        command: "codex",
        tested: Version(0, 166, 0),
        integrity: &[
            (
                "x64",
                "sha512-CxDm3+D1cpbGJeHrdzINoG+3wn9BVncP4qpZaaNYkxe8iPtRJOYyCJnnPoVjWRIBvI9vPKbRoifsMSA5xDaUpw==",
            ),
            (
                "arm64",
                "sha512-w0ScAsBr9aZKtIFrh6HN6KU2yjKKeSCzYfbb7DB0Ccj4BYPzeZtUeQprbycLCwuX3AFQdbdjapmLho2iot74jQ==",
            ),
        ],
        below: Version(0, 167, 0),
    }),
    uses_program: |_| true,
    wires: &[Wire::Responses],
    side_models: &[],
    config_directory: settings::CONFIG_DIRECTORY,
    instruction_file: "AGENTS.md",
    hooks: hooks::HOOKS,
    dialect: &hooks::DIALECT,
    movable_hooks: false,
    dead_hook_blocks: false,
    hook_rewrites: true,
    debug_log: None,
    has_plugins: false,
    refused_options: settings::refused_options,
    limited_options: |_| Vec::new(),
    model_variables: &[],
    kept_variable: |_| None,
    mounts: settings::mounts,
    attempt: launch::attempt,
    init: InitFiles { provider: defaults::INIT_PROVIDER_OPENAI, lists_tools: false },
};
