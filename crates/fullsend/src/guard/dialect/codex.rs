//! Codex: its shell tools are all called `Bash` towards hooks, a patch is a command too; a result is replaced by
//! blocking it with the text that the model is to see instead.

use serde_json::{Value as Json, json};

use super::{HookAnswer, HookEvent, text};
use crate::guard::calls::{Decision, Habits};

/// Their feature is off; but the newest models bring these tools along whatever the configuration says.
const NO_SUB_AGENTS: &str = "sub-agents of Codex are switched off; do this work yourself";

pub(super) const HABITS: Habits = Habits {
    tools_without_hooks: &["write_stdin", "update_plan", "request_user_input", "tool_search"],
    switched_off: &[("collaboration__", NO_SUB_AGENTS), ("multi_agent_v1__", NO_SUB_AGENTS)],
    events: &[],
    refusals: &[
        "unsupported call: ",
        "unsupported custom tool call: ",
        "failed to parse function arguments: ",
    ],
    errors_are_marked: false,
    hand_in: None,
    name_of,
    same_call: same,
};

pub(super) fn read(body: &Json) -> Option<HookEvent> {
    match body["hook_event_name"].as_str()? {
        "SessionStart" => Some(HookEvent::Start),
        "PreToolUse" => Some(HookEvent::Before {
            id: text(body, "tool_use_id")?,
            tool: text(body, "tool_name")?,
            input: body["tool_input"].clone(),
        }),
        "PostToolUse" => Some(HookEvent::After {
            id: text(body, "tool_use_id").unwrap_or_default(),
            response: body["tool_response"].clone(),
            succeeded: None,
        }),
        _ => Some(HookEvent::Other),
    }
}

pub(super) fn verdict(decision: &Decision) -> HookAnswer {
    match decision {
        Decision::Allow => HookAnswer::silent(),
        Decision::Deny { reason } => HookAnswer::refusal(reason),
    }
}

pub(super) fn replacement(cleaned: &Json) -> HookAnswer {
    let text = cleaned.as_str().map_or_else(|| cleaned.to_string(), str::to_owned);
    HookAnswer::json(&json!({ "decision": "block", "reason": text }))
}

/// All shells have one name towards hooks.
fn name_of(tool: &str) -> &str {
    if matches!(tool, "exec_command" | "shell" | "shell_command" | "local_shell") { "Bash" } else { tool }
}

/// The hook is told the command; the model gave it under the name that its tool has for it.
fn same(asked: (&str, &Json), hooked: (&str, &Json)) -> bool {
    if hooked.0 != "Bash" && hooked.0 != "apply_patch" {
        return asked == hooked;
    }
    let hooked = hooked.1["command"].as_str();
    let given = [&asked.1["cmd"], &asked.1["command"], &asked.1["input"], asked.1];
    hooked.is_some() && given.iter().any(|value| value.as_str() == hooked)
}
