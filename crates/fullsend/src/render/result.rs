//! The accepted result, for programs and for people. The agent wrote it, so commands for a terminal or a CI in it are
//! escaped.

use serde_json::Value as Json;

use super::diagnostics::clean_text;
use super::workflow_commands::neutralise_json;

/// A JSON document as text that reads back as the same document. Characters that a terminal or a CI would obey are
/// written as escapes.
pub fn json(document: &Json) -> String {
    let mut text = String::new();
    for letter in format!("{document:#}\n").chars() {
        match letter {
            '\u{7f}'..='\u{9f}' => text.push_str(&format!("\\u{:04x}", u32::from(letter))),
            letter => text.push(letter),
        }
    }
    neutralise_json(&text).into_owned()
}

/// A JSON document as plain text: strings as they are, the fields of an object one after another.
pub fn text(document: &Json) -> String {
    let Json::Object(fields) = document else { return line(&plain(document)) };
    if let [only] = &fields.values().collect::<Vec<_>>()[..] {
        return line(&plain(only));
    }
    fields.iter().map(|(name, value)| field(name, &plain(value))).collect()
}

/// Text that is not JSON.
pub fn other(bytes: &[u8]) -> String {
    line(&clean_text(&String::from_utf8_lossy(bytes).replace('\t', "    ")))
}

fn plain(value: &Json) -> String {
    match value {
        Json::String(text) => clean_text(&text.replace('\t', "    ")),
        value => clean_text(&value.to_string()),
    }
}

fn field(name: &str, value: &str) -> String {
    let name = clean_text(name).replace('\n', " ");
    if value.trim_end().contains('\n') {
        let lines: Vec<String> = value.trim_end().lines().map(|line| format!("  {line}")).collect();
        return format!("{name}:\n{}\n", lines.join("\n"));
    }
    format!("{name}: {}\n", value.trim_end())
}

fn line(text: &str) -> String {
    if text.is_empty() || text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn json_reads_back_and_holds_no_command() {
        let hostile = json!({ "a": "\u{1b}]0;x\u{7}\u{9b}31m", "b": ["##[add-mask]x", "\t::error::x"] });
        let text = json(&hostile);
        assert_eq!(serde_json::from_str::<Json>(&text).unwrap(), hostile);
        assert!(!text.contains("##[") && text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
        assert!(!text.lines().any(|line| line.trim_start().starts_with("::")), "{text}");
    }

    #[test]
    fn text_is_for_people() {
        assert_eq!(text(&json!({ "answer": "It works.\nReally." })), "It works.\nReally.\n");
        assert_eq!(
            text(&json!({ "fixed": true, "why": "a\u{1b}[2Jb", "how": "x\ny", "files": ["a", "b"] })),
            "fixed: true\nwhy: a\u{fffd}[2Jb\nhow:\n  x\n  y\nfiles: [\"a\",\"b\"]\n"
        );
        assert_eq!(other(b"a\tb\x1b[31m"), "a    b\u{fffd}[31m\n");
    }
}
