//! The hook dialect of Codex. Hooks see every shell tool as `Bash`, and a patch as a command. A result is replaced by
//! blocking it with the text that the model sees instead, without the exit code.

use model::gateway::{ChunkFormat, OutputChunk};
use model::wire::ToolCall;
use serde_json::{Value as Json, json};

use crate::guard::dialect::{CallDecision, HookAnswer, HookDialect, HookEvent, RuntimeQuirks, text};
use crate::runtime::contract::Hook;

/// All of them run our one command.
pub const HOOKS: &[(Hook, &str)] = &[
    (Hook::Start, "SessionStart"),
    (Hook::Before, "PreToolUse"),
    (Hook::After, "PostToolUse"),
    // Failed commands come as `PostToolUse` too.
    (Hook::AfterFailure, "PostToolUse"),
];

pub const DIALECT: HookDialect = HookDialect {
    read,
    verdict,
    replacement,
    chunk_format: ChunkFormat { read: portion, waits_from: redact::unfinished },
    quirks: QUIRKS,
};

/// The feature is off, but the newest models have these tools whatever the configuration says.
const NO_SUB_AGENTS: &str = "sub-agents of Codex are switched off: do this work yourself";

const HEAD_STARTS: [&str; 2] = ["Chunk ID: ", "Wall time: "];
const MOST_HEAD_LINES: usize = 12;

const QUIRKS: RuntimeQuirks = RuntimeQuirks {
    tools_without_hooks: &["write_stdin", "update_plan", "request_user_input", "tool_search"],
    switched_off: &[("collaboration__", NO_SUB_AGENTS), ("multi_agent_v1__", NO_SUB_AGENTS)],
    events: &[],
    refusals: &[
        "unsupported call: ",
        "unsupported custom tool call: ",
        "failed to parse function arguments: ",
    ],
    errors_are_marked: false,
    replacing_loses_exit_code: true,
    reminder: None,
    result_tool: None,
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
        "PostToolUse" => Some(HookEvent::After {
            id: text(body, "tool_use_id").unwrap_or_default(),
            response: body["tool_response"].clone(),
            succeeded: None,
        }),
        _ => Some(HookEvent::Other),
    }
}

fn verdict(decision: &CallDecision) -> HookAnswer {
    match decision {
        CallDecision::Allow => HookAnswer::silent(),
        CallDecision::Deny { reason, .. } => HookAnswer::refusal(reason),
    }
}

fn replacement(_: &Json, cleaned: &Json) -> HookAnswer {
    let text = cleaned.as_str().map_or_else(|| cleaned.to_string(), str::to_owned);
    HookAnswer::json(&json!({ "decision": "block", "reason": text }))
}

/// `exec_command` returns the output so far, `write_stdin` the output since then. Codex adds a few lines at the start
/// of both, unless a hook replaced the text.
fn portion(call: &ToolCall, text: &str) -> Option<OutputChunk> {
    let head = head(text);
    let running = head.lines().find_map(|line| line.strip_prefix("Process running with session ID "));
    let session = match call.name.as_str() {
        "exec_command" => running?.to_owned(),
        "write_stdin" if text.starts_with("write_stdin failed") => return None,
        "write_stdin" => call.input["session_id"].to_string(),
        _ => return None,
    };
    Some(OutputChunk { session, output: head.len()..text.len(), is_running: running.is_some() })
}

/// Codex's own lines at the start.
fn head(text: &str) -> &str {
    let lines = text.split_inclusive('\n').take(MOST_HEAD_LINES);
    let mut ends = lines.scan(0, |end, line| {
        *end += line.len();
        Some((*end, line.trim_end()))
    });
    let end = ends.find(|(_, line)| *line == "Output:").map_or(0, |(end, _)| end);
    if HEAD_STARTS.iter().any(|start| text.starts_with(start)) { &text[..end] } else { "" }
}

/// Hooks see one name for all shells.
fn name_of(tool: &str) -> &str {
    if matches!(tool, "exec_command" | "shell" | "shell_command" | "local_shell") { "Bash" } else { tool }
}

