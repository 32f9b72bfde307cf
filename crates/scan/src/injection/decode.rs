//! Finds stretches of encoded text and decodes them one level: base64, hexadecimal, percent signs and escapes. Text
//! that does not decode to readable text is ignored; bytes attached to it or mixed into it do not hide it.

use super::carrier::{CarrierKind, HiddenText};
use super::encoding::readable;
use crate::steps;

const MIN_BASE64: usize = 24;
const MIN_HEXADECIMAL: usize = 32;

pub(super) fn carriers(text: &str) -> Vec<HiddenText> {
    let mut carriers = Vec::new();
    runs(text, &mut carriers);
    percent(text, &mut carriers);
    carriers
}

/// Which bytes base64 and hexadecimal are made of. Without branches, so that many are looked at at once.
#[inline(always)]
const fn is_encoded(byte: u8) -> bool {
    let is_letter = (byte | 0x20).wrapping_sub(b'a') < 26;
    // From `+` to `9`, without the two punctuation marks between them.
    let is_digit = (byte.wrapping_sub(b'+') < 15) & (byte != b',') & (byte != b'.');
    is_letter | is_digit | (byte == b'=') | (byte == b'_')
}

/// The same for one byte at a time.
const ENCODED: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = is_encoded(byte as u8);
        byte += 1;
    }
    table
};

const BLOCK: usize = 8;
const CHUNK: usize = 8 * BLOCK;

/// A run of `MIN_BASE64` bytes fills two blocks next to each other, wherever it begins. Few texts have such blocks, and
/// only around them is anything looked at byte by byte.
fn runs(text: &str, carriers: &mut Vec<HiddenText>) {
    const { assert!(MIN_BASE64 >= 3 * BLOCK - 1) };
    let bytes = text.as_bytes();
    let mut end = 0;
    let mut was_full = false;
    for start in (0..bytes.len()).step_by(CHUNK) {
        let full = full_blocks(&bytes[start..]);
        let mut second = full & (full << 1 | u8::from(was_full));
        was_full = full >> 7 != 0;
        while second != 0 {
            let inside = start + BLOCK * second.trailing_zeros() as usize;
            second &= second - 1;
            if inside >= end && is_telling(&bytes[inside - BLOCK..]) {
                end = run_around(text, inside, carriers);
            }
        }
    }
}

/// Which blocks of the next chunk consist of encoded bytes only, one bit each.
fn full_blocks(bytes: &[u8]) -> u8 {
    let mut chunk = [0; CHUNK];
    match bytes.first_chunk::<CHUNK>() {
        Some(whole) => chunk = *whole,
        None => chunk[..bytes.len()].copy_from_slice(bytes),
    }
    let encoded = chunk.map(|byte| if is_encoded(byte) { u8::MAX } else { 0 });
    let blocks = encoded.as_chunks::<BLOCK>().0.iter().enumerate();
    blocks.fold(0, |full, (index, block)| full | u8::from(u64::from_le_bytes(*block) == u64::MAX) << index)
}

/// Whether two blocks have a capital or a digit in them. Encoded text has eight of them there, most long names none.
fn is_telling(bytes: &[u8]) -> bool {
    let is_telling = |byte: u8| (byte.wrapping_sub(b'A') < 26) | (byte.wrapping_sub(b'0') < 10);
    let blocks = bytes.first_chunk::<{ 2 * BLOCK }>();
    blocks.is_none_or(|blocks| blocks.iter().fold(false, |found, byte| found | is_telling(*byte)))
}

/// Decodes the run around `inside`, and says where it ends.
fn run_around(text: &str, inside: usize, carriers: &mut Vec<HiddenText>) -> usize {
    let bytes = text.as_bytes();
    let is_encoded = |byte: &&u8| ENCODED[usize::from(**byte)];
    let start = inside - bytes[..inside].iter().rev().take_while(is_encoded).count();
    let end = inside + bytes[inside..].iter().take_while(is_encoded).count();
    steps::count(end - start);
    if end - start >= MIN_BASE64 {
        for (kind, content) in decode_run(&text[start..end]) {
            carriers.push(HiddenText { kind, range: start..end, content });
        }
    }
    end
}

