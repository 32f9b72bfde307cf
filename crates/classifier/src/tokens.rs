//! Text into tokens and overlapping windows, exactly as `training/tokens.py` does it. Every token knows its bytes in the text.

use std::ops::Range;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Tokens in a window, and how far apart windows start.
const WINDOW: usize = 128;
const STRIDE: usize = 96;

/// The tokens of a text: runs of letters and digits, and every other visible character by itself.
pub(crate) struct Tokens {
    /// The words of all tokens, one after the other.
    letters: String,
    spans: Vec<Span>,
}

/// Where a token's word and its text are.
#[derive(Debug)]
pub(crate) struct Span {
    word: Range<usize>,
    text: Range<usize>,
}

pub(crate) fn tokenize(text: &str) -> Tokens {
    let mut tokens = Tokens { letters: String::with_capacity(text.len()), spans: Vec::new() };
    let mut in_word = false;
    for (at, original) in text.char_indices() {
        let place = at..at + original.len_utf8();
        if original.is_ascii() {
            tokens.push(original.to_ascii_lowercase(), place, &mut in_word);
        } else if !is_hidden(original) {
            let plain = original.nfkd().filter(|c| !is_combining_mark(*c)).flat_map(char::to_lowercase);
            plain.for_each(|c| tokens.push(c, place.clone(), &mut in_word));
        }
    }
    tokens
}

impl Tokens {
    fn push(&mut self, c: char, text: Range<usize>, in_word: &mut bool) {
        let continues = c.is_alphanumeric() && !is_ideograph(c);
        if !continues && (c.is_whitespace() || c.is_control()) {
            *in_word = false;
            return;
        }
        let start = self.letters.len();
        self.letters.push(c);
        match self.spans.last_mut().filter(|_| continues && *in_word) {
            Some(span) => {
                span.word.end = self.letters.len();
                span.text.end = text.end;
            }
            None => self.spans.push(Span { word: start..self.letters.len(), text }),
        }
        *in_word = continues;
    }

    /// Windows that overlap; the last one ends with the text. A short text is one window.
    pub(crate) fn windows(&self) -> impl Iterator<Item = Window<'_>> {
        let last = self.spans.len().saturating_sub(WINDOW);
        let starts = (0..last).step_by(STRIDE).chain([last]);
        starts.map(|start| Window {
            letters: &self.letters,
            spans: &self.spans[start..self.spans.len().min(start + WINDOW)],
        })
    }
}

/// Some tokens that follow each other.
#[derive(Clone, Copy)]
pub(crate) struct Window<'a> {
    letters: &'a str,
    spans: &'a [Span],
}

impl<'a> Window<'a> {
    pub(crate) fn words(self) -> impl Iterator<Item = &'a str> {
        self.spans.iter().map(move |span| &self.letters[span.word.clone()])
    }

    /// The bytes from the first to the last token.
    pub(crate) fn range(self) -> Range<usize> {
        match (self.spans.first(), self.spans.last()) {
            (Some(first), Some(last)) => first.text.start..last.text.end,
            _ => 0..0,
        }
    }
}

/// Invisible characters that may be inside a word.
fn is_hidden(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{feff}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{e0000}'..='\u{e007f}')
}

/// Scripts without spaces: one token for each character.
fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{9fff}' | '\u{3040}'..='\u{30ff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{2fa1f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let tokens = tokenize(text);
        tokens.windows().flat_map(Window::words).map(str::to_owned).collect()
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
        assert_eq!(&text[tokens.spans[1].text.clone()], "Send");
        assert_eq!(tokens.windows().next().map(Window::range), Some(0..text.len()));
    }

    #[test]
    fn windows_cover_the_text_and_overlap() {
        let tokens = tokenize(&"word ".repeat(300));
        let starts: Vec<usize> = tokens.windows().map(|window| window.range().start / 5).collect();
        assert_eq!(starts, [0, 96, 172]);
        assert_eq!(tokenize("").windows().count(), 1);
    }
}
