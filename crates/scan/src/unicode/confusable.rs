//! Letters that look like others. No language mixes Latin letters with lookalikes of another script in one word. A host name
//! that looks Latin but is not is worse.

use std::ops::Range;

use redact::{Severity, rule};
use unicode_script::{Script, UnicodeScript};
use unicode_security::skeleton;

use super::{Mark, SuspiciousCharacters, line_around};

const MAX_WORD: usize = 64;

pub(super) fn find(letters: &SuspiciousCharacters<'_>, marks: &mut Vec<Mark>) {
    let text = letters.text;
    let mut done = 0;
    for (at, letter) in letters.odd.iter().copied() {
        if at < done || !looks_latin(letter) {
            continue;
        }
        let range = word_around(text, at);
        done = range.end;
        marks.extend(judge(text, range));
    }
}

fn judge(text: &str, range: Range<usize>) -> Option<Mark> {
    let word = &text[range.clone()];
    let latin = word.chars().filter(char::is_ascii_alphabetic).count();
    let likeness: String = skeleton(word).collect();
    let is_host = is_in_host(text, &range);
    let is_mixed = latin >= 2 && is_latin_word(&likeness);
    let is_disguised_host = is_host && is_latin_word(&likeness);
    if !(is_mixed || is_disguised_host) || is_one_script_with_units(word) {
        return None;
    }
    let is_code = is_host || word.contains('_') || line_around(text, &range).contains("$ ");
    let severity = if is_code { Severity::High } else { Severity::Medium };
    let detail = Some(format!("`{word}` looks like `{likeness}`"));
    Some(Mark { rule: rule::unicode::CONFUSABLE_LETTERS, severity, range, detail, is_removable: false })
}

/// Letters of the scripts from which lookalikes are taken.
pub(super) fn looks_latin(letter: char) -> bool {
    matches!(
        letter.script(),
        Script::Cyrillic
            | Script::Greek
            | Script::Armenian
            | Script::Cherokee
            | Script::Coptic
            | Script::Lisu
    )
}

fn is_word_letter(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

pub(super) fn word_around(text: &str, at: usize) -> Range<usize> {
    let before = text[..at].chars().rev().take(MAX_WORD).take_while(|letter| is_word_letter(*letter));
    let after = text[at..].chars().take(MAX_WORD).take_while(|letter| is_word_letter(*letter));
    let start = at - before.map(char::len_utf8).sum::<usize>();
    start..at + after.map(char::len_utf8).sum::<usize>()
}

fn is_latin_word(likeness: &str) -> bool {
    likeness.len() >= 3 && likeness.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// `Δt`, `μs`, `αx`: a formula, not a disguise. One foreign letter in a short word is not enough.
fn is_one_script_with_units(word: &str) -> bool {
    let foreign = word.chars().filter(|letter| looks_latin(*letter)).count();
    let is_greek = word.chars().any(|letter| letter.script() == Script::Greek);
    is_greek && foreign == 1 && word.chars().count() < 5
}

/// Between `://` and the path, or before a dot and a Latin ending.
fn is_in_host(text: &str, range: &Range<usize>) -> bool {
    let before = &text[text.floor_char_boundary(range.start.saturating_sub(128))..range.start];
    let authority = before.rfind("://").map(|at| &before[at + 3..]);
    let is_after_scheme = authority.is_some_and(|part| !part.contains(['/', ' ', '\n', '"']));
    let after = &text[range.end..];
    let endings = [".com", ".org", ".net", ".io", ".dev", ".app", ".ai", ".co"];
    is_after_scheme || endings.iter().any(|ending| after.starts_with(ending))
}
