//! Masks credentials: those that the secret rules recognise, and the known values of this run in the encodings of
//! `forms.rs`. Masking twice changes nothing.

mod broken;
mod continued;
mod encoded;
mod escape;
pub(crate) mod find_known;
mod form_index;
pub(crate) mod forms;
mod json;
mod known;
mod marker;
mod rare_forms;
mod stream;
mod stream_mask;
mod wrapped;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use crate::secrets;
pub use continued::unfinished;
use known::KnownValues;
use marker::Marker;
pub use stream::StreamRedactor;
pub use stream_mask::StreamMasker;

/// A mask may join the text on both sides into a new secret, so masking is repeated until nothing is found.
const MAX_ROUNDS: usize = 8;

/// A value that cannot be masked without destroying ordinary text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueTooShort {
    pub name: String,
}

impl fmt::Display for ValueTooShort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let least = Redactor::MIN_KNOWN;
        write!(
            f,
            "the value of `{}` is shorter than {least} bytes and cannot be masked; use a longer one",
            self.name
        )
    }
}

impl std::error::Error for ValueTooShort {}

/// Masks the secret formats and, once built with them, known values. Cheap to share, never shows what it knows.
#[derive(Default)]
pub struct Redactor {
    known: KnownValues,
    skips_patterns: bool,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("known", &self.known.names()).finish_non_exhaustive()
    }
}

/// A stretch of text to be masked, and under which name.
struct Mask {
    range: Range<usize>,
    marker: Marker,
}

impl Redactor {
    /// Masking shorter values would mask ordinary words.
    pub const MIN_KNOWN: usize = 4;

    /// Masks what the rules recognise, without known values.
    pub fn new() -> Self {
        Redactor::default()
    }

    /// Knows `(name, value)` pairs as well. A name appears in the mask; a value appears nowhere.
    pub fn with_known<N, V>(values: impl IntoIterator<Item = (N, V)>) -> Result<Self, ValueTooShort>
    where
        N: AsRef<str>,
        V: AsRef<[u8]>,
    {
        Ok(Redactor { known: KnownValues::new(values)?, skips_patterns: false })
    }

    /// Masks only known values, for runs that switched the formats off.
    #[must_use]
    pub fn known_only(self) -> Self {
        Redactor { skips_patterns: true, ..self }
    }

    /// The text with every credential replaced by `[REDACTED:name]`; borrowed when there is none.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut current = Cow::Borrowed(text);
        for _ in 0..MAX_ROUNDS {
            let masks = self.masks(&current);
            if masks.is_empty() {
                return current;
            }
            current = Cow::Owned(self.apply(&current, &masks));
        }
        // Masks that keep joining into values: the whole text is masked.
        if self.masks(&current).is_empty() { current } else { Cow::Borrowed("***") }
    }

    /// As `redact`, for bytes of any encoding.
    pub fn redact_bytes<'t>(&self, bytes: &'t [u8]) -> Cow<'t, [u8]> {
        match std::str::from_utf8(bytes) {
            Ok(text) => match self.redact(text) {
                Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                Cow::Owned(text) => Cow::Owned(text.into_bytes()),
            },
            Err(_) => self.redact_foreign(bytes),
        }
    }

    /// Masks inside the strings of a JSON document (or of many, one after the other), which stays valid; everything
    /// else stays unchanged. Text that is not JSON is masked as plain text.
    pub fn redact_json<'t>(&self, text: &'t str) -> Cow<'t, str> {
        json::redact(self, text)
    }

    /// One JSON string, given without its escapes, with its credentials masked: by `change`, or because of its key. `None` if
    /// it has none.
    pub fn redact_json_string(
        &self,
        unescaped: &str,
        key: Option<&str>,
        change: impl Fn(&str) -> String,
    ) -> Option<String> {
        json::redacted_string(self, unescaped, key, change)
    }

    /// How much of a text that arrives in pieces must be seen together to recognise each known value.
    pub fn reach(&self) -> usize {
        2 * self.known.longest_form()
    }

    /// Latin-1 maps each byte to one character and back, so that binary output is searched too.
    fn redact_foreign<'t>(&self, bytes: &'t [u8]) -> Cow<'t, [u8]> {
        let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
        match self.redact(&text) {
            Cow::Borrowed(_) => Cow::Borrowed(bytes),
            Cow::Owned(masked) => {
                Cow::Owned(masked.chars().map(|letter| u8::try_from(letter).unwrap_or(b'?')).collect())
            }
        }
    }

    fn masks(&self, text: &str) -> Vec<Mask> {
        let mut masks = Vec::new();
        self.known.find(text, &mut masks);
        if !self.skips_patterns {
            let found = secrets::find_secrets(text);
            encoded::find(text, &mut masks);
            masks.extend(
                found
                    .into_iter()
                    .map(|secret| Mask { range: secret.range, marker: Marker::Format(secret.format) }),
            );
        }
        merge(masks)
    }

    fn apply(&self, text: &str, masks: &[Mask]) -> String {
        let mut masked = String::with_capacity(text.len());
        let mut at = 0;
        for mask in masks {
            masked.push_str(&text[at..mask.range.start]);
            self.known.write_marker(&mask.marker, &mut masked);
            at = mask.range.end;
        }
        masked.push_str(&text[at..]);
        masked
    }
}

/// Sorts and joins; a known value's name wins over a format's.
fn merge(mut masks: Vec<Mask>) -> Vec<Mask> {
    masks.sort_by_key(|mask| (mask.range.start, std::cmp::Reverse(mask.range.end)));
    let mut merged: Vec<Mask> = Vec::with_capacity(masks.len());
    for mask in masks {
        match merged.last_mut() {
            Some(last) if mask.range.start < last.range.end => {
                last.range.end = last.range.end.max(mask.range.end);
                if let (Marker::Format(_), Marker::Known(_)) = (&last.marker, &mask.marker) {
                    last.marker = mask.marker;
                }
            }
            _ => merged.push(mask),
        }
    }
    merged
}

#[cfg(test)]
mod tests;
