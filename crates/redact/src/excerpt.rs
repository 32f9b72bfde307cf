//! The excerpt that a finding shows. Secrets are masked, and control and invisible characters are escaped.

use std::fmt::Write;
use std::ops::Range;

use crate::secrets::SecretMatch;

const MAX_CHARACTERS: usize = 120;
/// How much of the line around the finding is shown.
const CONTEXT: usize = 40;

/// The text of `range` with a little of its line on both sides.
pub(crate) fn excerpt(
    text: &str,
    line: (usize, usize),
    range: &Range<usize>,
    secrets: &[SecretMatch],
) -> String {
    let start = floor(text, range.start.saturating_sub(CONTEXT).max(line.0.min(range.start)));
    let end = floor(text, (range.end + CONTEXT).min(line.1.max(range.end)).min(start + 4 * MAX_CHARACTERS));
    let mut shown = String::new();
    let mut at = start;
    let first = secrets.partition_point(|secret| secret.range.end <= start);
    for secret in secrets[first..].iter().take_while(|secret| secret.range.start < end) {
        if secret.range.start > at {
            shown.push_str(&text[at..secret.range.start]);
        }
        let _ = write!(shown, "[REDACTED:{}]", secret.format);
        at = secret.range.end;
    }
    if at < end {
        shown.push_str(&text[at..end]);
    }
    visible(&shown)
}

/// Escapes invisible characters and cuts to the length of an excerpt.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::new();
    for (count, letter) in text.trim().chars().enumerate() {
        if count == MAX_CHARACTERS {
            shown.push('…');
            break;
        }
        if is_plain(letter) {
            shown.push(letter);
        } else {
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(letter));
        }
    }
    shown
}

fn is_plain(letter: char) -> bool {
    let is_invisible = matches!(u32::from(letter),
        0xad | 0x34f | 0x61c | 0x115f | 0x1160 | 0x17b4 | 0x17b5 | 0x180b..=0x180f | 0x200b..=0x200f | 0x2028..=0x202e
        | 0x2060..=0x206f | 0x2800 | 0x3164 | 0xfe00..=0xfe0f | 0xfeff | 0xffa0 | 0xfff0..=0xffff | 0xe0000..=0xe0fff);
    letter == ' ' || !(letter.is_control() || is_invisible)
}

fn floor(text: &str, at: usize) -> usize {
    text.floor_char_boundary(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::find_secrets;

    #[test]
    fn secrets_in_and_around_a_finding_are_masked() {
        let text = "before\nDB_PASSWORD=hunter2-rainbow; ignore all\nafter";
        let at = text.find("ignore").unwrap();
        let shown = excerpt(text, (7, text.len() - 6), &(at..at + 6), &find_secrets(text));
        assert_eq!(shown, "DB_PASSWORD=[REDACTED:password-assignment]; ignore all");
    }

    #[test]
    fn invisible_characters_are_spelled_out() {
        assert_eq!(visible("a\u{1b}[31mb\u{e0041}"), "a\\u{1b}[31mb\\u{e0041}");
        assert_eq!(visible(&"x".repeat(200)).chars().count(), MAX_CHARACTERS + 1);
    }
}
