//! Finds credentials in text: vendors' token formats, and the places where people write passwords. Decides nothing
//! about what happens to them; masking is `redact`'s work.

mod assignment;
mod boundary;
mod checksum;
mod format;
mod formats;
mod header;
mod key_block;
mod name;
mod randomness;
mod url_password;

use std::ops::Range;
use std::sync::LazyLock;

use crate::search::{Literal, Search};
pub use boundary::is_token_byte;
use checksum::ChecksumResult;
use format::FormatMatcher;
pub(crate) use key_block::open_block;

/// How sure a match is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Confidence {
    /// A vendor's format with a wrong checksum: probably invented for a test.
    Unlikely,
    /// In a place for a secret, and not an ordinary word.
    Structural,
    /// A vendor's format.
    Shaped,
    /// A vendor's format with a valid checksum or encoding, or a private key.
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

/// Whether a field or variable of this name holds a secret.
pub fn names_secret(field: &str) -> bool {
    name::naming(field).is_some()
}

/// Whether `value` is a credential, given the name of the field that holds it.
pub fn find_secret_in_field(field: &str, value: &str) -> Option<SecretMatch> {
    find_secret(value).or_else(|| assignment::in_field(field, value))
}

/// All credentials of a text, in order, without overlaps.
pub fn find_secrets(text: &str) -> Vec<SecretMatch> {
    let mut found = Vec::new();
    SEARCH.each(text, |trigger, hit| trigger.collect(text, hit, &mut found));
    merge(found)
}

/// The names of the vendors' formats.
pub fn format_names() -> impl Iterator<Item = &'static str> {
    formats::all().map(|format| format.name)
}

/// Reads the text around a literal that may announce a credential.
pub struct SecretTrigger(SecretSign);

/// The kind of credential that a literal starts.
enum SecretSign {
    Format(FormatMatcher),
    SecretName,
    Authorization,
    Bearer,
    UrlPassword,
    Curl,
    KeyBlock,
}

impl SecretTrigger {
    pub fn collect(&self, text: &str, hit: Range<usize>, found: &mut Vec<SecretMatch>) {
        match &self.0 {
            SecretSign::Format(matcher) => found.extend(match_format(matcher, text, hit.start)),
            SecretSign::SecretName => {
                let secret = assignment::find(text, hit, found.last());
                found.extend(secret);
            }
            SecretSign::Authorization => found.extend(header::authorization(text, hit)),
            SecretSign::Bearer => found.extend(header::bearer(text, hit)),
            SecretSign::UrlPassword => found.extend(url_password::find(text, hit)),
            SecretSign::Curl => found.extend(assignment::of_curl(text, hit)),
            SecretSign::KeyBlock => found.extend(key_block::find(text, hit.start)),
        }
    }
}

fn match_format(matcher: &FormatMatcher, text: &str, hit: usize) -> Option<SecretMatch> {
    let format = matcher.format;
    let (start, end) = matcher.find(text.as_bytes(), hit)?;
    let confidence = match format.check.run(&text[start..end], format.literal) {
        ChecksumResult::Verified => Confidence::Verified,
        ChecksumResult::Plausible => Confidence::Shaped,
        ChecksumResult::Mismatch => Confidence::Unlikely,
        ChecksumResult::Example => return None,
    };
    Some(SecretMatch { format: format.name, confidence, range: start..end })
}

static SEARCH: LazyLock<Search<SecretTrigger>> = LazyLock::new(|| Search::new(literals()));

/// The literals of this family for the one-pass search.
pub fn literals() -> impl Iterator<Item = (Literal, SecretTrigger)> {
    let formats = formats::all().map(|format| {
        let literal = Literal { text: format.literal, is_exact: true, begins_word: format.lead == 0 };
        (literal, SecretTrigger(SecretSign::Format(FormatMatcher::new(format))))
    });
    let names =
        name::LITERALS.iter().map(|word| (Literal::anywhere(word), SecretTrigger(SecretSign::SecretName)));
    let others = [
        (Literal::anywhere("authorization"), SecretTrigger(SecretSign::Authorization)),
        (Literal::anywhere("bearer "), SecretTrigger(SecretSign::Bearer)),
        (Literal::anywhere("://"), SecretTrigger(SecretSign::UrlPassword)),
        (Literal::anywhere("curl "), SecretTrigger(SecretSign::Curl)),
        (Literal::anywhere("-----begin "), SecretTrigger(SecretSign::KeyBlock)),
    ];
    formats.chain(names).chain(others)
}

/// Sorts, and joins overlapping matches under the name of the more certain one.
pub fn merge(mut found: Vec<SecretMatch>) -> Vec<SecretMatch> {
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
