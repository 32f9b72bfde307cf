//! Commands that a CI finds in what a step prints: GitHub's `::name::` at the start of a line and `##[name]` anywhere,
//! Azure's `##vso[…]`, TeamCity's `##teamcity[…]`. Such commands are escaped in text of an agent, a script or a file.

use std::borrow::Cow;

/// Text in which a CI finds no command. Nothing is removed.
pub fn neutralise(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut line_start = 0;
    let mut at_start = true;
    for (index, c) in text.char_indices() {
        if is_line_end(c) {
            out.push(c);
            line_start = out.len();
            at_start = true;
            continue;
        }
        let rest = &text[index..];
        // `::: ` is not a command; diagnostics of files use it.
        if at_start && rest.starts_with("::") && !rest.starts_with("::: ") {
            out.insert_str(line_start, "| ");
        }
        if c == '[' && ends_with_marker(&out[line_start..]) {
            out.push(' ');
        }
        at_start = at_start && is_blank(c);
        out.push(c);
    }
    out
}

/// Equivalent JSON in which a CI finds no command. A line of JSON does not start with a colon; `##[` and the line ends
/// of other systems occur only inside strings.
pub fn neutralise_json(json: &str) -> Cow<'_, str> {
    if !json.contains("##") && !json.contains(|c| c != '\n' && is_line_end(c)) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '[' if ends_with_marker(&out) => out.push_str("\\u005b"),
            c if c != '\n' && is_line_end(c) => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// `##`, and letters after it.
fn ends_with_marker(text: &str) -> bool {
    text.trim_end_matches(|c: char| c.is_ascii_alphanumeric()).ends_with("##")
}

/// Every character that some reader treats as the end of a line.
fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Invisible characters before a command, which a reader may strip.
fn is_blank(c: char) -> bool {
    let is_format = matches!(c, '\u{ad}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fffd}');
    c.is_whitespace() || c.is_control() || is_format
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_starts_a_command() {
        for (text, expected) in [
            ("a::b ::c", "a::b ::c"),
            ("::add-mask::x", "| ::add-mask::x"),
            ("a\n  ::set-env name=x::y", "a\n|   ::set-env name=x::y"),
            ("a\r::x", "a\r| ::x"),
            ("a\r\n\t::x\n::y", "a\r\n| \t::x\n| ::y"),
            ("a\u{2028}::x\u{85}::y", "a\u{2028}| ::x\u{85}| ::y"),
            ("\u{feff}\u{200b}::x", "| \u{feff}\u{200b}::x"),
            ("\u{a0}\u{3000}::x", "| \u{a0}\u{3000}::x"),
            ("\u{1b}::x", "| \u{1b}::x"),
            (":::x", "| :::x"),
            (" ::: a.yaml:1:2", " ::: a.yaml:1:2"),
            ("a ##[add-mask]b", "a ## [add-mask]b"),
            (
                "###[x] ##vso[task.setvariable]y ##teamcity[z]",
                "### [x] ##vso [task.setvariable]y ##teamcity [z]",
            ),
            ("# [a] #[b]", "# [a] #[b]"),
        ] {
            assert_eq!(neutralise(text), expected, "{text:?}");
        }
    }

    #[test]
    fn json_means_the_same() {
        let value =
            serde_json::json!({ "a": "##[add-mask]x ##vso[y]\u{2028}::z", "b": ["#", "[", "##"], "##": [1] });
        let text = value.to_string();
        let neutral = neutralise_json(&text);
        assert!(!neutral.contains("##[") && !neutral.contains("##vso["), "{neutral}");
        assert!(!neutral.contains('\u{2028}'), "{neutral}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&neutral).unwrap(), value);
        assert_eq!(neutralise_json("{\"a\":[1]}"), "{\"a\":[1]}");
    }
}
