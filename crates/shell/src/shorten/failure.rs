//! Lines that say, or may say, that something failed or is missing. In doubt a line counts as a failure: keeping output costs a
//! few tokens, losing a failure costs more.

use super::runner::collapse_blanks;
use crate::steps;

/// Parts of lines that say that something is wrong, whatever the exit code was.
const TROUBLE: &[&str] = &[
    "npm err",
    "***",
    "failed",
    "failure",
    "panicked",
    "traceback",
    "exception",
    "assertionerror",
    "not ok ",
    "leaks found",
    "✗",
    "✖",
    "✕",
    "✘",
    "segmentation fault",
    "killed",
    "timed out",
    "not met",
    "no status",
    // Runtimes write these while a command still runs, so the output is not complete.
    "process running with session id",
    "running in background with id",
    // Runtimes write these where they cut the output.
    "truncated",
    "omitted",
    "elided",
    "more lines",
    "lines hidden",
    "output too large",
    "output too long",
];

/// The same as whole words. As parts of names they mean nothing.
const WORDS: &[&str] = &[
    "error",
    "errors",
    "fail",
    "fails",
    "failing",
    "fatal",
    "warning",
    "warnings",
    "timeout",
    "timeouts",
    "aborted",
    "aborting",
    "interrupted",
    "terminated",
    "crashed",
    "denied",
];

/// What tools write if nothing is wrong. A digit before it changes the number.
const HARMLESS: &[&str] = &[
    "0 failed",
    "0 failures",
    "0 failing",
    "0 fail",
    "0 errors",
    "0 error(s)",
    "0 error",
    "0 warnings",
    "0 warning(s)",
    "0 timed out",
    "failed: 0",
    "failures: 0",
    "errors: 0",
    "fail 0",
    "no errors",
    "no warnings",
    "no leaks found",
];

/// The text before an exit status.
const STATUS: &[&str] =
    &["exit code", "exit_code", "exitcode", "exit status", "exited with code", "exited with", "return code"];

pub(super) fn is_failure(line: &str) -> bool {
    let line = collapse_blanks(line).to_lowercase();
    if is_passed_test(&line) {
        return false;
    }
    let line = without_harmless(line);
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut words = line.split(|letter| !is_part(letter));
    // The words, and each part and each sign of a status.
    steps::count(line.len() * (1 + TROUBLE.len() + STATUS.len()));
    TROUBLE.iter().any(|part| line.contains(part))
        || words.any(|word| WORDS.contains(&word))
        || has_bad_status(&line)
}

/// `test error::is_failed ... ok` and `PASS src/error.test.ts`: the name of a test is not a message.
fn is_passed_test(line: &str) -> bool {
    let words: Vec<&str> = line.split(' ').take(5).collect();
    matches!(words.as_slice(), ["test", _, "...", "ok"] | ["pass", _])
}

/// `Process exited with code 101`, `"exit_code":1`.
fn has_bad_status(line: &str) -> bool {
    STATUS.iter().flat_map(|status| line.match_indices(status)).any(|(at, status)| {
        let after = line[at + status.len()..].trim_start_matches([' ', ':', '=', '"', '\'', '(', '`']);
        let digits = after.strip_prefix('-').unwrap_or(after);
        let number = &digits[..digits.bytes().take_while(u8::is_ascii_digit).count()];
        number.bytes().any(|digit| digit != b'0')
    })
}

/// The line without phrases such as `0 errors`.
fn without_harmless(mut line: String) -> String {
    let part_of_more = |letter: char| letter.is_alphanumeric() || matches!(letter, '.' | ',' | '-' | '_');
    for phrase in HARMLESS {
        let mut from = 0;
        while let Some(at) = line[from..].find(phrase).map(|at| from + at) {
            let end = at + phrase.len();
            steps::count(end - from);
            let before = line[..at].chars().next_back();
            let after = line[end..].chars().next();
            let goes_on = |letter: char| letter.is_alphanumeric() || letter == '.' && phrase.ends_with('0');
            let is_whole = !before.is_some_and(part_of_more) && !after.is_some_and(goes_on);
            if is_whole {
                line.replace_range(at..end, &" ".repeat(phrase.len()));
            }
            from = end;
        }
        steps::count(line.len() - from);
    }
    line
}
