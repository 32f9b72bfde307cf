//! Characters that change the direction of writing. Balanced ones are normal in right-to-left prose. Elsewhere they make a
//! line look different from what a program reads.

use redact::{Severity, rule};

use super::{Mark, SuspiciousCharacters, is_right_to_left, line_around};

pub(super) fn find(letters: &SuspiciousCharacters<'_>, marks: &mut Vec<Mark>) {
    let text = letters.text;
    for run in letters.runs(is_control) {
        let line = line_around(text, &run);
        let overrides = text[run.clone()].contains(['\u{202d}', '\u{202e}']);
        if !overrides && line.contains(is_right_to_left) && is_balanced(line) {
            continue;
        }
        let severity = if overrides || !is_balanced(line) { Severity::High } else { Severity::Medium };
        marks.push(Mark::removable(rule::unicode::BIDIRECTIONAL_CONTROL, severity, run));
    }
}

pub(super) fn is_control(letter: char) -> bool {
    matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn is_balanced(line: &str) -> bool {
    let mut depth = 0i32;
    for letter in line.chars() {
        match letter {
            '\u{202a}' | '\u{202b}' | '\u{202d}' | '\u{202e}' | '\u{2066}'..='\u{2068}' => depth += 1,
            '\u{202c}' | '\u{2069}' => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return false;
        }
    }
    depth == 0
}
