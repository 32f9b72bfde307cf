//! The shape of one vendor's token: a literal that the one-pass search looks for, the exact pattern around it, and
//! what can be checked without asking the vendor. A row of the tables in `formats/` is one of these.

use std::sync::OnceLock;

use regex::bytes::{Regex, RegexBuilder};

use super::boundary;
use super::checksum::FormatCheck;
use crate::steps;

/// The longest token. It bounds each match.
const MAX_TOKEN: usize = 8 * 1024;

pub(crate) struct Format {
    pub(crate) name: &'static str,
    pub(crate) literal: &'static str,
    /// How many bytes of the token may come before the literal.
    pub(crate) lead: usize,
    /// What follows the literal, or the whole token when there is a lead.
    pub(crate) pattern: &'static str,
    pub(crate) check: FormatCheck,
}

/// A format with its pattern, which is compiled when its literal is first seen.
pub(crate) struct FormatMatcher {
    pub(crate) format: &'static Format,
    compiled: OnceLock<Regex>,
}

/// A token that begins with its literal.
pub(crate) const fn starts(name: &'static str, literal: &'static str, pattern: &'static str) -> Format {
    Format { name, literal, lead: 0, pattern, check: FormatCheck::Randomness }
}

/// A token whose literal is up to `lead` bytes after its start; `pattern` describes the whole token.
pub(crate) const fn contains(
    name: &'static str,
    literal: &'static str,
    lead: usize,
    pattern: &'static str,
) -> Format {
    Format { name, literal, lead, pattern, check: FormatCheck::Randomness }
}

/// As `starts`, for vendors whose tokens can be verified offline.
pub(crate) const fn verified(
    name: &'static str,
    literal: &'static str,
    pattern: &'static str,
    check: FormatCheck,
) -> Format {
    Format { name, literal, lead: 0, pattern, check }
}

impl FormatMatcher {
    pub(crate) fn new(format: &'static Format) -> Self {
        FormatMatcher { format, compiled: OnceLock::new() }
    }

    /// The token around the literal at `hit`, if it has this shape.
    pub(crate) fn find(&self, text: &[u8], hit: usize) -> Option<(usize, usize)> {
        let start = self.format.start(text, hit)?;
        let slice = &text[start..text.len().min(start + MAX_TOKEN)];
        let end = start + self.regex().find(slice)?.end();
        steps::count(end - start);
        boundary::right(text, end).then_some((start, end))
    }

    fn regex(&self) -> &Regex {
        self.compiled.get_or_init(|| {
            let literal =
                if self.format.lead == 0 { regex::escape(self.format.literal) } else { String::new() };
            RegexBuilder::new(&format!(r"\A(?:{literal}{})", self.format.pattern))
                .unicode(false)
                .build()
                .expect("the tables are tested to compile")
        })
    }
}

impl Format {
    fn start(&self, text: &[u8], hit: usize) -> Option<usize> {
        if self.lead == 0 {
            return boundary::left(text, hit, self.is_open_ended()).then_some(hit);
        }
        let earliest = hit.saturating_sub(self.lead);
        let before = text[earliest..hit].iter().rev();
        let start = hit - before.take_while(|byte| boundary::is_token_byte(**byte)).count();
        boundary::left(text, start, false).then_some(start)
    }

    /// An open-ended pattern runs to the end of the token's alphabet. Trying it again at every repetition of the
    /// literal inside one run would be quadratic, so it is tried only where a run begins.
    fn is_open_ended(&self) -> bool {
        self.pattern.contains(",}")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::strategy::{Strategy, ValueTree};
    use proptest::string::string_regex;
    use proptest::test_runner::TestRunner;

    use super::super::formats::all;
    use super::*;

    #[test]
    fn every_row_compiles_and_has_its_own_name() {
        let mut names = HashSet::new();
        for format in all() {
            assert!(!FormatMatcher::new(format).regex().is_match(b""), "{} matches nothing", format.name);
            assert!(names.insert(format.name), "{} is there twice", format.name);
            assert!(format.literal.len() >= 2, "{}", format.name);
        }
        assert!(names.len() >= 150, "only {} formats", names.len());
    }

    /// A random token of the format. Classes of the tables are ASCII.
    fn token(format: &Format, runner: &mut TestRunner) -> String {
        let literal = if format.lead == 0 { regex::escape(format.literal) } else { String::new() };
        let pattern = format!("{literal}(?:{})", format.pattern)
            .replace("[^", "[^\\x00-\\x20\\x7f-\\x{10ffff}")
            .replace(r"\w", "0-9A-Za-z_")
            .replace(r"\d", "0-9");
        let strategy = string_regex(&pattern).unwrap_or_else(|error| panic!("{}: {error}", format.name));
        strategy.new_tree(runner).unwrap().current()
    }

    /// Random tokens of every format are found and masked.
    #[test]
    fn tokens_of_every_format_are_found() {
        let mut runner = TestRunner::deterministic();
        for format in all() {
            let mut found = 0;
            for _ in 0..20 {
                let token = token(format, &mut runner);
                let text = format!("key: \"{token}\"\n");
                let secrets = super::super::find_secrets(&text);
                let start = text.find(&token).unwrap();
                found +=
                    usize::from(secrets.iter().any(|secret| {
                        secret.range.start <= start && secret.range.end >= start + token.len()
                    }));
            }
            // A few random ones look like examples, or fail the check of their encoding.
            assert!(found >= 18, "{}: {found} of 20", format.name);
        }
    }
}
