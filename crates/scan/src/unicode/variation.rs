//! Variation selectors. One after a character chooses how it is drawn; several in a row, or one after a letter that
//! has no variants, carry bytes.

use redact::{Severity, rule};

use super::{Mark, SuspiciousCharacters, letter_before};

pub(super) fn find(letters: &SuspiciousCharacters<'_>, marks: &mut Vec<Mark>) {
    let text = letters.text;
    for run in letters.runs(is_selector) {
        let selectors = &text[run.clone()];
        let count = selectors.chars().count();
        if count == 1 && has_variants(letter_before(text, run.start), selectors) {
            continue;
        }
        let severity = match count {
            1 => Severity::Low,
            2..=3 => Severity::Medium,
            4..=7 => Severity::High,
            _ => Severity::Critical,
        };
        let detail = format!("{count} selectors carry: {}", decode(selectors));
        marks.push(Mark::removable(rule::unicode::VARIATION_SELECTORS, severity, run).detailed(detail));
    }
}

pub(super) fn is_selector(letter: char) -> bool {
    matches!(letter, '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' | '\u{180b}'..='\u{180d}' | '\u{180f}')
}

/// The first sixteen selectors stand for the bytes 0 to 15, the others for 16 to 255.
pub(super) fn decode(selectors: &str) -> String {
    let byte = |letter: char| match u32::from(letter) {
        code @ 0xfe00..=0xfe0f => u8::try_from(code - 0xfe00).ok(),
        code @ 0xe0100..=0xe01ef => u8::try_from(code - 0xe0100 + 16).ok(),
        _ => None,
    };
    let bytes: Vec<u8> = selectors.chars().filter_map(byte).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Symbols, digits and keycaps take an emoji or text selector; CJK takes the others.
fn has_variants(base: Option<char>, selector: &str) -> bool {
    let Some(base) = base else { return false };
    let is_ideograph =
        matches!(u32::from(base), 0x2e80..=0xa4cf | 0xf900..=0xfaff | 0xff00..=0xffef | 0x20000..=0x3ffff);
    let is_mongolian = matches!(u32::from(base), 0x1800..=0x18af);
    if selector.chars().all(|letter| letter >= '\u{e0100}') {
        return is_ideograph;
    }
    let is_symbol = matches!(base, '#' | '*' | '0'..='9' | '©' | '®')
        || matches!(u32::from(base), 0x200d | 0x203c | 0x2049 | 0x2100..=0x2bff | 0x3000..=0x303f | 0x1f000..=0x1faff);
    is_symbol || is_ideograph || is_mongolian || !base.is_alphanumeric()
}
