//! The strings of JSON text. Works on tokens instead of a parsed tree: depth does not matter, several documents in a row
//! are fine, and numbers, spaces and the order of keys stay as they were written.

use std::borrow::Cow;
use std::fmt::Write;
use std::ops::Range;

/// Rewrites every string, keys included, with `change`; `None` if the text is not JSON.
pub fn map_strings<'t>(text: &'t str, change: impl Fn(&str) -> Cow<'_, str>) -> Option<Cow<'t, str>> {
    let mut changed = String::new();
    let mut at = 0;
    for token in tokens(text)?.into_iter().filter(|token| token.kind != TokenKind::Number) {
        let decoded = decode(&text[token.range.clone()]);
        let new = change(&decoded);
        if *new != decoded {
            changed.push_str(&text[at..token.range.start]);
            changed.push_str(&format!("\"{}\"", escape(&new, false)));
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
pub struct JsonString {
    /// Where it is written, with its quotes.
    pub range: Range<usize>,
    /// Its text without the escapes.
    pub unescaped: String,
    /// Whether it is a key and its value, a string too, is the next one.
    pub has_value: bool,
}

/// The strings of a JSON text. `None` if it is not JSON.
pub fn strings(text: &str) -> Option<Vec<JsonString>> {
    let tokens = tokens(text)?;
    let strings = tokens.iter().enumerate().filter(|(_, token)| token.kind != TokenKind::Number);
    let read = strings.map(|(number, token)| {
        let is_value = |next: &JsonToken| {
            next.kind == TokenKind::Text && text[token.range.end..next.range.start].trim_ascii() == ":"
        };
        let has_value = token.kind == TokenKind::Key && tokens.get(number + 1).is_some_and(is_value);
        JsonString { range: token.range.clone(), unescaped: decode(&text[token.range.clone()]), has_value }
    });
    Some(read.collect())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Key,
    Text,
    Number,
}

pub(crate) struct JsonToken {
    pub(crate) kind: TokenKind,
    pub(crate) range: Range<usize>,
}

/// Strings and numbers in order; nothing when a string is not closed, which no valid document has.
pub(crate) fn tokens(text: &str) -> Option<Vec<JsonToken>> {
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
                tokens.push(JsonToken {
                    kind: if is_key { TokenKind::Key } else { TokenKind::Text },
                    range: at..end,
                });
                at = end;
            }
            b'-' | b'0'..=b'9' => {
                let is_part = |byte: &&u8| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9');
                let end = at + bytes[at..].iter().take_while(is_part).count();
                tokens.push(JsonToken { kind: TokenKind::Number, range: at..end });
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
pub(crate) fn decode(written: &str) -> String {
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

/// The inside of a JSON string.
pub(crate) fn escape(text: &str, is_ascii: bool) -> String {
    let mut escaped = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match letter {
            '"' => escaped.push_str("\\\""),
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            '\u{8}' => escaped.push_str("\\b"),
            '\u{c}' => escaped.push_str("\\f"),
            letter if u32::from(letter) < 0x20 || (is_ascii && !letter.is_ascii()) => {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    let _ = write!(escaped, "\\u{unit:04x}");
                }
            }
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_escape_hides_nothing() {
        let text = r#"{"a":"x\u202ey","n":1,"b":"\u0044B"}"#;
        let read: Vec<String> = strings(text).unwrap().into_iter().map(|string| string.unescaped).collect();
        assert_eq!(read, ["a", "x\u{202e}y", "n", "b", "DB"]);
        assert!(strings("no \\ json").is_none());
    }
}