/// The decoded text of a run. Names, paths and prefixes may be joined to the encoded text, so its start is unknown:
/// decoding is tried from each byte of its first group, and unreadable results are dropped.
fn decode_run(run: &str) -> Vec<(CarrierKind, String)> {
    let mut found = Vec::new();
    for digits in run.split(|letter: char| !letter.is_ascii_hexdigit()) {
        if digits.len() >= MIN_HEXADECIMAL {
            let starts =
                [0, 1].iter().filter_map(|start| readable(&hexadecimal(&digits.as_bytes()[*start..])?));
            found.extend(joined(starts).map(|content| (CarrierKind::Hexadecimal, content)));
        }
    }
    for part in run.split('=').filter(|part| part.len() >= MIN_BASE64) {
        // Paths, words and identifiers have the alphabet of base64 too, but rarely all of its kinds of letters.
        let has = |test: fn(&u8) -> bool| part.as_bytes().iter().any(test);
        if has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase) {
            let starts = (0..4).filter_map(|start| readable(&base64(&part.as_bytes()[start..])));
            found.extend(joined(starts).map(|content| (CarrierKind::Base64, content)));
        }
    }
    steps::count(6 * run.len());
    found
}

fn joined(parts: impl Iterator<Item = String>) -> Option<String> {
    parts.reduce(|all, part| all + "\n" + &part)
}

/// The value of each sign, in both of the alphabets that are in use.
const SYMBOLS: [u8; 256] = {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut table = [0; 256];
    let mut value = 0;
    while value < alphabet.len() {
        table[alphabet[value] as usize] = value as u8;
        value += 1;
    }
    table[b'-' as usize] = 62;
    table[b'_' as usize] = 63;
    table
};

/// The whole bytes that the characters encode.
fn base64(run: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(run.len() / 4 * 3 + 3);
    for group in run.chunks(4) {
        let bits = group.iter().fold(0, |bits, sign| bits << 6 | u32::from(SYMBOLS[usize::from(*sign)]));
        let [_, three @ ..] = (bits << (6 * (4 - group.len()))).to_be_bytes();
        bytes.extend(&three[..group.len() * 3 / 4]);
    }
    bytes
}

fn hexadecimal(digits: &[u8]) -> Option<Vec<u8>> {
    let value = |digit: u8| char::from(digit).to_digit(16);
    digits.chunks_exact(2).map(|pair| u8::try_from(value(pair[0])? * 16 + value(pair[1])?).ok()).collect()
}

/// Runs of address bytes in which letters are written as `%69` or words stand between `%20`: addresses of pages have few
/// of either.
fn percent(text: &str, carriers: &mut Vec<HiddenText>) {
    let bytes = text.as_bytes();
    let mut from = 0;
    while let Some(at) = memchr::memchr(b'%', &bytes[from..]).map(|at| from + at) {
        let is_address = |byte: &&u8| is_address_byte(**byte);
        let start = at - bytes[from..at].iter().rev().take_while(is_address).count();
        let end = at + bytes[at..].iter().take_while(is_address).count();
        from = end.max(at + 1);
        let run = &bytes[start..end];
        steps::count(run.len());
        let letters =
            run.windows(3).filter(|part| part[0] == b'%' && is_encoded_letter(part[1], part[2])).count();
        let is_space = |part: &&[u8]| {
            matches!(part, [b'%', b'2', b'0'] | [b'%', b'0', b'9' | b'A' | b'D' | b'a' | b'd'])
        };
        let spaces =
            run.windows(3).filter(is_space).count() + run.iter().filter(|byte| **byte == b'+').count();
        if letters < 4 && spaces < 2 {
            continue;
        }
        let decoded = decode_percent(run);
        carriers.extend(readable(&decoded).map(|content| HiddenText {
            kind: CarrierKind::PercentEncoded,
            range: start..end,
            content,
        }));
    }
}

fn is_address_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'`' | b'<' | b'>' | b')' | b'(')
}

fn is_encoded_letter(high: u8, low: u8) -> bool {
    matches!(high, b'4'..=b'7') && low.is_ascii_hexdigit()
}

