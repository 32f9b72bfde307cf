//! Where a token may begin and end. A letter before it usually means that it is part of something longer, unless
//! that letter belongs to an escape such as `\n` or `%20`.

/// Bytes that tokens are made of.
pub fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'+' | b'/' | b'~' | b'.')
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether a token may begin at `at`. `strict` also refuses a dot or a dash before it.
pub(crate) fn left(text: &[u8], at: usize, strict: bool) -> bool {
    let Some(before) = at.checked_sub(1).map(|index| text[index]) else { return true };
    if strict && matches!(before, b'-' | b'.') {
        return false;
    }
    !is_word_byte(before) || ends_in_escape(&text[..at])
}

pub(crate) fn right(text: &[u8], at: usize) -> bool {
    text.get(at).is_none_or(|byte| !is_word_byte(*byte))
}

/// `\n`, `\t`, `\u003d` and `%3D` put a letter or a digit in front of a token that begins right there.
fn ends_in_escape(before: &[u8]) -> bool {
    let tail = &before[before.len().saturating_sub(6)..];
    match tail {
        [.., b'\\', b'n' | b'r' | b't' | b'b' | b'f'] => true,
        [.., b'%', high, low] => high.is_ascii_hexdigit() && low.is_ascii_hexdigit(),
        [b'\\', b'u', digits @ ..] => digits.iter().all(u8::is_ascii_hexdigit),
        _ => ends_in_colour(before),
    }
}

/// How programs write the escape character where they may not write it itself.
const ESCAPE_CHARACTER: [&[u8]; 7] = [b"\x1b", br"\x1b", br"\x1B", br"\u001b", br"\u001B", br"\033", br"\e"];

/// `\x1b[32m`, the colour of what follows, in the logs of programs that write it out.
fn ends_in_colour(before: &[u8]) -> bool {
    const MAX_CODES: usize = 20;
    let Some(codes) = before.strip_suffix(b"m") else { return false };
    let is_code = |byte: &&u8| byte.is_ascii_digit() || **byte == b';';
    let length = codes.iter().rev().take(MAX_CODES).take_while(is_code).count();
    let escape = codes[..codes.len() - length].strip_suffix(b"[");
    escape.is_some_and(|escape| ESCAPE_CHARACTER.iter().any(|form| escape.ends_with(form)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: bool) {
        let at = text.find("ghp_").unwrap();
        assert_eq!(left(text.as_bytes(), at, false), expected, "{text}");
    }

    #[test]
    fn tokens_begin_at_words_and_after_escapes() {
        check("ghp_", true);
        check("\"ghp_", true);
        check("xghp_", false);
        check(r"\nghp_", true);
        check("%3Dghp_", true);
        check(r"\u0022ghp_", true);
        check("-ghp_", true);
        check(r"\x1b[32mghp_", true);
        check(r"\u001b[0;1;31mghp_", true);
        check(r"\033[mghp_", true);
        check("a[32mghp_", false);
        check("mghp_", false);
        assert!(!left(b"-eyJ", 1, true));
    }
}
