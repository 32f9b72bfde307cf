//! What the guard must know about agents of the protocol: they ask no hook, and some use other names for common tools.

use model::gateway::ChunkFormat;
use serde_json::Value as Json;

use crate::guard::dialect::{CallDecision, EVERY_TOOL, HookAnswer, HookDialect, RuntimeQuirks};

pub const DIALECT: HookDialect = HookDialect {
    read: |_| None,
    verdict: |decision| match decision {
        CallDecision::Allow => HookAnswer::silent(),
        CallDecision::Deny { reason, .. } => HookAnswer::refusal(reason),
    },
    replacement: |_, cleaned: &Json| HookAnswer::json(cleaned),
    chunk_format: ChunkFormat::NONE,
    quirks: RuntimeQuirks {
        tools_without_hooks: EVERY_TOOL,
        switched_off: &[],
        events: &[],
        refusals: &[],
        errors_are_marked: false,
        replacing_loses_exit_code: false,
        reminder: None,
        result_tool: None,
        name_of,
        same_call: |asked, hooked| asked == hooked,
    },
};

/// The names of tool allowlists, for the tools of opencode.
fn name_of(tool: &str) -> &str {
    match tool {
        "bash" => "Bash",
        "read" => "Read",
        "write" => "Write",
        "edit" => "Edit",
        "glob" => "Glob",
        "grep" => "Grep",
        "webfetch" => "WebFetch",
        "task" => "Task",
        "todowrite" => "TodoWrite",
        other => other,
    }
}
