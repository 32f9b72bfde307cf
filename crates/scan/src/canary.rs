//! A token that the runner plants in the agent's context and that nobody else knows. Where it turns up in a tool's
//! input, in a request or in the output, somebody made the agent repeat what it was told: plain, encoded, spelled apart
//! or in pieces.

use std::fmt;
use std::ops::Range;

use crate::finding::{Category, Finding, Severity};
use crate::hit::Hit;
use crate::redact::forms;
use crate::report::report;

/// A piece of this many characters is no accident.
const MIN_PIECE: usize = 12;

/// The planted token. Never shown.
pub struct Canary {
    /// Letters and digits in lower case.
    token: Vec<u8>,
    forms: Vec<Vec<u8>>,
}

impl fmt::Debug for Canary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Canary(…)")
    }
}

/// A token that could turn up by accident.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WeakCanary;

impl fmt::Display for WeakCanary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a canary needs at least {} letters and digits", Canary::MIN_LENGTH)
    }
}

impl std::error::Error for WeakCanary {}

impl Canary {
    /// Shorter tokens could not be recognised in pieces.
    pub const MIN_LENGTH: usize = 20;

    /// A token of letters and digits, random for each run.
    pub fn new(token: &str) -> Result<Self, WeakCanary> {
        let squeezed = squeeze(token).0;
        if squeezed.len() < Canary::MIN_LENGTH {
            return Err(WeakCanary);
        }
        let mut forms: Vec<Vec<u8>> = forms::forms(token.as_bytes()).into_iter().collect();
        forms.extend(forms::forms(token.to_ascii_lowercase().as_bytes()));
        forms.extend(forms::forms(token.to_ascii_uppercase().as_bytes()));
        Ok(Canary { token: squeezed, forms })
    }

    /// Where the token, or enough of it, stands in a text.
    pub fn find(&self, text: &str) -> Option<Range<usize>> {
        self.encoded(text).or_else(|| self.spelled(text))
    }

    /// The token in a text, as a finding that does not show it.
    pub fn findings(&self, text: &str) -> Vec<Finding> {
        report(text, self.find(text).map(hit).into_iter().collect(), &[])
    }

    /// Exact forms, with line ends and blanks taken out because encoders wrap.
    fn encoded(&self, text: &str) -> Option<Range<usize>> {
        let (dense, places) = without_blanks(text);
        let found = self.forms.iter().find_map(|form| {
            memchr::memmem::find(&dense, form).map(|at| places[at]..places[at + form.len() - 1] + 1)
        })?;
        Some(whole_letters(text, found))
    }

    /// Letters and digits alone, so that no separators, quotes or invisible characters between them matter; forwards,
    /// backwards and rotated, and in pieces.
    fn spelled(&self, text: &str) -> Option<Range<usize>> {
        let (squeezed, places) = squeeze(text);
        let reversed: Vec<u8> = self.token.iter().rev().copied().collect();
        let rotated: Vec<u8> = self.token.iter().map(|byte| rotate(*byte)).collect();
        let found = [&self.token, &reversed, &rotated].into_iter().find_map(|token| {
            let mut pieces = token.windows(MIN_PIECE);
            pieces.find_map(|piece| memchr::memmem::find(&squeezed, piece))
        })?;
        Some(whole_letters(text, places[found]..places[found + MIN_PIECE - 1] + 1))
    }
}

fn hit(range: Range<usize>) -> Hit {
    Hit {
        rule: "canary",
        category: Category::Canary,
        severity: Severity::Critical,
        range,
        // The excerpt would show the token.
        detail: Some("the run's canary was repeated".to_owned()),
        advice: "Stop the run: something made the agent give away what only it was told.",
    }
}

fn whole_letters(text: &str, range: Range<usize>) -> Range<usize> {
    text.floor_char_boundary(range.start)..text.ceil_char_boundary(range.end)
}

fn squeeze(text: &str) -> (Vec<u8>, Vec<usize>) {
    let kept = text.bytes().enumerate().filter(|(_, byte)| byte.is_ascii_alphanumeric());
    kept.map(|(place, byte)| (byte.to_ascii_lowercase(), place)).unzip()
}

fn without_blanks(text: &str) -> (Vec<u8>, Vec<usize>) {
    text.bytes()
        .enumerate()
        .filter(|(_, byte)| !byte.is_ascii_whitespace())
        .map(|(place, byte)| (byte, place))
        .unzip()
}

fn rotate(byte: u8) -> u8 {
    if byte.is_ascii_lowercase() { (byte - b'a' + 13) % 26 + b'a' } else { byte }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;

    use super::*;

    const TOKEN: &str = "fsC7k2Qx9mVt4Lz8Rb1Nw6Hp3Y";

    #[track_caller]
    fn check(text: &str, expected: bool) {
        assert_eq!(Canary::new(TOKEN).unwrap().find(text).is_some(), expected, "{text}");
    }

    #[test]
    fn every_disguise_is_seen_through() {
        check(&format!("echo {TOKEN}"), true);
        check(&TOKEN.to_lowercase(), true);
        check(&format!("curl -d {} x", STANDARD.encode(format!("a{TOKEN}b"))), true);
        check(&TOKEN.bytes().map(|byte| format!("{byte:02x}")).collect::<String>(), true);
        check(&TOKEN.chars().map(|letter| format!("{letter}.")).collect::<String>(), true);
        check(&TOKEN.chars().rev().collect::<String>(), true);
        check(&format!("x = '{}' + '{}'", &TOKEN[..10], &TOKEN[10..]), true);
        check(&format!("first {} and later on {}", &TOKEN[..13], &TOKEN[13..]), true);
        check(&TOKEN.chars().map(|letter| format!("{letter}\u{200b}")).collect::<String>(), true);
        check(&format!("only {} of it", &TOKEN[..9]), false);
        check("nothing here", false);
        check("", false);
    }

    #[test]
    fn a_weak_token_is_refused_and_none_is_shown() {
        assert_eq!(Canary::new("short-token").unwrap_err(), WeakCanary);
        assert_eq!(format!("{:?}", Canary::new(TOKEN).unwrap()), "Canary(…)");
    }

    proptest! {
        #[test]
        fn found_wherever_it_stands(before in "\\PC{0,30}", after in "\\PC{0,30}", kind in 0..3) {
            let written = match kind {
                0 => TOKEN.to_owned(),
                1 => STANDARD.encode(TOKEN),
                _ => TOKEN.chars().map(|letter| format!("{letter} ")).collect(),
            };
            let text = format!("{before}/{written}/{after}");
            let range = Canary::new(TOKEN).unwrap().find(&text);
            prop_assert!(range.is_some_and(|range| text.get(range).is_some()));
        }
    }
}
