//! Tree to text: block style, and a scalar is quoted whenever reading it back plain would make it something else.

use crate::{Node, Value};

/// The document as YAML, ending in a newline. `comment` may add a trailing remark to the line of a scalar.
pub fn emit(node: &Node, comment: &dyn Fn(&Node) -> Option<String>) -> String {
    let mut out = String::new();
    block(node, 0, &mut out, comment);
    out
}

fn block(node: &Node, indent: usize, out: &mut String, comment: &dyn Fn(&Node) -> Option<String>) {
    match &node.value {
        Value::Map(entries) if !entries.is_empty() => {
            for entry in entries {
                pad(indent, out);
                out.push_str(&quoted_if_needed(&entry.key));
                out.push(':');
                value(&entry.node, indent, out, comment);
            }
        }
        Value::List(items) if !items.is_empty() => {
            for item in items {
                pad(indent, out);
                out.push('-');
                if is_nested(item) {
                    // The first line of the item follows its dash.
                    let mut nested = String::new();
                    block(item, indent + 2, &mut nested, comment);
                    out.push(' ');
                    out.push_str(nested.trim_start_matches(' '));
                } else {
                    value(item, indent, out, comment);
                }
            }
        }
        _ => {
            pad(indent, out);
            out.push_str(&inline(node));
            out.push('\n');
        }
    }
}

fn value(node: &Node, indent: usize, out: &mut String, comment: &dyn Fn(&Node) -> Option<String>) {
    if is_nested(node) {
        out.push('\n');
        block(node, indent + 2, out, comment);
        return;
    }
    out.push(' ');
    out.push_str(&inline(node));
    if let Some(remark) = comment(node) {
        out.push_str("  # ");
        out.push_str(&remark);
    }
    out.push('\n');
}

fn is_nested(node: &Node) -> bool {
    match &node.value {
        Value::Map(entries) => !entries.is_empty(),
        Value::List(items) => !items.is_empty(),
        _ => false,
    }
}

fn inline(node: &Node) -> String {
    match &node.value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(raw) => raw.clone(),
        Value::Text(text) => quoted_if_needed(text),
        Value::List(_) => "[]".to_owned(),
        Value::Map(_) => "{}".to_owned(),
    }
}

/// Unquoted only for words that every YAML parser reads as the same text.
fn quoted_if_needed(text: &str) -> String {
    let plain_start = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '/');
    let plain_rest = text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./@+".contains(c));
    let word = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
        .contains(&text.to_ascii_lowercase().as_str());
    if plain_start && plain_rest && !word { text.to_owned() } else { quote(text) }
}

fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control()
                || matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}') =>
            {
                out.push_str(&format!("\\U{:08x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn pad(indent: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', indent));
}
