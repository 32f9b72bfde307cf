//! Finds what a tool call would run and fetch in its input. Pure.

use serde_json::Value as Json;

/// Tools that run a command line, of any MCP server.
const SHELLS: &[&str] = &[
    "bash",
    "sh",
    "zsh",
    "shell",
    "powershell",
    "terminal",
    "exec_command",
    "shell_command",
    "local_shell",
    "run_command",
    "execute_command",
    "run_shell_command",
    "run_terminal_cmd",
];

/// Why a shell call is denied whose command cannot be found.
pub const UNREADABLE: &str = "the command cannot be read: pass it as one string in `command`";

fn is_shell(tool: &str) -> bool {
    let name = tool.rsplit("__").next().unwrap_or(tool);
    SHELLS.iter().any(|shell| name.eq_ignore_ascii_case(shell))
}

/// The command line that a call would run. Codex calls a patch a command; it is not one.
pub fn command(tool: &str, input: &Json) -> Option<String> {
    let keys: &[&str] = match tool {
        "apply_patch" => return None,
        "write_stdin" => &["chars"],
        _ => &["command", "cmd"],
    };
    let lines: Vec<String> = match input {
        Json::Object(fields) => keys.iter().filter_map(|key| line_of(fields.get(*key)?)).collect(),
        whole if is_shell(tool) => line_of(whole).into_iter().collect(),
        _ => Vec::new(),
    };
    // If two keys are present, only the tool knows which one it uses.
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Whether a shell call has text, but no command where one belongs. It cannot be judged and must not run.
pub fn is_unreadable(tool: &str, input: &Json) -> bool {
    is_shell(tool) && command(tool, input).is_none() && !strings("", input).is_empty()
}

fn line_of(written: &Json) -> Option<String> {
    match written {
        Json::String(text) => Some(text.clone()),
        Json::Array(words) => words_of(words),
        _ => None,
    }
}

/// `["bash", "-lc", "script"]` is its script; anything else is read as one line.
fn words_of(words: &[Json]) -> Option<String> {
    let word = |word: &Json| match word {
        Json::String(text) => Some(text.clone()),
        Json::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let mut words = words.iter().map(word).collect::<Option<Vec<String>>>()?;
    match &mut words[..] {
        [] => None,
        [shell, flag, script] if shell.ends_with("sh") && flag.starts_with('-') && flag.ends_with('c') => {
            Some(std::mem::take(script))
        }
        _ => Some(words.join(" ")),
    }
}

/// Where fetch tools take their address.
const ADDRESS_KEYS: &[&str] = &["url", "urls", "uri", "uris", "href", "link", "address", "endpoint"];

/// The addresses that a call would fetch.
pub fn addresses<'i>(tool: &str, input: &'i Json) -> Vec<&'i str> {
    let tool = tool.to_ascii_lowercase();
    if !tool.contains("fetch") {
        return Vec::new();
    }
    let is_address = |(key, text): &(&str, &str)| {
        let is_whole = text.contains("://") && !text.trim().contains(char::is_whitespace);
        is_whole || (tool.ends_with("fetch") && ADDRESS_KEYS.contains(key))
    };
    strings("", input).into_iter().filter(is_address).map(|(_, text)| text.trim()).collect()
}

/// Every string in a value, with its key.
fn strings<'i>(key: &'i str, value: &'i Json) -> Vec<(&'i str, &'i str)> {
    match value {
        Json::String(text) => vec![(key, text.as_str())],
        Json::Array(all) => all.iter().flat_map(|value| strings(key, value)).collect(),
        Json::Object(fields) => fields.iter().flat_map(|(key, value)| strings(key, value)).collect(),
        _ => Vec::new(),
    }
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
        assert_eq!(addresses("WebFetch", &json!({ "url": "http://x/" })), ["http://x/"]);
        assert_eq!(addresses("mcp__web__fetch", &json!({ "url": "http://x/" })), ["http://x/"]);
        assert_eq!(addresses("mcp__web__fetch", &json!({ "uri": ["a", "b"], "n": "c" })), ["a", "b"]);
        assert!(addresses("Link", &json!({ "url": "relative" })).is_empty());
        assert!(addresses("fetch_page", &json!({ "url": "relative" })).is_empty());
    }
}
