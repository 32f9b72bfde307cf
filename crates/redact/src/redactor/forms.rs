//! The encodings in which one value may leave: plain, UTF-16, base64 in all three alignments, hexadecimal, URL,
//! quoted-printable, JSON and HTML.

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
    encoded.push(
        value.iter().flat_map(|byte| if *byte == b'=' { b"=3D".to_vec() } else { vec![*byte] }).collect(),
    );
    if let Ok(text) = std::str::from_utf8(value) {
        encoded.extend(json_forms(text));
        encoded.extend(html_forms(text));
        encoded.push(text.encode_utf16().flat_map(u16::to_le_bytes).collect());
        encoded.push(text.encode_utf16().flat_map(u16::to_be_bytes).collect());
    }
    forms.extend(encoded);
    let with_slashes: Vec<Vec<u8>> = forms.iter().filter_map(|form| escape_slashes(form)).collect();
    forms.extend(with_slashes);
    forms
}

/// The forms that encoders write in lines, and the value itself.
pub(super) fn line_forms(value: &[u8]) -> BTreeSet<Vec<u8>> {
    let mut forms = BTreeSet::from([value.to_vec()]);
    forms.extend(base64_forms(value));
    forms.extend(alone_in_base64(value));
    forms.extend([hex(value, false).into_bytes(), hex(value, true).into_bytes()]);
    forms
}

/// The characters of base64 that depend on the value alone, wherever it is in the encoded bytes.
pub(super) fn base64_forms(value: &[u8]) -> Vec<Vec<u8>> {
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

pub(super) fn hex(value: &[u8], is_upper: bool) -> String {
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
    // An address inside another one is encoded twice.
    for is_upper in [true, false] {
        let once = percent(value, b"-._~", is_upper);
        forms.push(percent(&once, b"-._~", is_upper));
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

/// Characters that some JSON encoders (Go, Gson, System.Text.Json) also write as `\u`.
const JSON_ESCAPED: [&str; 3] = ["<>&", "<>&'=", "<>&'+`\""];

/// As JSON escapes it, once, and twice for a document inside a string.
fn json_forms(text: &str) -> Vec<Vec<u8>> {
    let mut forms = Vec::new();
    for is_ascii in [false, true] {
        let once = json::escape(text, is_ascii);
        forms.push(json::escape(&once, is_ascii).into_bytes());
        forms.push(once.into_bytes());
    }
    for is_upper in [false, true] {
        let unit = |unit: u16| if is_upper { format!("\\u{unit:04X}") } else { format!("\\u{unit:04x}") };
        let escaped = |letter: char| -> String {
            letter.encode_utf16(&mut [0; 2]).iter().map(|one| unit(*one)).collect()
        };
        forms.extend(JSON_ESCAPED.map(|more| {
            let one = |letter: char| {
                if more.contains(letter) {
                    escaped(letter)
                } else {
                    json::escape(letter.encode_utf8(&mut [0; 4]), true)
                }
            };
            text.chars().map(one).collect::<String>().into_bytes()
        }));
        // To hide a value, every letter can be escaped.
        forms.push(text.chars().map(escaped).collect::<String>().into_bytes());
    }
    forms
}

/// How one letter is written in HTML.
type HtmlEscape = fn(char) -> Option<String>;

/// Encoders differ in the letters that they escape, and in how. The last three escape every letter, to hide a value.
const HTML_ESCAPES: [HtmlEscape; 7] = [
    |letter| named(letter, "&quot;", "&#39;"),
    |letter| named(letter, "&#34;", "&#39;"),
    |letter| named(letter, "&quot;", "&#x27;"),
    // Templates of Go escape `+`, those of Handlebars and Mustache `=`, '/' and '`'.
    |letter| match letter {
        '+' => Some("&#43;".to_owned()),
        '/' | '`' | '=' => Some(format!("&#x{:X};", u32::from(letter))),
        letter => named(letter, "&#34;", "&#39;"),
    },
    |letter| Some(format!("&#{};", u32::from(letter))),
    |letter| Some(format!("&#x{:x};", u32::from(letter))),
    |letter| Some(format!("&#x{:X};", u32::from(letter))),
];

fn named(letter: char, quote: &str, apostrophe: &str) -> Option<String> {
    let escape = match letter {
        '&' => "&amp;",
        '<' => "&lt;",
        '>' => "&gt;",
        '"' => quote,
        '\'' => apostrophe,
        _ => return None,
    };
    Some(escape.to_owned())
}

fn html_forms(text: &str) -> impl Iterator<Item = Vec<u8>> {
    HTML_ESCAPES.into_iter().map(move |escape| {
        let one = |letter: char| escape(letter).unwrap_or_else(|| letter.to_string());
        text.chars().map(one).collect::<String>().into_bytes()
    })
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
        check("pass/word", "https%253A%252F%252Fx%252F%253Fk%253Dpass%252Fword");
        check("k==9?x", "k=3D=3D9?x");
        check("secret-one", &String::from_utf8_lossy(b"s\0e\0c\0r\0e\0t\0-\0o\0n\0e\0"));
        check("secret-one", &String::from_utf8_lossy(b"\0s\0e\0c\0r\0e\0t\0-\0o\0n\0e"));
    }

    /// The same text as the JSON encoders of Go, Java (Gson) and .NET write it, and in one form that hides it.
    #[test]
    fn json_escapes_of_other_encoders() {
        let value = "a+b/c=<&>'d`\"";
        check(value, r#"{"t":"a+b/c=\u003c\u0026\u003e'd`\""}"#);
        check(value, r#"{"t":"a+b/c\u003d\u003c\u0026\u003e\u0027d`\""}"#);
        check(value, r#"{"t":"a\u002Bb/c=\u003C\u0026\u003E\u0027d\u0060\u0022"}"#);
        check("k9x+", r#"{"t":"\u006b\u0039\u0078\u002b"}"#);
        check("k9x+", r#"{"t":"\u006B\u0039\u0078\u002B"}"#);
    }

    #[test]
    fn html_escapes_of_other_encoders() {
        let value = "a+b/c='<\"";
        check(value, "a+b/c=&#39;&lt;&quot;");
        check(value, "a+b/c=&#x27;&lt;&quot;");
        check(value, "a&#43;b&#x2F;c&#x3D;&#39;&lt;&#34;");
        check("k9x+", "&#107;&#57;&#120;&#43;");
        check("k9x+", "&#x6b;&#x39;&#x78;&#x2b;");
        check("k9x+", "&#x6B;&#x39;&#x78;&#x2B;");
    }
}
