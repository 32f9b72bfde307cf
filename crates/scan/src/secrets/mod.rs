//! Finds credentials in text: vendors' token formats, and the places where people write passwords. Decides nothing
//! about what happens to them; masking is `redact`'s work.

mod assignment;
mod boundary;
pub(crate) mod checksum;
mod format;
mod formats;
mod header;
mod key_block;
mod name;
pub(crate) mod randomness;
mod url_password;

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{
    AhoCorasick, AhoCorasickKind, Anchored, Input, MatchKind, StartKind, automaton::OverlappingState,
};

use checksum::Outcome;
use format::Matcher;
pub(crate) use key_block::open_block;

/// How sure a match is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Confidence {
    /// A vendor's shape whose checksum does not hold: probably invented for a test.
    Unlikely,
    /// Stands where a secret stands, and does not look like a word.
    Structural,
    /// A vendor's shape.
    Shaped,
    /// A vendor's shape with a checksum or an encoding that holds, or a private key.
    Verified,
}

/// One credential in a text. It holds no part of the value, so it may be printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretMatch {
    /// The format's name, such as `github-personal-access-token` or `password-assignment`.
    pub format: &'static str,
    pub confidence: Confidence,
    /// The bytes of the secret itself, without the name or the quotes around it.
    pub range: Range<usize>,
}

/// The first credential of a text, for callers that only ask whether there is one.
pub fn find_secret(text: &str) -> Option<SecretMatch> {
    find_secrets(text).into_iter().next()
}

/// Whether `value` is a credential, given the name of the field that holds it.
pub fn find_secret_in_field(field: &str, value: &str) -> Option<SecretMatch> {
    find_secret(value).or_else(|| assignment::in_field(field, value))
}

/// All credentials of a text, in order, without overlaps.
pub fn find_secrets(text: &str) -> Vec<SecretMatch> {
    let mut found = Vec::new();
    let search = &*SEARCH;
    let bytes = text.as_bytes();
    let input = Input::new(bytes).anchored(Anchored::No);
    let mut state = OverlappingState::start();
    loop {
        search.automaton.find_overlapping(input.clone(), &mut state);
        let Some(hit) = state.get_match() else { break };
        search.triggers[hit.pattern().as_usize()].collect(text, hit.range(), &mut found);
    }
    merge(found)
}

/// The number of vendor formats.
pub fn format_count() -> usize {
    formats::all().count()
}

/// What to look at when a literal was seen.
enum Trigger {
    Format(Matcher),
    SecretName,
    Authorization,
    Bearer,
    UrlPassword,
    KeyBlock,
}

impl Trigger {
    fn collect(&self, text: &str, hit: Range<usize>, found: &mut Vec<SecretMatch>) {
        match self {
            Trigger::Format(matcher) => found.extend(match_format(matcher, text, hit.start)),
            Trigger::SecretName => found.extend(assignment::find(text, hit)),
            Trigger::Authorization => found.extend(header::authorization(text, hit)),
            Trigger::Bearer => found.extend(header::bearer(text, hit)),
            Trigger::UrlPassword => found.extend(url_password::find(text, hit)),
            Trigger::KeyBlock => found.extend(key_block::find(text, hit.start)),
        }
    }
}

fn match_format(matcher: &Matcher, text: &str, hit: usize) -> Option<SecretMatch> {
    let format = matcher.format;
    // The search folds case; vendors do not.
    if !text.as_bytes()[hit..].starts_with(format.literal.as_bytes()) {
        return None;
    }
    let (start, end) = matcher.find(text.as_bytes(), hit)?;
    let confidence = match format.check.run(&text[start..end], format.literal) {
        Outcome::Verified => Confidence::Verified,
        Outcome::Plausible => Confidence::Shaped,
        Outcome::Mismatch => Confidence::Unlikely,
        Outcome::Example => return None,
    };
    Some(SecretMatch { format: format.name, confidence, range: start..end })
}

struct Search {
    automaton: AhoCorasick,
    triggers: Vec<Trigger>,
}

static SEARCH: LazyLock<Search> = LazyLock::new(|| {
    let mut literals: Vec<&str> = Vec::new();
    let mut triggers = Vec::new();
    for format in formats::all() {
        literals.push(format.literal);
        triggers.push(Trigger::Format(Matcher::new(format)));
    }
    for word in name::LITERALS {
        literals.push(word);
        triggers.push(Trigger::SecretName);
    }
    let single = [
        ("authorization", Trigger::Authorization),
        ("bearer ", Trigger::Bearer),
        ("://", Trigger::UrlPassword),
        ("-----begin ", Trigger::KeyBlock),
    ];
    for (literal, trigger) in single {
        literals.push(literal);
        triggers.push(trigger);
    }
    let automaton = AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .match_kind(MatchKind::Standard)
        .start_kind(StartKind::Unanchored)
        .kind(Some(AhoCorasickKind::DFA))
        .build(&literals)
        .expect("a few hundred short literals fit in an automaton");
    Search { automaton, triggers }
});

/// Sorts, and joins what overlaps under the name of the surer match.
fn merge(mut found: Vec<SecretMatch>) -> Vec<SecretMatch> {
    found.sort_by_key(|secret| (secret.range.start, std::cmp::Reverse(secret.range.end)));
    let mut merged: Vec<SecretMatch> = Vec::with_capacity(found.len());
    for secret in found {
        match merged.last_mut() {
            Some(last) if secret.range.start < last.range.end => {
                if secret.confidence > last.confidence {
                    last.format = secret.format;
                    last.confidence = secret.confidence;
                }
                last.range.end = last.range.end.max(secret.range.end);
            }
            _ => merged.push(secret),
        }
    }
    merged
}

#[cfg(test)]
mod tests;
