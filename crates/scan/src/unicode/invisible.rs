//! Zero-width and format characters, and letters without a glyph. Joiners are normal between emoji and in the scripts that
//! need them. Inside a Latin word they hide it from a filter, and in long runs they carry bits.

use redact::secrets::is_token_byte;
use redact::{Severity, rule};

use super::{Mark, SuspiciousCharacters, is_right_to_left, letter_after, letter_before, line_around};

/// A longer run is a message, not an accident.
const CHANNEL: usize = 8;

pub(super) fn find(letters: &SuspiciousCharacters<'_>, marks: &mut Vec<Mark>) {
    let text = letters.text;
    let mut at_run: Option<(usize, usize, usize)> = None;
    for (at, letter) in letters.odd.iter().copied().filter(|(_, letter)| is_invisible(*letter)) {
        let end = at + letter.len_utf8();
        at_run = match at_run {
            Some((start, last, count)) if last == at => Some((start, end, count + 1)),
            earlier => {
                judge(text, earlier, marks);
                Some((at, end, 1))
            }
        };
    }
    judge(text, at_run, marks);
}

fn judge(text: &str, run: Option<(usize, usize, usize)>, marks: &mut Vec<Mark>) {
    let Some((start, end, count)) = run else { return };
    let range = start..end;
    // A repeated character carries no message; editors paste such runs.
    let are_same = text[range.clone()].chars().all(|letter| text[start..].starts_with(letter));
    if count >= CHANNEL && !are_same {
        let detail = format!("{count} invisible characters in a row: {}", decode_bits(&text[range.clone()]));
        marks.push(
            Mark::removable(rule::unicode::ZERO_WIDTH_CHANNEL, Severity::Critical, range).detailed(detail),
        );
        return;
    }
    let letters = &text[range.clone()];
    let before = letter_before(text, start);
    let after = letter_after(text, end);
    if count <= 2 && letters.chars().all(|letter| is_at_home(text, start, letter, before, after)) {
        return;
    }
    let is_in_word = |side: Option<char>| side.is_some_and(|letter| letter.is_ascii_alphanumeric());
    let splits_word = is_in_word(before) && is_in_word(after);
    // A token such as `glpat-…` is one word.
    let is_in_token =
        |side: Option<char>| side.and_then(|letter| u8::try_from(letter).ok()).is_some_and(is_token_byte);
    let splits_token = is_in_token(before) && is_in_token(after);
    let is_blank_letter = letters.contains(is_blank_letter);
    let severity = match () {
        () if is_blank_letter && (is_in_word(before) || is_in_word(after)) => Severity::High,
        () if splits_word && !letters.contains('\u{ad}') => Severity::High,
        () if splits_word || splits_token || is_blank_letter || count > 2 => Severity::Medium,
        () => Severity::Low,
    };
    let rule = if is_blank_letter { rule::unicode::INVISIBLE_LETTER } else { rule::unicode::ZERO_WIDTH };
    marks.push(Mark::removable(rule, severity, range));
}

pub(super) fn is_invisible(letter: char) -> bool {
    is_blank_letter(letter)
        || matches!(u32::from(letter),
            0xad | 0x34f | 0x600..=0x605 | 0x61c | 0x6dd | 0x70f | 0x890 | 0x891 | 0x8e2 | 0x180e | 0x200b..=0x200f
            | 0x2028 | 0x2029 | 0x2060..=0x2065 | 0x206a..=0x206f | 0xfeff | 0xfff9..=0xfffb
            | 0x110bd | 0x110cd | 0x13430..=0x1343f | 0x1bca0..=0x1bca3 | 0x1d173..=0x1d17a | 0xe0080..=0xe00ff | 0xe01f0..=0xe0fff)
}

/// Characters that count as letters but have no glyph.
fn is_blank_letter(letter: char) -> bool {
    matches!(letter, '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}')
}

/// Whether a script or an emoji needs the character here.
fn is_at_home(text: &str, start: usize, letter: char, before: Option<char>, after: Option<char>) -> bool {
    let is_foreign = |side: Option<char>| side.is_some_and(|letter| !letter.is_ascii());
    match letter {
        '\u{feff}' => start == 0,
        '\u{200c}' | '\u{200d}' => is_foreign(before) && (is_foreign(after) || letter == '\u{200c}'),
        '\u{200e}' | '\u{200f}' | '\u{61c}' => line_around(text, &(start..start)).contains(is_right_to_left),
        '\u{600}'..='\u{605}' | '\u{6dd}' | '\u{70f}' | '\u{890}' | '\u{891}' | '\u{8e2}' => {
            after.is_some_and(|letter| is_right_to_left(letter) || letter.is_numeric())
        }
        '\u{200b}' | '\u{2060}' => needs_break_hints(before) && needs_break_hints(after),
        '\u{2800}' => is_braille(before) || is_braille(after),
        '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' => is_hangul(before) && is_hangul(after),
        '\u{17b4}' | '\u{17b5}' => is_foreign(before) && is_foreign(after),
        '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}' => is_foreign(before) || is_foreign(after),
        _ => false,
    }
}

/// Thai, Lao, Khmer, Burmese and CJK have no spaces; a zero-width one says where a line may end.
fn needs_break_hints(letter: Option<char>) -> bool {
    letter.is_some_and(|letter| matches!(u32::from(letter), 0xe00..=0xeff | 0x1000..=0x109f | 0x1780..=0x17ff | 0x2e80..=0x9fff))
}

fn is_braille(letter: Option<char>) -> bool {
    letter.is_some_and(|letter| matches!(letter, '\u{2801}'..='\u{28ff}'))
}

fn is_hangul(letter: Option<char>) -> bool {
    letter.is_some_and(|letter| matches!(u32::from(letter), 0x1100..=0x11ff | 0x3130..=0x318f | 0xa960..=0xa97f | 0xac00..=0xd7ff))
}

/// The usual trick: one character is 0, another is 1, eight of them are a letter.
pub(super) fn decode_bits(letters: &str) -> String {
    let zero = letters.chars().next().unwrap_or_default();
    let bits: Vec<bool> = letters.chars().map(|letter| letter != zero).collect();
    let byte = |bits: &[bool]| bits.iter().fold(0u8, |byte, bit| byte << 1 | u8::from(*bit));
    let plain: Vec<u8> = bits.chunks_exact(8).map(byte).collect();
    let inverted: Vec<u8> = plain.iter().map(|byte| !byte).collect();
    let is_text =
        |bytes: &[u8]| bytes.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace());
    [plain, inverted]
        .into_iter()
        .find(|bytes| is_text(bytes))
        .map_or_else(|| "(not text)".to_owned(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
}
