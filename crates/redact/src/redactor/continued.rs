//! Redacts text that arrives in parts, such as the output of a running command. A credential that starts in an earlier part
//! and ends in this one is masked. If the end of a part may be the start of a credential, it is held back for the next part.

use std::borrow::Cow;

use super::{Mask, Redactor, wrapped};
use crate::secrets::is_token_byte;

/// Fewer characters of a credential reveal nothing.
const MIN_RUN: usize = 8;
/// The most that is held back for the next part.
const MAX_LEFT: usize = 16 * 1024;

impl Redactor {
    /// As `redact`, for text that follows `before`. The result does not contain `before`.
    pub fn redact_after<'t>(&self, before: &str, text: &'t str) -> Cow<'t, str> {
        let border = before.len();
        let all = if before.is_empty() { Vec::new() } else { self.masks(&format!("{before}{text}")) };
        let reaching = all.into_iter().filter(|mask| mask.range.end > border);
        let masks: Vec<Mask> = reaching
            .map(|Mask { range, marker }| Mask {
                range: range.start.saturating_sub(border)..range.end - border,
                marker,
            })
            .collect();
        if masks.is_empty() {
            return self.redact(text);
        }
        Cow::Owned(self.redact(&self.apply(text, &masks)).into_owned())
    }
}

/// Where the text to hold back starts: the last unbroken run of characters that credentials consist of, with the lines of
/// base64 that it continues.
pub fn unfinished(text: &str) -> usize {
    let bytes = text.as_bytes();
    let run = bytes.iter().rev().take(MAX_LEFT).take_while(|byte| is_token_byte(**byte)).count();
    let mut start = bytes.len() - run;
    while let Some(line) = line_before(&text[..start])
        && wrapped::is_full_line(text[line..start].trim_end())
        && bytes.len() - line <= MAX_LEFT
    {
        start = line;
    }
    if bytes.len() - start < MIN_RUN { bytes.len() } else { start }
}

/// Where the line that ends here starts, if one ends here.
fn line_before(text: &str) -> Option<usize> {
    let line = text.strip_suffix('\n')?;
    Some(line.rfind('\n').map_or(0, |at| at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "sk-test-4f9c1d7a2b8e6035";

    #[track_caller]
    fn check(before: &str, text: &str, expected: &str) {
        let redactor = Redactor::with_known([("key", KEY)]).unwrap();
        assert_eq!(redactor.redact_after(before, text), expected, "{before} | {text}");
    }

    #[test]
    fn value_across_a_boundary_is_masked_completely() {
        check("", "plain words", "plain words");
        check("one ", "two", "two");
        check("a sk-test-", "4f9c1d7a2b8e6035 b", "[REDACTED:key] b");
        check("a sk-t", "est-4f9c1d7a", "[REDACTED:key]");
        check("a sk-test-4f9c1d7a2b8e60", "35 b", "[REDACTED:key] b");
        check("DB_PASSWORD=hun", "ter2-rainbow\nnext", "[REDACTED:password-assignment]\nnext");
        check("DB_PASS", "WORD=hunter2-rainbow", "WORD=[REDACTED:password-assignment]");
        check("DB_PASSWORD=hunter2-rainbow\n", "next", "next");
        check("x ", "ends in sk-test-4f", "ends in [REDACTED:key]");
    }

    #[test]
    fn an_unbroken_end_is_left_for_the_next_part() {
        let check = |text: &str, left: &str| assert_eq!(&text[unfinished(text)..], left, "{text}");
        check("", "");
        check("a line\n", "");
        check("Continue? [y/N] ", "");
        check("Password:", "");
        check("done", "");
        check("out: ghp_a1B2c3D4", "ghp_a1B2c3D4");
        check("KEY=abcdefgh", "abcdefgh");
        let line = "QUJD".repeat(19);
        check(&format!("out:\n{line}\n{line}\nQU"), &format!("{line}\n{line}\nQU"));
        check(&format!("out:\n{line}\n"), &format!("{line}\n"));
        let long = "x".repeat(3 * MAX_LEFT);
        assert_eq!(long.len() - unfinished(&long), MAX_LEFT);
        let many = format!("{line}\n").repeat(1000);
        assert!(many.len() - unfinished(&many) <= MAX_LEFT && unfinished(&many) < many.len());
    }
}
