//! Glob text to tokens. It follows globset with literal separators, because OpenShell uses it; patterns for which
//! globset has surprising results are refused here.

use std::fmt;

use super::{MAX_PATTERN_BYTES, Separator};

/// A set of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ByteSet([u64; 4]);

impl ByteSet {
    pub(super) const NONE: Self = Self([0; 4]);
    pub(super) const ALL: Self = Self([u64::MAX; 4]);

    pub(super) fn one(byte: u8) -> Self {
        let mut set = Self::NONE;
        set.insert(byte);
        set
    }

    pub(super) fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    pub(super) fn has(self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
    }

    fn without(mut self, byte: u8) -> Self {
        self.0[usize::from(byte >> 6)] &= !(1 << (byte & 63));
        self
    }

    fn inverted(self) -> Self {
        Self(self.0.map(|word| !word))
    }

    pub(super) fn bytes(self) -> impl Iterator<Item = u8> {
        (0..=u8::MAX).filter(move |byte| self.has(*byte))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// One byte out of a set.
    One(ByteSet),
    /// Any number of bytes out of a set.
    Many(ByteSet),
    /// Any text at all.
    Everything,
    /// `**/` at the start.
    Prefix,
    /// `/**` at the end.
    Suffix,
    /// `/**/` in between.
    Middle,
    Either(Vec<Vec<Token>>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatternError {
    TooLong,
    TooComplex,
    Unclosed(char),
    Unopened(char),
    BadRange(char, char),
    NonAsciiClass,
    DanglingEscape,
    StarsInBraces,
    Nested,
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "is longer than {MAX_PATTERN_BYTES} bytes"),
            Self::TooComplex => f.write_str("has too many alternatives to be checked quickly"),
            Self::Unclosed(open) => write!(f, "has a `{open}` that is not closed"),
            Self::Unopened(close) => write!(f, "has a `{close}` that was not opened"),
            Self::BadRange(from, to) => write!(f, "has the empty range `{from}-{to}`"),
            Self::NonAsciiClass => f.write_str("has a character outside ASCII in `[...]`"),
            Self::DanglingEscape => f.write_str("ends in a `\\` that escapes nothing"),
            Self::StarsInBraces => {
                f.write_str("has `**` inside `{...}`; write one pattern for each alternative")
            }
            Self::Nested => f.write_str("has `{` inside `{...}`; write the alternatives side by side"),
        }
    }
}

impl std::error::Error for PatternError {}

pub(super) fn parse(text: &str, separator: Separator) -> Result<Vec<Token>, PatternError> {
    if text.len() > MAX_PATTERN_BYTES {
        return Err(PatternError::TooLong);
    }
    let mut parser = Parser { characters: text.chars().collect(), position: 0, separator };
    let tokens = parser.sequence(Depth::Top)?;
    Ok(if tokens == [Token::Prefix] { vec![Token::Everything] } else { tokens })
}

/// The reading in which OpenShell chooses an endpoint by its path: `*` and `?` cross the separator, and `/x/**` includes
/// `/x`.
pub(super) fn widen(tokens: Vec<Token>, separator: Separator) -> Vec<Token> {
    let own = ByteSet::one(separator.byte());
    let without_separator = own.inverted();
    let all = |set: ByteSet| if set == without_separator { ByteSet::ALL } else { set };
    let widened = tokens.into_iter().map(|token| match token {
        Token::One(set) => Token::One(all(set)),
        Token::Many(set) => Token::Many(all(set)),
        Token::Suffix => Token::Either(vec![Vec::new(), vec![Token::One(own), Token::Everything]]),
        Token::Either(branches) => {
            Token::Either(branches.into_iter().map(|branch| widen(branch, separator)).collect())
        }
        token @ (Token::Everything | Token::Prefix | Token::Middle) => token,
    });
    widened.collect()
}

/// The bytes of a pattern that has no wildcard.
pub(super) fn literal(tokens: &[Token]) -> Option<Vec<u8>> {
    let single = |set: &ByteSet| {
        let mut bytes = set.bytes();
        bytes.next().filter(|_| bytes.next().is_none())
    };
    tokens
        .iter()
        .map(|token| match token {
            Token::One(set) => single(set),
            _ => None,
        })
        .collect()
}

/// The parts between separators that are written out in full.
pub(super) fn literal_segments(text: &str, separator: Separator) -> Vec<Vec<u8>> {
    let mut segments = Vec::new();
    // `None` once the segment has a wildcard.
    let mut open = Some(Vec::new());
    for token in parse(text, separator).unwrap_or_default() {
        let single = literal(std::slice::from_ref(&token)).and_then(|bytes| bytes.first().copied());
        match (token, single) {
            (_, Some(byte)) if byte == separator.byte() => segments.extend(open.replace(Vec::new())),
            (_, Some(byte)) => open.iter_mut().for_each(|segment| segment.push(byte)),
            // These bring their own separators.
            (Token::Prefix | Token::Suffix | Token::Middle, _) => segments.extend(open.replace(Vec::new())),
            (Token::One(_) | Token::Many(_) | Token::Everything | Token::Either(_), None) => open = None,
        }
    }
    segments.extend(open);
    segments.retain(|segment| !segment.is_empty());
    segments
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    Top,
    Braces,
}