/// The hook gets only the command; in the model's call the key depends on the tool.
fn same(asked: (&str, &Json), hooked: (&str, &Json)) -> bool {
    if hooked.0 != "Bash" && hooked.0 != "apply_patch" {
        return asked == hooked;
    }
    let given = match asked.0 {
        "exec_command" => &asked.1["cmd"],
        // The patch itself, or an object around it.
        "apply_patch" if asked.1.is_object() => &asked.1["input"],
        "apply_patch" => asked.1,
        _ => &asked.1["command"],
    };
    let is_given = hooked
        .1
        .as_object()
        .is_some_and(|given_to_hook| given_to_hook.len() == 1 && given_to_hook.get("command") == Some(given));
    name_of(asked.0) == hooked.0 && given.is_string() && is_given
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::gateway::CommandOutputs;
    use proptest::prelude::*;
    use redact::Redactor;

    const KEY: &str = "sk-test-4f9c1d7a2b8e6035";
    const TOKEN: &str = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8";

    fn call(name: &str, input: Json) -> ToolCall {
        ToolCall { id: String::new(), name: name.to_owned(), input }
    }

    /// What Codex sends when a command prints these parts, one part per result.
    fn results(parts: &[String]) -> Vec<(ToolCall, String)> {
        let result = |(number, part): (usize, &String)| {
            let how = match number + 1 {
                all if all == parts.len() => "Process exited with code 0",
                _ => "Process running with session ID 77",
            };
            let call = match number {
                0 => call("exec_command", json!({ "cmd": "x" })),
                _ => call("write_stdin", json!({ "session_id": 77 })),
            };
            (call, format!("Chunk ID: {number:06}\nWall time: 0.1 seconds\n{how}\nOutput:\n{part}"))
        };
        parts.iter().enumerate().map(result).collect()
    }

    /// What the model sees of each.
    fn shown(parts: &[String]) -> Vec<String> {
        let redactor = Redactor::with_known([("key", KEY)]).unwrap();
        let mut outputs = CommandOutputs::new(DIALECT.chunk_format);
        let show = |(call, text): (ToolCall, String)| {
            let placed = outputs.place(Some(&call), &text);
            let Some(continued) = placed.continued() else { return text };
            redactor.redact_after(continued.before, &placed.text[continued.at..]).into_owned()
        };
        results(parts).into_iter().map(show).collect()
    }

    fn cut(text: &str, mut search: Vec<usize>) -> Vec<String> {
        search.sort_unstable();
        let mut at = 0;
        let mut parts: Vec<String> = Vec::new();
        for place in search.into_iter().map(|place| place % (text.len() + 1)).chain([text.len()]) {
            let end = text.floor_char_boundary(place.max(at));
            parts.push(text[at..end].to_owned());
            at = end;
        }
        parts
    }

    #[test]
    fn a_hook_tells_the_command_of_the_same_tool_and_nothing_else() {
        let check = |asked: (&str, Json), hooked: (&str, Json), same_call: bool| {
            assert_eq!(same((asked.0, &asked.1), (hooked.0, &hooked.1)), same_call, "{asked:?} {hooked:?}");
        };
        let hook_input = |command: &str| json!({ "command": command });
        check(("exec_command", json!({ "cmd": "ls", "workdir": "/" })), ("Bash", hook_input("ls")), true);
        check(("shell_command", hook_input("ls")), ("Bash", hook_input("ls")), true);
        check(("apply_patch", json!("*** Begin")), ("apply_patch", hook_input("*** Begin")), true);
        check(
            ("apply_patch", json!({ "input": "*** Begin" })),
            ("apply_patch", hook_input("*** Begin")),
            true,
        );
        check(("exec_command", json!({ "cmd": "ls" })), ("Bash", hook_input("id")), false);
        check(("exec_command", json!({ "cmd": "ls", "input": "id" })), ("Bash", hook_input("id")), false);
        check(("exec_command", json!({ "cmd": "ls" })), ("apply_patch", hook_input("ls")), false);
        check(("update_plan", hook_input("ls")), ("Bash", hook_input("ls")), false);
        check(("apply_patch", json!("rm -r x")), ("Bash", hook_input("rm -r x")), false);
        check(
            ("exec_command", json!({ "cmd": "ls" })),
            ("Bash", json!({ "command": "ls", "cwd": "/" })),
            false,
        );
        check(("exec_command", json!({})), ("Bash", json!({})), false);
        check(("mcp__a__b", json!({ "x": 1 })), ("mcp__a__b", json!({ "x": 1 })), true);
        check(("mcp__a__b", json!({ "x": 1 })), ("mcp__a__b", json!({ "x": 2 })), false);
    }

    proptest! {
        #[test]
        fn no_border_lets_a_secret_through(
            before in "[ -~\\n]{0,30}",
            places in proptest::collection::vec(0usize..400, 1..6),
            secret in prop_oneof![Just(KEY), Just(TOKEN)],
        ) {
            let text = format!("{before}\n{secret}\nend");
            let parts = shown(&cut(&text, places));
            for at in 0..=secret.len() - 8 {
                let fragment = &secret[at..at + 8];
                prop_assert!(parts.iter().all(|part| !part.contains(fragment)), "{fragment} in {parts:?}");
            }
        }

        #[test]
        fn ordinary_words_stay_as_they_are(
            text in "([a-z]{1,12}[ .\\n]){0,30}",
            places in proptest::collection::vec(0usize..400, 1..6),
        ) {
            prop_assert_eq!(shown(&cut(&text, places)).concat(), text);
        }
    }

    #[test]
    fn results_that_are_no_portions_are_left_alone() {
        let alone = |name: &str, text: &str| portion(&call(name, json!({ "session_id": 7 })), text).is_none();
        assert!(alone("exec_command", "Chunk ID: 1\nProcess exited with code 0\nOutput:\nx"));
        assert!(alone("exec_command", "printed\nProcess running with session ID 7\nOutput:\nx"));
        assert!(alone("write_stdin", "write_stdin failed: Unknown process id 7"));
        assert!(alone("apply_patch", "Chunk ID: 1\nProcess running with session ID 7\nOutput:\nx"));
        let replaced = portion(&call("write_stdin", json!({ "session_id": 7 })), "[REDACTED:key] done");
        assert_eq!(replaced.map(|portion| portion.output), Some(0..19));
    }
}
