//! Changes string values of a JSON document in its bytes, by content, and leaves every other byte as it was: order and
//! spelling of a request decide whether the vendor finds it in its cache.

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
    fn broken_documents_do_not_panic() {
        for json in ["\"", "\"\\", "{\"a", "", "\\\"\"\""] {
            drop(replace_strings(json.as_bytes(), &HashMap::from([(String::new(), "x".to_owned())])));
        }
    }
}
