//! Decoders for text that hides in plain sight: escapes, rotated letters, and what is readable in decoded bytes.

use std::ops::Range;

use crate::steps;

/// Shorter stretches are ignored.
const MIN_READABLE: i64 = 8;

/// `\u0069`, `\x69`, `\151`, `&#105;` and the like for ordinary letters: where they end, from `at` on, and their text
/// if it is readable.
pub(super) fn escapes(text: &str, at: usize) -> (Range<usize>, Option<String>) {
    let (content, count, length) = decode_escapes(&text[at..]);
    steps::count(length);
    (at..at + length, readable(content.as_bytes()).filter(|_| count >= 6))
}

/// Reads escapes and what stands between them, until there are eight plain characters in a row.
pub(super) fn decode_escapes(text: &str) -> (String, usize, usize) {
    let mut content = String::new();
    let mut count = 0;
    let mut at = 0;
    let mut plain = 0;
    let mut length = 0;
    while let Some(letter) = text[at..].chars().next() {
        if let Some((decoded, used)) = escape_at(&text[at..]) {
            content.push(decoded);
            count += 1;
            plain = 0;
            at += used;
            length = at;
        } else {
            plain += 1;
            if plain > 8 {
                break;
            }
            content.push(letter);
            at += letter.len_utf8();
        }
    }
    (content, count, length)
}

/// The letter that an escape at the start of the text stands for, and how long the escape is.
fn escape_at(text: &str) -> Option<(char, usize)> {
    const MAX_NUMBER: usize = 12;
    let number = |digits: &str, radix: u32| u32::from_str_radix(digits, radix).ok().and_then(char::from_u32);
    let fixed = |start: usize, count: usize, radix: u32| {
        Some((number(text.get(start..start + count)?, radix)?, start + count))
    };
    let closed = |start: usize, closing: u8, radix: u32| {
        let rest = &text[start..];
        let end = rest.bytes().take(MAX_NUMBER).position(|byte| byte == closing)?;
        Some((number(&rest[..end], radix)?, start + end + 1))
    };
    match text.as_bytes() {
        [b'\\', b'u', b'{', ..] => closed(3, b'}', 16),
        [b'\\', b'u', ..] => fixed(2, 4, 16),
        [b'\\', b'U', ..] => fixed(2, 8, 16),
        [b'\\', b'x', ..] => fixed(2, 2, 16),
        [b'\\', b'0' | b'1', ..] => fixed(1, 3, 8),
        [b'&', b'#', b'x' | b'X', ..] => closed(3, b';', 16),
        [b'&', b'#', ..] => closed(2, b';', 10),
        _ => None,
    }
}

/// The line around `at`, as far as such messages go.
pub(super) fn line_around(text: &str, at: usize) -> Range<usize> {
    const REACH: usize = 2000;
    let from = text.floor_char_boundary(at.saturating_sub(REACH));
    let to = text.ceil_char_boundary((at + REACH).min(text.len()));
    let start = text[from..at].rfind('\n').map_or(from, |newline| from + newline + 1);
    let end = text[at..to].find('\n').map_or(to, |newline| at + newline);
    steps::count(end - start);
    start..end
}

pub(super) fn rotate(letter: char) -> char {
    let shift = |base: u8| char::from((letter as u8 - base + 13) % 26 + base);
    match letter {
        'a'..='z' => shift(b'a'),
        'A'..='Z' => shift(b'A'),
        other => other,
    }
}

/// The stretches of text with words in it. Nine letters outweigh one unreadable byte, which is left out.
pub(super) fn readable(bytes: &[u8]) -> Option<String> {
    let mut found = String::new();
    let mut stretch = TextRun::default();
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            let is_text = !letter.is_control() || matches!(letter, '\n' | '\r' | '\t');
            stretch.add(is_text.then_some(letter), &mut found);
        }
        if !chunk.invalid().is_empty() {
            stretch.add(None, &mut found);
        }
    }
    stretch.end(&mut found);
    (!found.is_empty()).then_some(found)
}

#[derive(Default)]
struct TextRun {
    text: String,
    sum: i64,
    /// The greatest sum so far, and how long the text was then.
    most: (i64, usize),
}

impl TextRun {
    fn add(&mut self, letter: Option<char>, found: &mut String) {
        match letter {
            Some(letter) => {
                self.text.push(letter);
                self.sum += 1;
                self.most = self.most.max((self.sum, self.text.len()));
            }
            None => {
                self.sum -= 9;
                if self.sum <= 0 {
                    self.end(found);
                }
            }
        }
    }

    fn end(&mut self, found: &mut String) {
        let (most, length) = self.most;
        let text = &self.text[..length];
        let has_words = text.chars().filter(|letter| letter.is_whitespace()).count() >= 2 || !text.is_ascii();
        if most >= MIN_READABLE && has_words {
            found.push_str(text);
            found.push('\n');
        }
        self.text.clear();
        (self.sum, self.most) = (0, (0, 0));
    }
}