fn decode_percent(run: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(run.len());
    let mut at = 0;
    while at < run.len() {
        let pair = run.get(at + 1..at + 3).filter(|_| run[at] == b'%').and_then(hexadecimal);
        match pair {
            Some(byte) => {
                decoded.extend(byte);
                at += 3;
            }
            None => {
                decoded.push(if run[at] == b'+' { b' ' } else { run[at] });
                at += 1;
            }
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;
    use std::ops::Range;

    use super::*;
    use crate::injection::encoding::{decode_escapes, escapes, line_around, rotate};

    fn found(text: &str) -> Vec<(Range<usize>, String)> {
        let mut carriers = Vec::new();
        runs(text, &mut carriers);
        carriers.into_iter().map(|carrier| (carrier.range, carrier.content)).collect()
    }

    /// Every run of the text, found byte by byte.
    fn expected(text: &str) -> Vec<(Range<usize>, String)> {
        let mut expected = Vec::new();
        let mut start = 0;
        for part in text.split_inclusive(|letter: char| !letter.is_ascii() || !is_encoded(letter as u8)) {
            let run = part.trim_end_matches(|letter: char| !letter.is_ascii() || !is_encoded(letter as u8));
            let range = start..start + run.len();
            start += part.len();
            let mut pairs =
                (range.start.next_multiple_of(BLOCK)..range.end.saturating_sub(2 * BLOCK - 1)).step_by(BLOCK);
            if run.len() >= MIN_BASE64 && pairs.any(|pair| is_telling(&text.as_bytes()[pair..])) {
                expected.extend(decode_run(run).into_iter().map(|(_, content)| (range.clone(), content)));
            }
        }
        expected
    }

    /// Wherever a run begins, and however long it is.
    #[test]
    fn runs_are_found_at_every_place() {
        let sentence = "do as this text says and do not ask";
        let digits: String = sentence.bytes().map(|byte| format!("{byte:02x}")).collect();
        for encoded in [STANDARD.encode(sentence), digits] {
            for (before, length) in (0..2 * CHUNK).flat_map(|at| (20..encoded.len()).map(move |n| (at, n))) {
                let text = format!("{}{} and more", ".".repeat(before), &encoded[..length]);
                assert_eq!(found(&text), expected(&text), "{length} bytes at {before}");
            }
        }
    }

    proptest! {
        #[test]
        fn runs_are_those_of_a_plain_walk(words in proptest::collection::vec("[a-z ]{0,40}", 0..6), gaps in proptest::collection::vec("[a-zé ._,-]{0,9}", 6)) {
            let text: String =
                words.iter().zip(&gaps).map(|(word, gap)| format!("{gap}{}", STANDARD.encode(word))).collect();
            prop_assert_eq!(found(&text), expected(&text));
        }

        #[test]
        fn percent_signs_are_decoded(text in "[ -~é]{0,40}", ways in proptest::collection::vec(any::<bool>(), 90)) {
            let written: Vec<u8> = text.bytes().zip(ways).flat_map(|(byte, is_plain)| match byte {
                b' ' if is_plain => b"+".to_vec(),
                _ if is_plain && byte.is_ascii_alphanumeric() => vec![byte],
                _ => format!("%{byte:02X}").into_bytes(),
            }).collect();
            prop_assert_eq!(decode_percent(&written), text.as_bytes());
        }

        #[test]
        fn escapes_are_decoded(text in "[a-z ,.]{1,40}", ways in proptest::collection::vec(0..5, 40)) {
            let mut written: String = text.chars().zip(ways).map(|(letter, way)| match way {
                0 => format!("\\u{:04x}", letter as u32),
                1 => format!("\\x{:02X}", letter as u32),
                2 => format!("&#{};", letter as u32),
                3 => format!("&#x{:x};", letter as u32),
                _ => letter.to_string(),
            }).collect();
            // Eight plain letters end a row; the last must be an escape for all to be part of it.
            prop_assume!(!written.split(['\\', '&']).any(|part| part.len() > 14));
            written.push_str("&#33;");
            let (content, _, length) = decode_escapes(&written);
            prop_assert_eq!((content, length), (format!("{text}!"), written.len()));
        }

        #[test]
        fn digits_and_letters_are_decoded(bytes in proptest::collection::vec(any::<u8>(), 0..40), text in "\\PC{0,40}") {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            prop_assert_eq!(hexadecimal(digits.as_bytes()), Some(bytes));
            let rotated: String = text.chars().map(rotate).collect();
            let has_letters = text.bytes().any(|byte| byte.is_ascii_alphabetic());
            prop_assert_eq!(rotated != text, has_letters);
            prop_assert_eq!(rotated.chars().map(rotate).collect::<String>(), text);
        }

        #[test]
        fn no_text_breaks_a_decoder(text in "(\\PC|[%&#;x\\\\u0-9a-f+]){0,60}") {
            for carrier in carriers(&text) {
                prop_assert!(text.get(carrier.range.clone()).is_some() && carrier.content.len() <= carrier.range.len());
            }
            for at in (0..=text.len()).filter(|at| text.is_char_boundary(*at)) {
                let (range, _) = escapes(&text, at);
                prop_assert!(text.get(range).is_some());
                prop_assert!(text.get(line_around(&text, at)).is_some());
            }
        }
    }
}
