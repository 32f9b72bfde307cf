//! Claude Code: hooks get one JSON object; a denial is an object too; a result is replaced only by an object of the
//! tool's full shape, anything less is ignored without a word.

use serde_json::{Value as Json, json};

use super::{HookAnswer, HookEvent, text};
use crate::guard::calls::{Decision, Habits};

pub(super) const HABITS: Habits = Habits {
    tools_without_hooks: &[],
    switched_off: &[],
    events: &["<task-notification>"],
    refusals: &["<tool_use_error>"],
    errors_are_marked: true,
    hand_in: Some("StructuredOutput"),
    name_of: |tool| tool,
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
        "PostToolUse" => Some(after(body, "tool_response", true)),
        "PostToolUseFailure" => Some(after(body, "error", false)),
        _ => Some(HookEvent::Other),
    }
}

fn after(body: &Json, key: &str, succeeded: bool) -> HookEvent {
    let id = text(body, "tool_use_id").unwrap_or_default();
    HookEvent::After { id, response: body[key].clone(), succeeded: Some(succeeded) }
}

pub(super) fn verdict(decision: &Decision) -> HookAnswer {
    match decision {
        Decision::Allow => HookAnswer::silent(),
        Decision::Deny { reason } => HookAnswer::json(&json!({ "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": reason,
        }})),
    }
}

pub(super) fn replacement(body: &Json, cleaned: &Json) -> HookAnswer {
    HookAnswer::json(&json!({ "hookSpecificOutput": {
        "hookEventName": body["hook_event_name"],
        "updatedToolOutput": cleaned,
    }}))
}

/// Arguments may have been completed with defaults, never changed: every value that the hook has and the model did
/// not give is a number, a flag or nothing, so that no word of a command can come from elsewhere.
fn same(asked: (&str, &Json), hooked: (&str, &Json)) -> bool {
    let (Json::Object(given), Json::Object(used)) = (asked.1, hooked.1) else { return asked == hooked };
    let complete = given.iter().all(|(key, value)| used.get(key).is_none_or(|other| other == value));
    let nothing_new = used.iter().all(|(key, value)| {
        given.contains_key(key) || matches!(value, Json::Null | Json::Bool(_) | Json::Number(_))
    });
    asked.0 == hooked.0 && complete && nothing_new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_defaults_may_be_added() {
        let asked = json!({ "command": "ls" });
        let check = |hooked: Json, same_call: bool| {
            assert_eq!(same(("Bash", &asked), ("Bash", &hooked)), same_call, "{hooked}");
        };
        check(json!({ "command": "ls" }), true);
        check(json!({ "command": "ls", "timeout": 5 }), true);
        check(json!({ "command": "ls", "cwd": "/etc" }), false);
        check(json!({ "command": "ls; id" }), false);
        assert!(!same(("Bash", &asked), ("Read", &asked)));
    }
}
