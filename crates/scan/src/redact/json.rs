//! Masks inside the strings of JSON. Works on tokens instead of a parsed tree: depth does not matter, several
//! documents in a row are fine, and numbers, spaces and the order of keys stay as they were written.

use std::borrow::Cow;
use std::ops::Range;

use super::{Redactor, forms};
use crate::secrets;

/// The document with its strings masked. A string keeps its quotes; a number that is a known value becomes a string.
pub(super) fn redact<'t>(redactor: &Redactor, text: &'t str) -> Cow<'t, str> {
    let Some(tokens) = tokens(text) else { return redactor.redact(text) };
    let redact = |text: &str| redactor.redact(text).into_owned();
    let mut masked = String::new();
    let mut at = 0;
    let mut key = None;
    for token in tokens {
        let written = &text[token.range.clone()];
        let replacement = match token.kind {
            Kind::Key => {
                let decoded = decode(written);
                let replacement = redacted_string(redactor, &decoded, None, redact);
                key = Some(decoded);
                replacement
            }
            Kind::Text => redacted_string(redactor, &decode(written), key.take().as_deref(), redact),
            Kind::Number => redacted_number(redactor, written),
        };
        if let Some(replacement) = replacement {
            masked.push_str(&text[at..token.range.start]);
            masked.push_str(&replacement);
            at = token.range.end;
        }
    }
    if at == 0 {
        return whole_if_known(redactor, Cow::Borrowed(text));
    }
    masked.push_str(&text[at..]);
    whole_if_known(redactor, Cow::Owned(masked))
}

/// A known value that reaches over several tokens cannot be cut out of a valid document, so the document goes.
fn whole_if_known<'t>(redactor: &Redactor, text: Cow<'t, str>) -> Cow<'t, str> {
    let mut masks = Vec::new();
    redactor.known.find(&text, &mut masks);
    if masks.is_empty() { text } else { Cow::Borrowed("\"***\"") }
}

/// Rewrites every string, keys included, with `change`; `None` where the text is no JSON.
pub(crate) fn map_strings<'t>(text: &'t str, change: impl Fn(&str) -> Cow<'_, str>) -> Option<Cow<'t, str>> {
    let mut changed = String::new();
    let mut at = 0;
    for token in tokens(text)?.into_iter().filter(|token| token.kind != Kind::Number) {
        let decoded = decode(&text[token.range.clone()]);
        let new = change(&decoded);
        if *new != decoded {
            changed.push_str(&text[at..token.range.start]);
            changed.push_str(&format!("\"{}\"", forms::json_escape(&new, false)));
            at = token.range.end;
        }
    }
    if at == 0 {
        return Some(Cow::Borrowed(text));
    }
    changed.push_str(&text[at..]);
    Some(Cow::Owned(changed))
}

/// One string of a JSON text.
pub(crate) struct JsonString {
    /// Where it is written, with its quotes.
    pub(crate) range: Range<usize>,
    pub(crate) meant: String,
    /// Whether it is a key and its value, a string too, is the next one.
    pub(crate) has_value: bool,
}

/// The strings of a JSON text. `None` where it is no JSON.
pub(crate) fn strings(text: &str) -> Option<Vec<JsonString>> {
    let tokens = tokens(text)?;
    let strings = tokens.iter().enumerate().filter(|(_, token)| token.kind != Kind::Number);
    let read = strings.map(|(number, token)| {
        let is_value = |next: &Token| {
            next.kind == Kind::Text && text[token.range.end..next.range.start].trim_ascii() == ":"
        };
        let has_value = token.kind == Kind::Key && tokens.get(number + 1).is_some_and(is_value);
        JsonString { range: token.range.clone(), meant: decode(&text[token.range.clone()]), has_value }
    });
    Some(read.collect())
}

/// A string as it is written with its credentials masked by `change` or as its key says; `None` where there are none.
pub(crate) fn redacted_string(
    redactor: &Redactor,
    decoded: &str,
    key: Option<&str>,
    change: impl Fn(&str) -> String,
) -> Option<String> {
    let by_field =
        key.filter(|_| !redactor.skips_patterns).and_then(|key| secrets::find_secret_in_field(key, decoded));
    let masked = match by_field {
        Some(secret) if secret.range == (0..decoded.len()) => {
            format!("[REDACTED:{}]", secret.format)
        }
        _ => change(decoded),
    };
    // The field's own mask names a format; a known value in that name has to go as well.
    let masked = redactor.redact(&masked).into_owned();
    (masked != decoded).then(|| format!("\"{}\"", forms::json_escape(&masked, false)))
}

