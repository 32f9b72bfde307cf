//! Floods of combining marks. Scripts stack a few. Dozens on one letter hide the text around them and overload terminals and
//! tokenizers.

use redact::{Severity, rule};
use unicode_normalization::char::is_combining_mark;

use super::{Mark, SuspiciousCharacters, variation};

/// As many as any writing system stacks on one letter.
const MAX_STACK: usize = 4;

pub(super) fn find(letters: &SuspiciousCharacters<'_>, marks: &mut Vec<Mark>) {
    let text = letters.text;
    for run in letters.runs(is_stackable) {
        let count = text[run.clone()].chars().count();
        if count <= MAX_STACK {
            continue;
        }
        let severity = if count > 4 * MAX_STACK { Severity::High } else { Severity::Medium };
        let kept: usize = text[run.clone()].chars().take(MAX_STACK).map(char::len_utf8).sum();
        marks.push(Mark::removable(rule::unicode::COMBINING_FLOOD, severity, run.start + kept..run.end));
    }
}

fn is_stackable(letter: char) -> bool {
    is_combining_mark(letter) && !variation::is_selector(letter)
}
