//! Credentials in HTTP headers: what follows `Authorization:` and `Bearer`.

use std::ops::Range;

use super::{Confidence, SecretMatch, randomness};
use crate::rule;

const MAX_VALUE: usize = 4096;
const MIN_VALUE: usize = 8;
const MIN_BEARER: usize = 16;
const SCHEMES: &[&str] = &["bearer", "basic", "token", "digest", "apikey", "api-key", "negotiate", "bot"];

/// The credential after `Authorization`, with or without a scheme, in a header, a flag or a field.
pub(super) fn authorization(text: &str, hit: Range<usize>) -> Option<SecretMatch> {
    let bytes = text.as_bytes();
    let punctuation = bytes[hit.end..]
        .iter()
        .take(8)
        .take_while(|byte| matches!(byte, b'"' | b'\'' | b':' | b'=' | b' ' | b'\\'));
    let after = hit.end + punctuation.count();
    if !bytes[hit.end..after].iter().any(|byte| matches!(byte, b':' | b'=')) {
        return None;
    }
    let scheme = SCHEMES.iter().find(|scheme| {
        let end = after + scheme.len();
        bytes.get(after..end).is_some_and(|word| word.eq_ignore_ascii_case(scheme.as_bytes()))
            && bytes.get(end) == Some(&b' ')
    });
    let start = after + scheme.map_or(0, |scheme| scheme.len() + 1);
    let range = credential_at(text, start)?;
    let value = &text[range.clone()];
    let is_secret = value.len() >= MIN_VALUE && !randomness::is_common_value(value) && looks_generated(value);
    is_secret.then_some(SecretMatch {
        format: rule::secret::AUTHORIZATION_HEADER.name(),
        confidence: Confidence::Structural,
        range,
    })
}

/// `Bearer …` anywhere; prose such as "bearer tokens" has no digits in the next word.
pub(super) fn bearer(text: &str, hit: Range<usize>) -> Option<SecretMatch> {
    let range = credential_at(text, hit.end)?;
    let value = &text[range.clone()];
    let is_secret =
        value.len() >= MIN_BEARER && !randomness::is_common_value(value) && looks_generated(value);
    is_secret.then_some(SecretMatch {
        format: rule::secret::BEARER_TOKEN.name(),
        confidence: Confidence::Structural,
        range,
    })
}

fn credential_at(text: &str, start: usize) -> Option<Range<usize>> {
    let is_part = |byte: &&u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'~' | b'+' | b'/' | b'=' | b'-' | b':')
    };
    let length = text.as_bytes().get(start..)?.iter().take(MAX_VALUE).take_while(is_part).count();
    (length > 0).then_some(start..start + length)
}

/// Base64 of a short `user:password` may lack digits, but it has both cases.
fn looks_generated(value: &str) -> bool {
    let has = |test: fn(&u8) -> bool| value.bytes().any(|byte| test(&byte));
    let is_varied = has(u8::is_ascii_digit) || (has(u8::is_ascii_uppercase) && value.ends_with('='));
    is_varied && randomness::entropy(value) >= 2.5
}
