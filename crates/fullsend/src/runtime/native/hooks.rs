//! The hook dialect of the native runtime: one JSON request, one JSON reply.

use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use model::gateway::ChunkFormat;

use crate::guard::dialect::{CallDecision, HookAnswer, HookDialect, HookEvent, RuntimeQuirks};
use crate::runtime::contract::Hook;

/// All of them run our one command.
pub const HOOKS: &[(Hook, &str)] = &[
    (Hook::Start, "start"),
    (Hook::Before, "before"),
    (Hook::After, "after"),
    (Hook::AfterFailure, "after"),
];

pub const DIALECT: HookDialect =
    HookDialect { read, verdict, replacement, chunk_format: ChunkFormat::NONE, quirks: QUIRKS };

const QUIRKS: RuntimeQuirks = RuntimeQuirks {
    tools_without_hooks: &[],
    switched_off: &[],
    events: &[],
    refusals: &[],
    errors_are_marked: true,
    replacing_loses_exit_code: false,
    reminder: None,
    result_tool: Some("finish"),
    name_of: |tool| tool,
    same_call: |asked, hooked| asked == hooked,
};

/// What the agent sends to the guard.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum HookRequest {
    Start,
    Before { id: String, tool: String, input: Json },
    After { id: String, text: String, is_error: bool },
}

/// What the guard answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HookReply {
    /// Why the call must not run.
    pub deny: Option<String>,
    /// What the model sees instead of the result.
    pub text: Option<String>,
}

fn read(body: &Json) -> Option<HookEvent> {
    Some(match HookRequest::deserialize(body).ok()? {
        HookRequest::Start => HookEvent::Start,
        HookRequest::Before { id, tool, input } => HookEvent::Before { id, tool, input },
        HookRequest::After { id, text, is_error } => {
            HookEvent::After { id, response: Json::String(text), succeeded: Some(!is_error) }
        }
    })
}

fn verdict(decision: &CallDecision) -> HookAnswer {
    match decision {
        CallDecision::Allow => HookAnswer::json(&json!({})),
        CallDecision::Deny { reason, .. } => HookAnswer::json(&json!({ "deny": reason })),
    }
}

fn replacement(_: &Json, cleaned: &Json) -> HookAnswer {
    HookAnswer::json(&json!({ "text": cleaned }))
}
