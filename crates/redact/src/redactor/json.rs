//! Masks inside the strings of JSON. Works on tokens instead of a parsed tree: depth does not matter, several
//! documents in a row are fine, and numbers, spaces and the order of keys stay as they were written.

use std::borrow::Cow;

use super::Redactor;
use crate::json::{self, TokenKind};
use crate::secrets;

/// The document with its strings masked. A string keeps its quotes; a number that is a known value becomes a string.
pub(super) fn redact<'t>(redactor: &Redactor, text: &'t str) -> Cow<'t, str> {
    let Some(tokens) = json::tokens(text) else { return redactor.redact(text) };
    let redact = |text: &str| redactor.redact(text).into_owned();
    let mut masked = String::new();
    let mut at = 0;
    let mut key = None;
    for token in tokens {
        let written = &text[token.range.clone()];
        let replacement = match token.kind {
            TokenKind::Key => {
                let decoded = json::decode(written);
                let replacement = redacted_string(redactor, &decoded, None, redact);
                key = Some(decoded);
                replacement
            }
            TokenKind::Text => {
                redacted_string(redactor, &json::decode(written), key.take().as_deref(), redact)
            }
            TokenKind::Number => redacted_number(redactor, written),
        };
        if let Some(replacement) = replacement {
            masked.push_str(&text[at..token.range.start]);
            masked.push_str(&replacement);
            at = token.range.end;
        }
    }
    if at == 0 {
        return whole_if_known(redactor, Cow::Borrowed(text));
    }
    masked.push_str(&text[at..]);
    whole_if_known(redactor, Cow::Owned(masked))
}

/// A known value that spans several JSON tokens is overwritten in each of them. If the document is no JSON then, the whole
/// document is masked.
fn whole_if_known<'t>(redactor: &Redactor, text: Cow<'t, str>) -> Cow<'t, str> {
    let holds_known = |text: &str| {
        let mut masks = Vec::new();
        redactor.known.find(text, &mut masks);
        !masks.is_empty()
    };
    if !holds_known(&text) {
        return text;
    }
    let mut bytes = text.into_owned().into_bytes();
    redactor.mask_in_place(&mut bytes);
    match String::from_utf8(bytes) {
        Ok(masked) if json::tokens(&masked).is_some() && !holds_known(&masked) => Cow::Owned(masked),
        _ => Cow::Borrowed("\"***\""),
    }
}

/// A JSON string with its credentials masked, by `change` or because of its key; `None` if it has none.
pub(super) fn redacted_string(
    redactor: &Redactor,
    decoded: &str,
    key: Option<&str>,
    change: impl Fn(&str) -> String,
) -> Option<String> {
    let by_field =
        key.filter(|_| !redactor.skips_patterns).and_then(|key| secrets::find_secret_in_field(key, decoded));
    let masked = match by_field {
        Some(secret) if secret.range == (0..decoded.len()) => {
            format!("[REDACTED:{}]", secret.format)
        }
        _ => change(decoded),
    };
    // The mask contains the format's name, which may contain a known value.
    let masked = redactor.redact(&masked).into_owned();
    (masked != decoded).then(|| format!("\"{}\"", json::escape(&masked, false)))
}

fn redacted_number(redactor: &Redactor, written: &str) -> Option<String> {
    let mut masks = Vec::new();
    redactor.known.find(written, &mut masks);
    (!masks.is_empty()).then(|| "\"[REDACTED]\"".to_owned())
}
