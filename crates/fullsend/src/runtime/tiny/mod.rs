//! The smallest runtime, for tests: it starts one command inside, and the attempt ends when the command exits. It shows
//! what a new runtime must provide, and that this folder and a row in `runtimes.rs` are enough.

use std::time::Instant;

use model::gateway::ChunkFormat;
use model::wire::Wire;
use sandbox::Command;
use serde_json::{Value as Json, json};

use super::attempt::{Attempt, Ending, RuntimeError};
use super::contract::{Hook, InitFiles, Runtime};
use super::launch::{AttemptRequest, LaunchContext};
use super::process::{self, ProcessEnd};
use crate::defaults;
use crate::event::log::Emitter;
use crate::guard::dialect::{CallDecision, HookAnswer, HookDialect, HookEvent, RuntimeQuirks, text};
use crate::harness::names::RuntimeName;

pub const RUNTIME: Runtime = Runtime {
    name: RuntimeName::Tiny,
    program: None,
    uses_program: |_| true,
    wires: &[Wire::Messages],
    side_models: &[],
    config_directory: "/sandbox/tiny-config",
    instruction_file: "AGENTS.md",
    hooks: &[(Hook::Start, "start"), (Hook::Before, "before")],
    dialect: &DIALECT,
    movable_hooks: true,
    dead_hook_blocks: true,
    hook_rewrites: false,
    debug_log: None,
    has_plugins: false,
    refused_options: |_| Vec::new(),
    limited_options: |_| Vec::new(),
    model_variables: &["TINY_MODEL_URL"],
    kept_variable: |_| None,
    mounts: |_| Ok(Vec::new()),
    attempt,
    init: InitFiles { provider: defaults::INIT_PROVIDER_ANTHROPIC, lists_tools: false },
};

const DIALECT: HookDialect = HookDialect {
    read: |body| {
        let id = text(body, "id")?;
        Some(HookEvent::Before { id, tool: text(body, "tool")?, input: body["input"].clone() })
    },
    verdict: |decision| HookAnswer::json(&json!({ "allowed": *decision == CallDecision::Allow })),
    replacement: |_, cleaned: &Json| HookAnswer::json(cleaned),
    chunk_format: ChunkFormat::NONE,
    quirks: RuntimeQuirks {
        tools_without_hooks: &[],
        switched_off: &[],
        events: &[],
        refusals: &[],
        errors_are_marked: true,
        replacing_loses_exit_code: false,
        reminder: None,
        result_tool: None,
        name_of: |tool| tool,
        same_call: |asked, hooked| asked == hooked,
    },
};

fn attempt(
    context: &LaunchContext<'_>,
    request: &AttemptRequest,
    _: &Emitter,
) -> Result<Attempt, RuntimeError> {
    let command = Command::new(["/bin/true"]);
    let ended = process::run(context, request, Instant::now(), command, &[], &mut |_| {})?;
    let ending = match ended {
        ProcessEnd::Exited { .. } => Ending::Finished,
        ProcessEnd::Failed { why } => Ending::Failed { why },
        ProcessEnd::TimedOut => Ending::Timeout,
        ProcessEnd::Interrupted => Ending::Interrupted,
    };
    Ok(Attempt { iteration: request.iteration, ending, conversation: None, logs: Vec::new(), turns: 1 })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::check::{Checked, check};
    use crate::guard::hook_server::HookServer;
    use crate::guard::{Guard, GuardSetup};
    use crate::resolve::layers::{Layer, LayerKind, Layers};
    use crate::resolve::library::Library;
    use crate::resolve::{Choices, resolve};
    use crate::runtime::{self, matrix};

    /// A harness that asks for this runtime, through the same checks as every other.
    fn checked(layer: &Path, more: &str) -> Checked {
        let write = |path: &str, text: &str| {
            let path = layer.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let harness = "agent: agents/a.md\nruntime: tiny\npolicy: policies/assess.yaml\n";
        write("harness/a.yaml", &format!("{harness}{more}"));
        write("agents/a.md", "---\nname: a\ndescription: Works.\n---\nWork.\n");
        write("policies/assess.yaml", defaults::INIT_POLICY);
        let layer = Layer::directory(LayerKind::Repository, layer, ".fullsend".to_owned()).unwrap();
        let mut library = Library::new(Layers::new(vec![layer]));
        let choices = Choices { today: "2026-01-01".to_owned(), ..Choices::default() };
        let mut problems = Vec::new();
        let resolved = resolve(&mut library, "a", &choices, &mut problems).unwrap();
        let checked = check(&mut library, resolved, &mut problems);
        checked.unwrap_or_else(|| panic!("{problems:?}"))
    }

    #[test]
    fn one_table_row_registers_a_runtime() {
        assert_eq!(RuntimeName::parse("tiny"), Some(RuntimeName::Tiny));
        assert!(runtime::ALL.iter().all(|runtime| runtime::of(runtime.name).name == runtime.name));
        assert!(runtime::ALL.iter().any(|runtime| runtime.name == RuntimeName::Tiny));
        let carries = |name: &str| {
            let feature = matrix::FEATURES.iter().find(|feature| feature.name == name).unwrap();
            matrix::cell(feature, &RUNTIME).carried
        };
        assert!(carries("Tool allowlist") && !carries("Secret redaction"));
        let scratch = tempfile::tempdir().unwrap();
        let checked = checked(scratch.path(), "");
        assert_eq!(checked.resolved.harness.runtime.value, RuntimeName::Tiny);
        assert!(runtime::refused_options(&checked).is_empty());
    }

    #[test]
    fn a_variable_that_moves_the_model_is_cleared_with_a_warning() {
        let scratch = tempfile::tempdir().unwrap();
        let checked =
            checked(scratch.path(), "env:\n  sandbox:\n    TINY_MODEL_URL: https://elsewhere.example\n");
        let problems = runtime::refused_options(&checked);
        let [problem] = &problems[..] else { panic!("{problems:?}") };
        assert!(!problem.is_error(), "{problem:?}");
        assert!(problem.message.contains("TINY_MODEL_URL"), "{problem:?}");
    }

    #[test]
    fn the_guard_speaks_its_dialect() {
        let scratch = tempfile::tempdir().unwrap();
        let checked = checked(scratch.path(), "");
        let emit = Emitter::create(&scratch.path().join("events.jsonl"), |_| {}).unwrap();
        let setup = GuardSetup {
            harness: &checked.resolved.harness,
            dialect: runtime::of(RuntimeName::Tiny).dialect,
            allowlist: None,
            waivers: Vec::new(),
            today: "2026-01-01",
            path: "",
            weights: Default::default(),
            run_directory: None,
            tool_digests: Vec::new(),
            tools_are_locked: false,
        };
        let guard = Guard::new(setup, &emit).unwrap();
        let listening = HookServer::start(scratch.path(), &guard).unwrap();
        let address = guard.hook_address();
        assert_eq!(address.arguments()[0], "tiny");
        let body = json!({ "id": "a", "tool": "Bash", "input": { "command": "ls" } }).to_string();
        let answer = address.ask(listening.path(), body.as_bytes());
        assert_eq!(
            answer.text,
            json!({ "allowed": false }).to_string(),
            "the gateway did not see this call in your last answer. Make the call again."
        );
    }
}
