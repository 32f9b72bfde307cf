//! The tokens of a GraphQL document. Bytes that servers treat differently, such as a byte order mark, are refused.

use super::super::MessageError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// One of `! $ & ( ) : = @ [ ] { | }`.
    Punctuator(u8),
    Spread,
    Name(&'a str),
    Number,
    Text,
    End,
}

pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    pub(super) fn error(&self, what: &str) -> MessageError {
        let line = self.text.as_bytes()[..self.at].iter().filter(|byte| **byte == b'\n').count() + 1;
        MessageError::new(format!("the GraphQL document, line {line}: {what}"))
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    pub(super) fn next(&mut self) -> Result<Token<'a>, MessageError> {
        self.skip_ignored()?;
        let Some(byte) = self.peek(0) else { return Ok(Token::End) };
        match byte {
            b'!' | b'$' | b'&' | b'(' | b')' | b':' | b'=' | b'@' | b'[' | b']' | b'{' | b'|' | b'}' => {
                self.at += 1;
                Ok(Token::Punctuator(byte))
            }
            b'.' if self.text[self.at..].starts_with("...") => {
                self.at += 3;
                Ok(Token::Spread)
            }
            b'"' if self.text[self.at..].starts_with("\"\"\"") => self.block(),
            b'"' => self.string(),
            b'-' | b'0'..=b'9' => self.number(),
            byte if is_name_start(byte) => {
                let start = self.at;
                while self.peek(0).is_some_and(is_name_part) {
                    self.at += 1;
                }
                Ok(Token::Name(&self.text[start..self.at]))
            }
            _ => Err(self.error("a character has no meaning here")),
        }
    }

    /// Spaces, line ends, commas and comments.
    fn skip_ignored(&mut self) -> Result<(), MessageError> {
        while let Some(byte) = self.peek(0) {
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' | b',' => self.at += 1,
                b'#' => {
                    let rest = &self.text[self.at..];
                    let end = rest.find(['\n', '\r']).unwrap_or(rest.len());
                    // Some programs take these for line ends.
                    let odd =
                        |c: char| (c.is_control() && c != '\t') || ['\u{2028}', '\u{2029}'].contains(&c);
                    if rest[..end].contains(odd) {
                        return Err(self.error("a comment contains a control character"));
                    }
                    self.at += end;
                }
                _ => return Ok(()),
            }
        }
        Ok(())
    }

    fn number(&mut self) -> Result<Token<'a>, MessageError> {
        if self.peek(0) == Some(b'-') {
            self.at += 1;
        }
        let leading_zero = self.peek(0) == Some(b'0');
        let digits = self.digits();
        let mut right = digits > 0 && !(leading_zero && digits > 1);
        if self.peek(0) == Some(b'.') {
            self.at += 1;
            right &= self.digits() > 0;
        }
        if matches!(self.peek(0), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(0), Some(b'+' | b'-')) {
                self.at += 1;
            }
            right &= self.digits() > 0;
        }
        if !right || self.peek(0).is_some_and(|byte| byte == b'.' || is_name_part(byte)) {
            return Err(self.error("a number is malformed"));
        }
        Ok(Token::Number)
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.peek(0).is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        self.at - start
    }

    fn string(&mut self) -> Result<Token<'a>, MessageError> {
        self.at += 1;
        loop {
            match self.peek(0) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Token::Text);
                }
                Some(b'\\') => match self.peek(1) {
                    Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
                    Some(b'u') if self.has_four_digits() => self.at += 6,
                    _ => return Err(self.error("a string contains an unknown escape")),
                },
                Some(byte) if byte >= b' ' || byte == b'\t' => self.at += 1,
                _ => return Err(self.error("a string is not closed on its line")),
            }
        }
    }

    fn has_four_digits(&self) -> bool {
        (2..6).all(|ahead| self.peek(ahead).is_some_and(|byte| byte.is_ascii_hexdigit()))
    }

    fn block(&mut self) -> Result<Token<'a>, MessageError> {
        self.at += 3;
        loop {
            let rest = &self.text[self.at..];
            if rest.starts_with("\\\"\"\"") {
                self.at += 4;
            } else if rest.starts_with("\"\"\"") {
                self.at += 3;
                return Ok(Token::Text);
            } else {
                match rest.chars().next() {
                    Some(c) if c >= ' ' || matches!(c, '\t' | '\n' | '\r') => self.at += c.len_utf8(),
                    _ => return Err(self.error("a block string is not closed")),
                }
            }
        }
    }
}

fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

fn is_name_part(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}
