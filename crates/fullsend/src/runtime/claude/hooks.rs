//! The hook dialect of Claude Code. Hooks get one JSON object and answer with one. A result is replaced only by an object
//! of the tool's full shape; anything less is ignored silently.

use serde_json::{Value as Json, json};

use model::gateway::ChunkFormat;

use crate::guard::dialect::{CallDecision, HookAnswer, HookDialect, HookEvent, RuntimeQuirks, text};
use crate::runtime::contract::Hook;

/// All of them run our one command.
pub const HOOKS: &[(Hook, &str)] = &[
    (Hook::Start, "SessionStart"),
    (Hook::Before, "PreToolUse"),
    (Hook::After, "PostToolUse"),
    (Hook::AfterFailure, "PostToolUseFailure"),
];

pub const DIALECT: HookDialect =
    HookDialect { read, verdict, replacement, chunk_format: ChunkFormat::NONE, quirks: QUIRKS };

const QUIRKS: RuntimeQuirks = RuntimeQuirks {
    tools_without_hooks: &[],
    switched_off: &[],
    events: &["<task-notification>"],
    refusals: &["<tool_use_error>"],
    errors_are_marked: true,
    replacing_loses_exit_code: false,
    reminder: Some("system-reminder"),
    result_tool: Some("StructuredOutput"),
    name_of,
    same_call: same,
};

fn read(body: &Json) -> Option<HookEvent> {
    match body["hook_event_name"].as_str()? {
        "SessionStart" => Some(HookEvent::Start),
        "PreToolUse" => Some(HookEvent::Before {
            id: text(body, "tool_use_id")?,
            tool: text(body, "tool_name")?,
            input: body["tool_input"].clone(),
        }),
        "PostToolUse" => Some(after(body, "tool_response", succeeded(&body["tool_response"]))),
        "PostToolUseFailure" => Some(after(body, "error", Some(false))),
        _ => Some(HookEvent::Other),
    }
}

fn after(body: &Json, key: &str, succeeded: Option<bool>) -> HookEvent {
    let id = text(body, "tool_use_id").unwrap_or_default();
    HookEvent::After { id, response: body[key].clone(), succeeded }
}

/// A failed command may be reported as one text. An interrupted command, or one that runs in the background, has not ended.
fn succeeded(response: &Json) -> Option<bool> {
    if response.as_str().is_some_and(|text| text.starts_with("Error: ")) {
        return Some(false);
    }
    let has_ended = response["interrupted"] != true && response["backgroundTaskId"].is_null();
    has_ended.then_some(true)
}

fn verdict(decision: &CallDecision) -> HookAnswer {
    match decision {
        CallDecision::Allow => HookAnswer::silent(),
        CallDecision::Deny { reason, .. } => HookAnswer::json(&json!({ "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": reason,
        }})),
    }
}

fn replacement(body: &Json, cleaned: &Json) -> HookAnswer {
    HookAnswer::json(&json!({ "hookSpecificOutput": {
        "hookEventName": body["hook_event_name"],
        "updatedToolOutput": failed_command(body, cleaned).as_ref().unwrap_or(cleaned),
    }}))
}

/// A failed command is reported as one text, and its replacement must have the shape of a result.
fn failed_command(body: &Json, cleaned: &Json) -> Option<Json> {
    (body["tool_name"] == "Bash" && cleaned.is_string()).then(|| {
        json!({ "stdout": cleaned, "stderr": "", "interrupted": false, "isImage": false, "noOutputExpected": false })
    })
}

/// Defaults that the tested version adds to a call: tool and argument.
const DEFAULTS: &[(&str, &str)] =
    &[("Edit", "replace_all"), ("ToolSearch", "max_results"), ("Monitor", "timeout_ms")];

/// `Task` is the old name of `Agent`; models and agent definitions still use it.
fn name_of(tool: &str) -> &str {
    if tool == "Task" { "Agent" } else { tool }
}

/// Everything that the model sent is there, unchanged. Only known defaults may be added. None of them is text, so every
/// part of a command comes from the model.
fn same(asked: (&str, &Json), hooked: (&str, &Json)) -> bool {
    let (Json::Object(given), Json::Object(used)) = (asked.1, hooked.1) else {
        return name_of(asked.0) == name_of(hooked.0) && asked.1 == hooked.1;
    };
    let complete = given.iter().all(|(key, value)| used.get(key) == Some(value));
    let is_default = |(key, value): (&String, &Json)| {
        DEFAULTS.contains(&(hooked.0, key.as_str())) && matches!(value, Json::Bool(_) | Json::Number(_))
    };
    name_of(asked.0) == name_of(hooked.0)
        && complete
        && used.iter().all(|pair| given.contains_key(pair.0) || is_default(pair))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn success_needs_an_ended_command() {
        let check = |response: Json, expected: Option<bool>| {
            let body =
                json!({ "hook_event_name": "PostToolUse", "tool_use_id": "a", "tool_response": response });
            let Some(HookEvent::After { succeeded, .. }) = read(&body) else { panic!("{body}") };
            assert_eq!(succeeded, expected, "{body}");
        };
        check(json!({ "stdout": "x", "interrupted": false }), Some(true));
        check(json!("text"), Some(true));
        check(json!("Error: Exit code 3\nprinted"), Some(false));
        check(json!({ "stdout": "x", "interrupted": true }), None);
        check(json!({ "stdout": "x", "interrupted": false, "backgroundTaskId": "b1" }), None);
    }

    #[test]
    fn arguments_match_except_for_known_defaults() {
        let check = |tool: &str, asked: Json, hooked: Json, same_call: bool| {
            assert_eq!(same((tool, &asked), (tool, &hooked)), same_call, "{tool}: {asked} {hooked}");
        };
        let asked = json!({ "command": "ls", "timeout": 5 });
        check("Bash", asked.clone(), asked.clone(), true);
        check("Bash", asked.clone(), json!({ "command": "ls" }), false);
        check("Bash", asked.clone(), json!({ "command": "ls", "timeout": 6 }), false);
        check("Bash", asked.clone(), json!({ "command": "ls; id", "timeout": 5 }), false);
        check("Bash", json!({ "command": "ls" }), json!({ "command": "ls", "cwd": "/etc" }), false);
        check(
            "Bash",
            json!({ "command": "ls" }),
            json!({ "command": "ls", "run_in_background": true }),
            false,
        );
        let edit = json!({ "old_string": "a" });
        check("Edit", edit.clone(), json!({ "old_string": "a", "replace_all": false }), true);
        check("Edit", edit.clone(), json!({ "old_string": "a", "replace_all": "no" }), false);
        check("Write", edit, json!({ "old_string": "a", "replace_all": false }), false);
        assert!(!same(("Bash", &asked), ("Read", &asked)));
        assert!(same(("Task", &asked), ("Agent", &asked)) && same(("Agent", &asked), ("Task", &asked)));
    }
}