fn redacted_number(redactor: &Redactor, written: &str) -> Option<String> {
    let mut masks = Vec::new();
    redactor.known.find(written, &mut masks);
    (!masks.is_empty()).then(|| "\"[REDACTED]\"".to_owned())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Key,
    Text,
    Number,
}

struct Token {
    kind: Kind,
    range: Range<usize>,
}

/// Strings and numbers in order; nothing when a string is not closed, which no valid document has.
fn tokens(text: &str) -> Option<Vec<Token>> {
    let bytes = text.as_bytes();
    let begins = bytes.trim_ascii_start().first()?;
    if !matches!(begins, b'{' | b'[' | b'"' | b'-' | b'0'..=b'9') {
        return None;
    }
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                let end = end_of_string(bytes, at + 1)?;
                let is_key = bytes[end..].trim_ascii_start().first() == Some(&b':');
                tokens.push(Token { kind: if is_key { Kind::Key } else { Kind::Text }, range: at..end });
                at = end;
            }
            b'-' | b'0'..=b'9' => {
                let is_part = |byte: &&u8| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9');
                let end = at + bytes[at..].iter().take_while(is_part).count();
                tokens.push(Token { kind: Kind::Number, range: at..end });
                at = end;
            }
            b'{' | b'}' | b'[' | b']' | b',' | b':' | b' ' | b'\n' | b'\r' | b'\t' => at += 1,
            b't' | b'r' | b'u' | b'e' | b'f' | b'a' | b'l' | b's' | b'n' => at += 1,
            _ => return None,
        }
    }
    Some(tokens)
}

/// One past the closing quote.
fn end_of_string(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'"' => return Some(at + 1),
            _ => {}
        }
        at += 1;
    }
    None
}

/// The text of a string token. A half of a surrogate pair that stands alone becomes the replacement character;
/// it is written back only if something else in the string was masked.
fn decode(written: &str) -> String {
    let inside = &written[1..written.len() - 1];
    let mut text = String::with_capacity(inside.len());
    let mut rest = inside;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        let escape = &rest[at + 1..];
        let letter = escape.chars().next().unwrap_or('\\');
        rest = &escape[letter.len_utf8().min(escape.len())..];
        match letter {
            'n' => text.push('\n'),
            'r' => text.push('\r'),
            't' => text.push('\t'),
            'b' => text.push('\u{8}'),
            'f' => text.push('\u{c}'),
            'u' => rest = decode_unicode(rest, &mut text),
            other => text.push(other),
        }
    }
    text.push_str(rest);
    text
}

fn decode_unicode<'t>(rest: &'t str, text: &mut String) -> &'t str {
    let unit = |part: &str| part.get(..4).and_then(|digits| u16::from_str_radix(digits, 16).ok());
    let Some(first) = unit(rest) else {
        text.push('u');
        return rest;
    };
    let after = &rest[4..];
    let second = after.strip_prefix("\\u").and_then(unit);
    if let Some(second) = second
        && let Ok(pair) = String::from_utf16(&[first, second])
        && (0xd800..0xdc00).contains(&first)
    {
        text.push_str(&pair);
        return &after[6..];
    }
    text.push(char::from_u32(u32::from(first)).unwrap_or(char::REPLACEMENT_CHARACTER));
    after
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_escape_hides_nothing() {
        let text = r#"{"a":"x\u202ey","n":1,"b":"\u0044B"}"#;
        let meant: Vec<String> = strings(text).unwrap().into_iter().map(|string| string.meant).collect();
        assert_eq!(meant, ["a", "x\u{202e}y", "n", "b", "DB"]);
        assert!(strings("no \\ json").is_none());
        let cleaned = crate::clean_json(r#"{"a" : "x\u202ey\n", "n": 1.00}"#);
        assert_eq!(cleaned, r#"{"a" : "xy\n", "n": 1.00}"#);
        assert_eq!(crate::clean_json("x\u{202e}y"), "xy");
    }
}
