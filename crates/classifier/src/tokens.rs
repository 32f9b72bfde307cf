//! Text into tokens and overlapping windows, exactly as `training/tokens.py` does it. Every token knows its bytes in the text.

use std::ops::Range;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Tokens in a window, and how far apart windows start.
const WINDOW: usize = 128;
const STRIDE: usize = 96;

/// A run of letters and digits, or one other visible character.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) word: String,
    pub(crate) range: Range<usize>,
}

pub(crate) fn tokenize(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut run: Option<Token> = None;
    for (at, original) in text.char_indices().filter(|(_, c)| !is_hidden(*c)) {
        let end = at + original.len_utf8();
        let plain = original.nfkd().filter(|c| !is_combining_mark(*c)).flat_map(char::to_lowercase);
        for c in plain {
            if c.is_alphanumeric() && !is_ideograph(c) {
                let token = run.get_or_insert_with(|| Token { word: String::new(), range: at..end });
                token.word.push(c);
                token.range.end = end;
                continue;
            }
            tokens.extend(run.take());
            if !c.is_whitespace() && !c.is_control() {
                tokens.push(Token { word: c.to_string(), range: at..end });
            }
        }
    }
    tokens.extend(run);
    tokens
}

/// Characters that show nothing and may stand inside a word.
fn is_hidden(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{feff}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{e0000}'..='\u{e007f}')
}

/// Scripts without spaces: one token for each character.
fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{9fff}' | '\u{3040}'..='\u{30ff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{2fa1f}')
}

/// Windows that overlap; the last one ends with the text. A short text is one window.
pub(crate) fn windows(tokens: &[Token]) -> impl Iterator<Item = &[Token]> {
    let last = tokens.len().saturating_sub(WINDOW);
    let starts = (0..last).step_by(STRIDE).chain([last]);
    starts.map(|start| &tokens[start..tokens.len().min(start + WINDOW)])
}

/// The bytes from the first to the last token.
pub(crate) fn range(window: &[Token]) -> Range<usize> {
    match (window.first(), window.last()) {
        (Some(first), Some(last)) => first.range.start..last.range.end,
        _ => 0..0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        tokenize(text).into_iter().map(|token| token.word).collect()
    }

    #[test]
    fn words_are_plain_lower_case_letters() {
        assert_eq!(words("Ígnore ＡＬＬ rules-now!"), ["ignore", "all", "rules", "-", "now", "!"]);
        assert_eq!(words("ig\u{200b}nore"), ["ignore"]);
        assert_eq!(words("忽略 rules"), ["忽", "略", "rules"]);
    }

    #[test]
    fn a_token_knows_its_bytes() {
        let text = "é Send";
        let tokens = tokenize(text);
        assert_eq!(&text[tokens[1].range.clone()], "Send");
    }

    #[test]
    fn windows_cover_the_text_and_overlap() {
        let text = "word ".repeat(300);
        let tokens = tokenize(&text);
        let starts: Vec<usize> = windows(&tokens).map(|window| window[0].range.start / 5).collect();
        assert_eq!(starts, [0, 96, 172]);
        assert_eq!(windows(&tokenize("")).count(), 1);
    }
}
