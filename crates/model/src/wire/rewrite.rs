//! Replaces values in the raw bytes of a JSON document and keeps all other bytes, because a vendor's prompt cache matches on
//! bytes.

use std::collections::HashMap;

/// Every string value that equals a key is replaced; names of members are not. `json` must be a valid document.
pub fn replace_strings<S: std::hash::BuildHasher>(
    json: &[u8],
    replacements: &HashMap<String, String, S>,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len());
    let mut at = 0;
    while let Some(length) = json[at..].iter().position(|byte| *byte == b'"') {
        let start = at + length;
        let end = end_of_string(json, start);
        out.extend_from_slice(&json[at..start]);
        let literal = &json[start..end];
        match replacement(literal, replacements).filter(|_| !is_member_name(&json[end..])) {
            Some(text) => out.extend_from_slice(serde_json::Value::from(text).to_string().as_bytes()),
            None => out.extend_from_slice(literal),
        }
        at = end;
    }
    out.extend_from_slice(&json[at..]);
    out
}

/// Sets every top-level member with one of these names to `value`, which is JSON. If there is none, adds a member with the first
/// name. `json` must be a valid object in which these members are strings, numbers or null.
pub fn set_members(json: &[u8], names: &[&str], value: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() + 32);
    let mut at = 0;
    let mut depth = 0_usize;
    let mut is_set = false;
    while at < json.len() {
        match json[at] {
            b'"' => {
                let end = end_of_string(json, at);
                out.extend_from_slice(&json[at..end]);
                let named = depth == 1 && is_member_name(&json[end..]) && is_named(&json[at..end], names);
                at = end;
                if named {
                    out.extend_from_slice(format!(":{value}").as_bytes());
                    at = end_of_value(json, end);
                    is_set = true;
                }
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        out.push(json[at]);
        at += 1;
    }
    match names.first() {
        Some(name) if !is_set => with_member(&out, name, value),
        _ => out,
    }
}

/// The end of the text or number behind a member's name.
fn end_of_value(json: &[u8], after_name: usize) -> usize {
    let is_gap = |byte: &u8| byte.is_ascii_whitespace() || *byte == b':';
    let gap = json[after_name..].iter().take_while(|byte| is_gap(byte)).count();
    let start = after_name + gap;
    if json.get(start) == Some(&b'"') {
        return end_of_string(json, start);
    }
    let rest = &json[start..];
    start + rest.iter().position(|byte| b",}".contains(byte)).unwrap_or(rest.len())
}

fn is_named(literal: &[u8], names: &[&str]) -> bool {
    serde_json::from_slice::<String>(literal).is_ok_and(|name| names.contains(&name.as_str()))
}

/// Appends a member to an object.
fn with_member(json: &[u8], name: &str, value: &str) -> Vec<u8> {
    let Some(end) = json.iter().rposition(|byte| *byte == b'}') else { return json.to_vec() };
    let is_empty = json[..end].iter().rfind(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    let comma = if is_empty { "" } else { "," };
    [&json[..end], format!("{comma}\"{name}\":{value}").as_bytes(), &json[end..]].concat()
}

fn end_of_string(json: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < json.len() {
        match json[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    json.len()
}

fn replacement<'a, S: std::hash::BuildHasher>(
    literal: &[u8],
    replacements: &'a HashMap<String, String, S>,
) -> Option<&'a str> {
    let text: String = serde_json::from_slice(literal).ok()?;
    replacements.get(&text).map(String::as_str)
}

fn is_member_name(rest: &[u8]) -> bool {
    rest.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, from: &str, to: &str, expected: &str) {
        let replacements = HashMap::from([(from.to_owned(), to.to_owned())]);
        let out = replace_strings(json.as_bytes(), &replacements);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn values_change_and_all_else_stays() {
        check(
            r#"{"b": "s3cret",  "a":["s3cret", 1.50]}"#,
            "s3cret",
            "***",
            r#"{"b": "***",  "a":["***", 1.50]}"#,
        );
        check(r#"{"k" : "k"}"#, "k", "v", r#"{"k" : "v"}"#);
        check(r#"["a\"b\\", "\u0061\"b\\"]"#, "a\"b\\", "q\"\n", r#"["q\"\n", "q\"\n"]"#);
        check(r#"["ab", "abc"]"#, "b", "x", r#"["ab", "abc"]"#);
        check(r#""whole""#, "whole", "é", "\"é\"");
    }

    #[test]
    fn a_member_is_set_at_the_top_and_all_else_stays() {
        let set =
            |json: &str| String::from_utf8(set_members(json.as_bytes(), &["most", "max"], "7")).unwrap();
        for (json, expected) in [
            (r#"{"a": "most", "most" : 99 ,"b":{"most":1}}"#, r#"{"a": "most", "most":7,"b":{"most":1}}"#),
            (r#"{"max":null}"#, r#"{"max":7}"#),
            (r#"{"max": "a,}b" , "c":1}"#, r#"{"max":7 , "c":1}"#),
            (r#"{"a":[{"max":1}]}"#, r#"{"a":[{"max":1}],"most":7}"#),
            (r"{ }", r#"{ "most":7}"#),
        ] {
            assert_eq!(set(json), expected);
        }
        for json in ["", "\"", "{\"most\"", "{\"most\":", "[1"] {
            set(json);
        }
    }

    #[test]
    fn broken_documents_do_not_panic() {
        for json in ["\"", "\"\\", "{\"a", "", "\\\"\"\""] {
            drop(replace_strings(json.as_bytes(), &HashMap::from([(String::new(), "x".to_owned())])));
        }
    }
}
