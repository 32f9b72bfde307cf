//! Credentials inside base64: each base64 text is decoded once and masked whole if it contains a credential. Known values
//! are found without decoding, in any alignment.

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::marker::Marker;
use super::{Mask, wrapped};
use crate::secrets::{self, Confidence};

/// A shorter base64 text cannot contain a name and a value.
const MIN_RUN: usize = 24;
/// How many bytes must be readable before a text is decoded from the middle of a group.
const SAMPLE: usize = 64;

const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_allow_trailing_bits(true)
    .with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

pub(super) fn find(text: &str, masks: &mut Vec<Mask>) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at + MIN_RUN <= bytes.len() {
        // A base64 text that spans this byte must contain it, so most of the text is skipped.
        if !is_symbol(bytes[at + MIN_RUN - 1]) {
            at += MIN_RUN;
            continue;
        }
        let back = bytes[at..at + MIN_RUN].iter().rev().take_while(|byte| is_symbol(**byte)).count();
        let start = at + MIN_RUN - back;
        let end = at + MIN_RUN + bytes[at + MIN_RUN..].iter().take_while(|byte| is_symbol(**byte)).count();
        if end - start >= MIN_RUN
            && let Some(format) = secret_in(&text[start..end])
        {
            masks.push(Mask { range: start..end, marker: Marker::Format(format) });
        }
        at = end;
    }
    for block in wrapped::blocks(text) {
        if let Some(format) = secret_in(block.joined.trim_end_matches('=')) {
            let range = block.original(&(0..block.joined.len()));
            masks.push(Mask { range, marker: Marker::Format(format) });
        }
    }
}

fn is_symbol(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')
}

/// The format of the credential in a base64 text. If the text was cut off, it may start inside a group of four.
fn secret_in(run: &str) -> Option<&'static str> {
    (0..4).find_map(|offset| {
        if offset > 0 && !is_readable(&decode(run.get(offset..run.len().min(offset + SAMPLE))?)?) {
            return None;
        }
        let decoded = decode(run.get(offset..)?)?;
        let text = String::from_utf8_lossy(&decoded);
        let found = secrets::find_secrets(&text);
        let sure = found.iter().find(|secret| secret.confidence != Confidence::Unlikely);
        sure.map(|secret| secret.format)
    })
}

fn decode(run: &str) -> Option<Vec<u8>> {
    let usable = run.len() - usize::from(run.len() % 4 == 1);
    let engine = if run.contains(['-', '_']) { &URL_SAFE } else { &STANDARD };
    engine.decode(&run[..usable]).ok()
}

fn is_readable(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Redactor;

    const LEAK: &str = "line\nDB_PASSWORD=hunter2-rainbow\nrest of the file\n";

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(Redactor::new().redact(text), expected);
    }

    #[test]
    fn encoded_values_are_found() {
        let encoded = base64::engine::general_purpose::STANDARD.encode(LEAK);
        check(&format!("out: {encoded}"), "out: [REDACTED:password-assignment]=");
        let wrapped = format!("{}\n{}\n", &encoded[..48], &encoded[48..]);
        assert!(Redactor::new().redact(&wrapped).contains("[REDACTED:password-assignment]"), "{wrapped}");
        check(&encoded[3..], "[REDACTED:password-assignment]=");
        let harmless = base64::engine::general_purpose::STANDARD.encode("nothing to see in this one, at all");
        check(&harmless, &harmless);
        check("/usr/share/doc/some-package/changelog.gz", "/usr/share/doc/some-package/changelog.gz");
    }

    proptest! {
        #[test]
        fn wherever_it_stands(before in "[ -~\\n]{0,40}", after in "[ -~\\n]{0,40}", url in any::<bool>()) {
            let leak = format!("{before}\nDB_PASSWORD=hunter2-rainbow\n{after}");
            let engine = if url {
                &base64::engine::general_purpose::URL_SAFE
            } else {
                &base64::engine::general_purpose::STANDARD
            };
            let masked = Redactor::new().redact(&engine.encode(&leak)).into_owned();
            prop_assert!(masked.starts_with("[REDACTED:"), "{}", masked);
        }
    }
}
