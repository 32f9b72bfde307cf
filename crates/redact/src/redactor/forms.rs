//! The encodings in which one value may leave: plain, base64 in all three alignments, hexadecimal, URL, JSON and HTML.

use std::collections::BTreeSet;
use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};

use crate::json;

/// The fewest characters of base64 that are searched for. Other forms are at least as long as the value.
const MIN_BASE64: usize = 6;

/// All forms of a value that differ, the plain one included.
pub(crate) fn forms(value: &[u8]) -> BTreeSet<Vec<u8>> {
    let mut forms = BTreeSet::from([value.to_vec()]);
    let mut encoded = base64_forms(value);
    encoded.retain(|form| form.len() >= MIN_BASE64);
    encoded.extend(alone_in_base64(value));
    encoded.extend([hex(value, false).into_bytes(), hex(value, true).into_bytes()]);
    encoded.extend(percent_forms(value));
    if let Ok(text) = std::str::from_utf8(value) {
        encoded.extend(json_forms(text));
        encoded.push(html(text).into_bytes());
    }
    forms.extend(encoded);
    let with_slashes: Vec<Vec<u8>> = forms.iter().filter_map(|form| escape_slashes(form)).collect();
    forms.extend(with_slashes);
    forms
}

/// The characters of base64 that depend on the value alone, wherever it is in the encoded bytes.
fn base64_forms(value: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = Vec::new();
    for offset in 0..3usize {
        let mut shifted = vec![0u8; offset];
        shifted.extend_from_slice(value);
        let first = (offset * 8).div_ceil(6);
        let last = shifted.len() * 8 / 6;
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            let encoded = engine.encode(&shifted);
            forms.extend(encoded.as_bytes().get(first..last).map(<[u8]>::to_vec));
        }
    }
    forms
}

/// The value encoded alone, with or without the line end that `echo` adds. With its padding, this is long enough to search
/// for, even if the value is short.
fn alone_in_base64(value: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let ended = [value, b"\n"].concat();
    [value.to_vec(), ended]
        .into_iter()
        .flat_map(|bytes| [&STANDARD, &URL_SAFE].map(|engine| engine.encode(&bytes).into_bytes()).into_iter())
}

fn hex(value: &[u8], is_upper: bool) -> String {
    let mut text = String::with_capacity(value.len() * 2);
    for byte in value {
        let _ = if is_upper { write!(text, "{byte:02X}") } else { write!(text, "{byte:02x}") };
    }
    text
}

/// Encoders differ in which characters they encode and in the case of their digits.
fn percent_forms(value: &[u8]) -> Vec<Vec<u8>> {
    let kept_sets: [&[u8]; 5] = [b"", b"-._~", b"-_.!~*'()", b"-._~/", b"-._~!$&'()*+,;=:@/?"];
    let mut forms = Vec::new();
    for kept in kept_sets {
        for is_upper in [true, false] {
            forms.push(percent(value, kept, is_upper));
        }
    }
    // To hide a value, every letter can be encoded.
    for is_upper in [true, false] {
        forms.push(
            value.iter().flat_map(|byte| format!("%{}", hex(&[*byte], is_upper)).into_bytes()).collect(),
        );
    }
    forms.push(
        percent(value, b"*-._ ", true)
            .into_iter()
            .map(|byte| if byte == b' ' { b'+' } else { byte })
            .collect(),
    );
    forms
}

fn percent(value: &[u8], kept: &[u8], is_upper: bool) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(value.len() * 3);
    for byte in value {
        if byte.is_ascii_alphanumeric() || kept.contains(byte) {
            encoded.push(*byte);
        } else {
            encoded.push(b'%');
            encoded.extend_from_slice(hex(&[*byte], is_upper).as_bytes());
        }
    }
    encoded
}

/// As JSON escapes it, once, and twice for a document inside a string.
fn json_forms(text: &str) -> Vec<Vec<u8>> {
    let mut forms = Vec::new();
    for is_ascii in [false, true] {
        let once = json::escape(text, is_ascii);
        forms.push(json::escape(&once, is_ascii).into_bytes());
        forms.push(once.into_bytes());
    }
    forms
}

fn html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            letter => escaped.push(letter),
        }
    }
    escaped
}

fn escape_slashes(form: &[u8]) -> Option<Vec<u8>> {
    let has_bare_slash = form.contains(&b'/') && !form.windows(2).any(|pair| pair == b"\\/");
    has_bare_slash.then(|| {
        form.iter().flat_map(|byte| if *byte == b'/' { vec![b'\\', b'/'] } else { vec![*byte] }).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: &str, written: &str) {
        let forms = forms(value.as_bytes());
        let is_there = forms.iter().any(|form| memchr::memmem::find(written.as_bytes(), form).is_some());
        assert!(is_there, "{written}");
    }

    #[test]
    fn every_alignment_of_base64_is_a_form() {
        for before in ["", "x", "xy", "xyz"] {
            for after in ["", "!", "!!", "!!!"] {
                let bytes = format!("{before}correct-horse/9?{after}");
                check("correct-horse/9?", &STANDARD_NO_PAD.encode(&bytes));
                check("correct-horse/9?", &URL_SAFE_NO_PAD.encode(&bytes));
            }
        }
    }

    /// A value of five bytes is found anywhere in base64, one of four bytes only if it was encoded alone.
    #[test]
    fn short_values_are_found_in_base64() {
        for value in ["k9?x", "k9?xQ", "k9?xQz", "k9?xQzw"] {
            for (before, after) in [("", ""), ("", "\n"), ("user:", ""), ("ab", "c"), ("xyz=", " and more")] {
                if value.len() >= 5 || (before.is_empty() && after.trim().is_empty()) {
                    check(value, &STANDARD.encode(format!("{before}{value}{after}")));
                    check(value, &URL_SAFE.encode(format!("{before}{value}{after}")));
                }
            }
        }
    }

    #[test]
    fn other_encodings() {
        check("a b/c\"d é", r#"a b/c\"d \u00e9"#);
        check("a b/c\"d", r#"a b\/c\"d"#);
        check("pa ss/wo&rd", "pa%20ss%2Fwo%26rd");
        check("pa ss/wo&rd", "pa%20ss%2fwo%26rd");
        check("pa ss/wo&rd", "pa+ss%2Fwo%26rd");
        check("pass/word", "%70%61%73%73%2F%77%6F%72%64");
        check("pass/word", "%70%61%73%73%2f%77%6f%72%64");
        check("pa ss<wo&rd", "pa ss&lt;wo&amp;rd");
        check("secret", "736563726574");
    }
}
