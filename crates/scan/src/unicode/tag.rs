//! Tag characters (U+E0000 to U+E007F): a copy of ASCII without glyphs. Their one legitimate use is in flags of regions: a
//! black flag, a few tags, and a terminator.

use redact::{Severity, rule};

use super::{Mark, SuspiciousCharacters, letter_before};

const BLACK_FLAG: char = '\u{1f3f4}';
const CANCEL: char = '\u{e007f}';
const MAX_REGION: usize = 7;

pub(super) fn find(letters: &SuspiciousCharacters<'_>, marks: &mut Vec<Mark>) {
    let text = letters.text;
    for run in letters.runs(is_tag) {
        let tags = &text[run.clone()];
        if is_flag(text, run.start, tags) {
            continue;
        }
        let detail = format!("hidden text: {}", decode(tags));
        marks.push(Mark::removable(rule::unicode::TAG_CHARACTERS, Severity::Critical, run).detailed(detail));
    }
}

pub(super) fn is_tag(letter: char) -> bool {
    matches!(letter, '\u{e0000}'..='\u{e007f}')
}

/// The text in the tags.
pub(super) fn decode(tags: &str) -> String {
    tags.chars()
        .filter_map(|tag| char::from_u32(u32::from(tag).wrapping_sub(0xe0000)))
        .filter(|letter| (' '..='~').contains(letter))
        .collect()
}

fn is_flag(text: &str, start: usize, tags: &str) -> bool {
    let is_region = |tag: char| matches!(tag, '\u{e0061}'..='\u{e007a}' | '\u{e0030}'..='\u{e0039}');
    letter_before(text, start) == Some(BLACK_FLAG)
        && tags.ends_with(CANCEL)
        && (3..=MAX_REGION).contains(&tags.chars().count())
        && tags.chars().rev().skip(1).all(is_region)
}
