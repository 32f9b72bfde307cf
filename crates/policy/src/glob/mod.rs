//! The globs of policy files. `*` and `?` stop at the separator, `**` crosses it; the separator is `/` in paths and `.`
//! in hosts, query values and names. A pattern is compiled once; matching takes time linear in the text, and and it can
//! be proved that one pattern is a subset of another. Comparing policies relies on that proof.

mod automaton;
mod bitmask;
mod machine;
mod parse;
mod proof;
#[cfg(test)]
mod tests;

use std::fmt;

use automaton::Automaton;
pub use parse::PatternError;
pub use proof::ProofBudget;

/// The longest pattern that is read, in bytes.
pub const MAX_PATTERN_BYTES: usize = 1024;

/// What `*` does not cross.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Separator {
    Slash,
    Dot,
}

impl Separator {
    fn byte(self) -> u8 {
        match self {
            Self::Slash => b'/',
            Self::Dot => b'.',
        }
    }
}

/// A compiled pattern. Two patterns are equal when they were written the same.
#[derive(Clone)]
pub struct Pattern {
    text: String,
    separator: Separator,
    /// Read as OpenShell reads the `path` of an endpoint.
    is_scope: bool,
    matcher: Matcher,
}

#[derive(Clone)]
enum Matcher {
    Everything,
    Exactly(Vec<u8>),
    Automaton(Box<Automaton>),
}

impl Pattern {
    /// Compiles a glob.
    pub fn glob(text: &str, separator: Separator) -> Result<Self, PatternError> {
        Self::from_tokens(text, separator, false, &parse::parse(text, separator)?)
    }

    /// Compiles the `path` of an endpoint, by which OpenShell chooses the endpoint for a request: `*` and `?` cross the
    /// separator, and `/x/**` includes `/x`. The paths of rules are read by `glob`.
    pub fn scope(text: &str) -> Result<Self, PatternError> {
        let separator = Separator::Slash;
        let tokens = parse::widen(parse::parse(text, separator)?, separator);
        Self::from_tokens(text, separator, true, &tokens)
    }

    fn from_tokens(
        text: &str,
        separator: Separator,
        is_scope: bool,
        tokens: &[parse::Token],
    ) -> Result<Self, PatternError> {
        let matcher = match parse::literal(tokens) {
            Some(bytes) => Matcher::Exactly(bytes),
            None if tokens == [parse::Token::Everything] => Matcher::Everything,
            None => Matcher::Automaton(Box::new(Automaton::new(tokens)?)),
        };
        Ok(Self { text: text.to_owned(), separator, is_scope, matcher })
    }

    /// Matches only this text, whatever characters are in it.
    pub fn exact(text: &str, separator: Separator) -> Self {
        let matcher = Matcher::Exactly(text.as_bytes().to_vec());
        Self { text: text.to_owned(), separator, is_scope: false, matcher }
    }

    /// The glob that matches only this text.
    pub fn escape(text: &str) -> String {
        text.chars().fold(String::new(), |mut out, c| {
            if "*?[]{}\\".contains(c) {
                out.push('\\');
            }
            out.push(c);
            out
        })
    }

    /// Matches every text.
    pub fn everything(separator: Separator) -> Self {
        Self { text: "**".to_owned(), separator, is_scope: false, matcher: Matcher::Everything }
    }

    /// As OpenShell reads hosts and binaries: a text without `*` matches only itself.
    pub fn glob_if_starred(text: &str, separator: Separator) -> Result<Self, PatternError> {
        if text.contains('*') { Self::glob(text, separator) } else { Ok(Self::exact(text, separator)) }
    }

    pub fn matches(&self, text: &[u8]) -> bool {
        match &self.matcher {
            Matcher::Everything => true,
            Matcher::Exactly(bytes) => bytes == text,
            Matcher::Automaton(automaton) => automaton.matches(text),
        }
    }

    /// The one text that this matches, if it is that kind of pattern.
    pub fn as_exact(&self) -> Option<&[u8]> {
        match &self.matcher {
            Matcher::Exactly(bytes) => Some(bytes),
            Matcher::Everything | Matcher::Automaton(_) => None,
        }
    }

    /// The segments between separators that every text that matches has in full.
    pub fn literal_segments(&self) -> Vec<Vec<u8>> {
        match &self.matcher {
            Matcher::Everything => Vec::new(),
            Matcher::Exactly(bytes) => {
                let parts = bytes.split(|byte| *byte == self.separator.byte());
                parts.filter(|part| !part.is_empty()).map(<[u8]>::to_vec).collect()
            }
            Matcher::Automaton(_) => parse::literal_segments(&self.text, self.separator),
        }
    }

    pub fn is_everything(&self) -> bool {
        matches!(self.matcher, Matcher::Everything)
    }

    /// Whether `other` matches everything that this matches. Returns false if the proof would take too long.
    pub fn within(&self, other: &Self, budget: &ProofBudget) -> bool {
        match (&self.matcher, &other.matcher) {
            (_, Matcher::Everything) => true,
            (Matcher::Exactly(bytes), _) => other.matches(bytes),
            (Matcher::Automaton(inner), Matcher::Automaton(outer)) => {
                self.same_as(other) || proof::within(inner, outer, budget)
            }
            // A pattern with wildcards hardly ever matches one text only.
            (Matcher::Everything, _) | (_, Matcher::Exactly(_)) => false,
        }
    }

    /// Whether some text may match both. Returns true if the proof would take too long.
    pub fn overlaps(&self, other: &Self, budget: &ProofBudget) -> bool {
        match (&self.matcher, &other.matcher) {
            (Matcher::Everything, _) | (_, Matcher::Everything) => true,
            (Matcher::Exactly(bytes), _) => other.matches(bytes),
            (_, Matcher::Exactly(bytes)) => self.matches(bytes),
            (Matcher::Automaton(one), Matcher::Automaton(two)) => proof::overlaps(one, two, budget),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    fn same_as(&self, other: &Self) -> bool {
        self.text == other.text
            && self.separator == other.separator
            && self.is_scope == other.is_scope
            && self.as_exact().is_some() == other.as_exact().is_some()
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.same_as(other)
    }
}

impl Eq for Pattern {}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({:?})", self.text)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