struct Parser {
    characters: Vec<char>,
    position: usize,
    separator: Separator,
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.characters.get(self.position).copied()
    }

    fn next(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.position += 1;
        Some(character)
    }

    fn is_separator(&self, character: Option<char>) -> bool {
        character == Some(char::from(self.separator.byte()))
    }

    fn anything_but_separator(&self) -> ByteSet {
        ByteSet::ALL.without(self.separator.byte())
    }

    fn sequence(&mut self, depth: Depth) -> Result<Vec<Token>, PatternError> {
        let mut tokens = Vec::new();
        while let Some(character) = self.peek() {
            if depth == Depth::Braces && matches!(character, ',' | '}') {
                return Ok(tokens);
            }
            self.position += 1;
            match character {
                '*' => self.star(&mut tokens, depth)?,
                '?' => tokens.push(Token::One(self.anything_but_separator())),
                '[' => tokens.push(Token::One(self.class()?)),
                '{' if depth == Depth::Braces => return Err(PatternError::Nested),
                '{' => tokens.push(Token::Either(self.alternatives()?)),
                '}' => return Err(PatternError::Unopened('}')),
                '\\' => push_literal(&mut tokens, self.next().ok_or(PatternError::DanglingEscape)?),
                _ => push_literal(&mut tokens, character),
            }
        }
        Ok(tokens)
    }

    fn alternatives(&mut self) -> Result<Vec<Vec<Token>>, PatternError> {
        let mut branches = Vec::new();
        loop {
            branches.push(self.sequence(Depth::Braces)?);
            match self.next() {
                Some(',') => {}
                Some(_) => break,
                None => return Err(PatternError::Unclosed('{')),
            }
        }
        // An empty alternative is dropped; braces without alternatives match nothing.
        branches.retain(|branch: &Vec<Token>| !branch.is_empty());
        if branches.is_empty() {
            branches.push(Vec::new());
        }
        Ok(branches)
    }

    /// `**` is special only when it is a whole component.
    fn star(&mut self, tokens: &mut Vec<Token>, depth: Depth) -> Result<(), PatternError> {
        let start = self.position - 1;
        if self.peek() == Some('*') && depth == Depth::Braces {
            return Err(PatternError::StarsInBraces);
        }
        let before = start.checked_sub(1).map(|index| self.characters[index]);
        let after = self.characters.get(start + 2).copied();
        let component = self.peek() == Some('*')
            && (start == 0 || self.is_separator(before))
            && (after.is_none() || self.is_separator(after));
        if !component {
            push_many(tokens, self.anything_but_separator());
            return Ok(());
        }
        self.position += 1;
        match self.separator {
            Separator::Dot => tokens.push(Token::Everything),
            Separator::Slash => self.recursive(tokens),
        }
        Ok(())
    }

    /// `**` between slashes takes the slashes with it, so that it can also match no component at all.
    fn recursive(&mut self, tokens: &mut Vec<Token>) {
        let at_end = self.peek().is_none();
        self.position += usize::from(!at_end);
        let token = match tokens.pop() {
            None | Some(Token::Prefix) => Token::Prefix,
            Some(Token::Suffix) => Token::Suffix,
            Some(_) if at_end => Token::Suffix,
            Some(_) => Token::Middle,
        };
        tokens.push(token);
    }

    fn class(&mut self) -> Result<ByteSet, PatternError> {
        let negated = matches!(self.peek(), Some('!' | '^'));
        self.position += usize::from(negated);
        let mut ranges: Vec<(char, char)> = Vec::new();
        let mut open_range = false;
        loop {
            let character = self.next().ok_or(PatternError::Unclosed('['))?;
            match (character, ranges.last_mut()) {
                (']', Some(_)) => break,
                ('-', Some(_)) if !open_range => open_range = true,
                (end, Some((from, to))) if open_range => {
                    if end < *from {
                        return Err(PatternError::BadRange(*from, end));
                    }
                    *to = end;
                    open_range = false;
                }
                _ => ranges.push((character, character)),
            }
        }
        if open_range {
            ranges.push(('-', '-'));
        }
        let mut set = ByteSet::NONE;
        for (from, to) in ranges {
            let (Ok(from), Ok(to)) = (u8::try_from(from), u8::try_from(to)) else {
                return Err(PatternError::NonAsciiClass);
            };
            if !to.is_ascii() {
                return Err(PatternError::NonAsciiClass);
            }
            (from..=to).for_each(|byte| set.insert(byte));
        }
        let set = if negated { set.inverted() } else { set };
        // Behind OpenShell a dot is spelled with slashes around it, which no class can match.
        Ok(if self.separator == Separator::Dot { set.without(b'.') } else { set })
    }
}

fn push_literal(tokens: &mut Vec<Token>, character: char) {
    let mut buffer = [0; 4];
    tokens.extend(character.encode_utf8(&mut buffer).bytes().map(|byte| Token::One(ByteSet::one(byte))));
}

/// Stars in a row say the same as one.
fn push_many(tokens: &mut Vec<Token>, set: ByteSet) {
    if tokens.last() != Some(&Token::Many(set)) {
        tokens.push(Token::Many(set));
    }
}
