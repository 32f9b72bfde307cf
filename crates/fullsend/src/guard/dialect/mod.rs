//! The shapes in which runtimes ask their hooks and hear the answers. Each file knows one runtime's words: what it sends,
//! which answer it honours, and what it does without asking. None decides anything.

mod claude;
mod codex;
pub mod native;

use egress::door::Portioning;
use serde_json::Value as Json;

use super::calls::{Decision, Habits};
use crate::harness::names::RuntimeName;

/// What a hook has to say, in neutral words.
#[derive(Clone, Debug, PartialEq)]
pub enum HookEvent {
    /// The runtime has started and its hooks run.
    Start,
    /// A call is about to run.
    Before { id: String, tool: String, input: Json },
    /// A call has run, or failed.
    After { id: String, response: Json, succeeded: Option<bool> },
    /// Something that needs no answer.
    Other,
}

/// What the hook's process does: its exit code, and what it prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookAnswer {
    pub code: u8,
    /// On standard output for 0, on standard error for everything else.
    pub text: String,
}

impl HookAnswer {
    /// Nothing to say: the call goes on, the result stays.
    pub fn silent() -> Self {
        Self { code: 0, text: String::new() }
    }

    fn json(value: &Json) -> Self {
        Self { code: 0, text: value.to_string() }
    }

    /// The one answer that every runtime takes for a denial, whatever it asked.
    pub fn refusal(reason: &str) -> Self {
        Self { code: 2, text: reason.to_owned() }
    }
}

/// Reads what a hook was given on its standard input. `None`: it is not what this runtime sends.
pub fn read(runtime: RuntimeName, body: &Json) -> Option<HookEvent> {
    match runtime {
        RuntimeName::Claude => claude::read(body),
        RuntimeName::Codex => codex::read(body),
        RuntimeName::Native => native::read(body),
    }
}

/// The verdict on a call, in the runtime's words.
pub fn verdict(runtime: RuntimeName, decision: &Decision) -> HookAnswer {
    match runtime {
        RuntimeName::Claude => claude::verdict(decision),
        RuntimeName::Codex => codex::verdict(decision),
        RuntimeName::Native => native::verdict(decision),
    }
}

/// A result that must be shown differently.
pub fn replacement(runtime: RuntimeName, body: &Json, cleaned: &Json) -> HookAnswer {
    match runtime {
        RuntimeName::Claude => claude::replacement(body, cleaned),
        RuntimeName::Codex => codex::replacement(cleaned),
        RuntimeName::Native => native::replacement(cleaned),
    }
}

pub fn habits(runtime: RuntimeName) -> Habits {
    match runtime {
        RuntimeName::Claude => claude::HABITS,
        RuntimeName::Codex => codex::HABITS,
        RuntimeName::Native => native::HABITS,
    }
}

/// How the output of one command comes in several results. Two of the runtimes give it whole.
pub fn portioning(runtime: RuntimeName) -> Portioning {
    match runtime {
        RuntimeName::Claude | RuntimeName::Native => Portioning::NONE,
        RuntimeName::Codex => Portioning { read: codex::portion, waits_from: scan::unfinished },
    }
}

/// The command line that a call would run, under whatever name its tool has for it. A patch is called a command by
/// one runtime and is none.
pub fn command(tool: &str, input: &Json) -> Option<String> {
    let keys: &[&str] = match tool {
        "apply_patch" => return None,
        "write_stdin" => &["chars"],
        _ => &["command", "cmd"],
    };
    keys.iter().find_map(|key| match &input[key] {
        Json::String(text) => Some(text.clone()),
        Json::Array(words) => words_of(words),
        _ => None,
    })
}

/// `["bash", "-lc", "script"]` is its script; anything else is read as one line.
fn words_of(words: &[Json]) -> Option<String> {
    let words: Vec<&str> = words.iter().filter_map(Json::as_str).collect();
    match words[..] {
        [] => None,
        [shell, flag, script] if shell.ends_with("sh") && flag.starts_with('-') && flag.ends_with('c') => {
            Some(script.to_owned())
        }
        _ => Some(words.join(" ")),
    }
}

/// The address that a call would fetch.
pub fn address<'i>(tool: &str, input: &'i Json) -> Option<&'i str> {
    let fetches = tool.to_ascii_lowercase().ends_with("fetch");
    input["url"].as_str().filter(|_| fetches)
}

fn text(body: &Json, key: &str) -> Option<String> {
    body[key].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn commands_and_addresses_are_found_under_their_names() {
        let check = |tool: &str, input: Json, expected: Option<&str>| {
            assert_eq!(command(tool, &input).as_deref(), expected, "{tool} {input}");
        };
        check("Bash", json!({ "command": "ls" }), Some("ls"));
        check("exec_command", json!({ "cmd": "ls" }), Some("ls"));
        check("shell", json!({ "command": ["bash", "-lc", "ls; id"] }), Some("ls; id"));
        check("shell", json!({ "command": ["rm", "-rf", "/"] }), Some("rm -rf /"));
        check("write_stdin", json!({ "chars": "ls\n" }), Some("ls\n"));
        check("apply_patch", json!({ "command": "*** rm -rf /" }), None);
        check("Read", json!({ "path": "/x" }), None);
        assert_eq!(address("WebFetch", &json!({ "url": "http://x/" })), Some("http://x/"));
        assert_eq!(address("mcp__web__fetch", &json!({ "url": "http://x/" })), Some("http://x/"));
        assert_eq!(address("Link", &json!({ "url": "relative" })), None);
    }
}
