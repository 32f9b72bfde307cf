//! The text of one word of a command line: quotes taken off, escapes read.

use crate::script::Word;

/// Appends a part to the word that it belongs to.
pub(crate) fn add(word: &mut Word, part: Word) {
    word.text.push_str(&part.text);
    word.is_dynamic |= part.is_dynamic;
    word.is_encoded |= part.is_encoded;
    word.inner.extend(part.inner);
}

pub(crate) fn unescape(text: &str, is_escapable: fn(char) -> bool) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (letter, letters.clone().next()) {
            ('\\', Some(next)) if is_escapable(next) => {
                letters.next();
                plain.extend((next != '\n').then_some(next));
            }
            _ => plain.push(letter),
        }
    }
    plain
}

/// `$'…'`: escapes for line ends are usual; escapes for letters hide them.
pub(crate) fn ansi_c(text: &str, word: &mut Word) {
    // Only one quote at each end is not part of the word: `$'\''` is a quote.
    let inside = text.strip_prefix("$'").unwrap_or(text);
    let inside = inside.strip_suffix('\'').unwrap_or(inside);
    let mut letters = inside.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            word.text.push(letter);
            continue;
        }
        let Some(kind) = letters.next() else { break };
        let (radix, digits) = match kind {
            'x' => (16, 2),
            'u' => (16, 4),
            'U' => (16, 8),
            '0'..='7' => (8, 2),
            _ => {
                word.text.push(match kind {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    'e' | 'E' => '\u{1b}',
                    'a' => '\u{7}',
                    other => other,
                });
                continue;
            }
        };
        let mut code = if radix == 8 { kind.to_digit(8).unwrap_or(0) } else { 0 };
        for _ in 0..digits {
            let Some(digit) = letters.peek().and_then(|letter| letter.to_digit(radix)) else { break };
            code = code.saturating_mul(radix).saturating_add(digit);
            letters.next();
        }
        let decoded = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
        word.is_encoded |= decoded.is_ascii_graphic();
        word.text.push(decoded);
    }
}
