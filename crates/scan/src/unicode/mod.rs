//! Characters that a person does not see but a model reads. Legitimate text (emoji, ligatures, CJK, right-to-left prose) gives
//! no finding, and cleaning does not change it.

mod bidirectional;
mod clean;
mod combining;
mod confusable;
mod control;
pub(crate) mod fold;
mod invisible;
mod tag;
mod variation;

use std::ops::Range;

use redact::{Category, Hit, RuleName, Severity};

pub use clean::{clean, clean_json};

use crate::steps;

/// One suspicious part of a text.
#[derive(Clone)]
pub(crate) struct Mark {
    rule: RuleName,
    severity: Severity,
    range: Range<usize>,
    detail: Option<String>,
    /// Whether removing it removes the attack. Lookalike letters stay.
    is_removable: bool,
}

impl Mark {
    fn removable(rule: RuleName, severity: Severity, range: Range<usize>) -> Self {
        Mark { rule, severity, range, detail: None, is_removable: true }
    }

    fn detailed(self, detail: String) -> Self {
        Mark { detail: Some(detail), ..self }
    }
}

/// The most findings of one kind for one text.
const MAX_PER_RULE: usize = 20;

/// The hidden characters of a text.
pub fn hidden_characters(text: &str) -> Vec<Hit> {
    let mut hits = Vec::new();
    scan(&SuspiciousCharacters::new(text), &mut hits);
    hits
}

pub(crate) fn scan(letters: &SuspiciousCharacters<'_>, hits: &mut Vec<Hit>) {
    let mut counts: Vec<(RuleName, usize)> = Vec::new();
    for mark in marks(letters) {
        let count = match counts.iter_mut().find(|(rule, _)| *rule == mark.rule) {
            Some((_, count)) => count,
            None => {
                counts.push((mark.rule, 0));
                &mut counts.last_mut().expect("just pushed").1
            }
        };
        *count += 1;
        if *count <= MAX_PER_RULE {
            hits.push(hit(mark));
        }
    }
}

fn hit(mark: Mark) -> Hit {
    let Mark { rule, severity, range, detail, is_removable } = mark;
    let advice = if is_removable {
        "Remove the characters. People cannot see them, but a model reads them."
    } else {
        "Replace the look-alike letters with ordinary ones."
    };
    let category = Category::UnicodeNormalizer;
    Hit { rule, category, severity, score: None, range, passage: None, detail, advice }
}

/// A text and the characters in it that the rules check, collected once for all rules.
pub(crate) struct SuspiciousCharacters<'t> {
    text: &'t str,
    odd: Vec<(usize, char)>,
    /// Terminal sequences, in order of place.
    controls: Vec<Mark>,
}

impl<'t> SuspiciousCharacters<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        let mut odd = Vec::new();
        let mut controls = Vec::new();
        if !is_plain(text.as_bytes()) {
            odd.extend(foreign_letters(text).filter(|(_, letter)| !is_common(*letter)));
            control::find(text, &mut controls);
        }
        SuspiciousCharacters { text, odd, controls }
    }

    /// Runs of neighbouring characters for which `belongs` holds.
    fn runs(&self, belongs: fn(char) -> bool) -> Vec<Range<usize>> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        for (at, letter) in self.odd.iter().filter(|(_, letter)| belongs(*letter)) {
            match runs.last_mut() {
                Some(run) if run.end == *at => run.end = at + letter.len_utf8(),
                _ => runs.push(*at..at + letter.len_utf8()),
            }
        }
        runs
    }
}

/// Letters of the Latin languages, punctuation, arrows, boxes, CJK and emoji: frequent, and harmless by themselves.
fn is_common(letter: char) -> bool {
    matches!(u32::from(letter), 0xa0..=0xac | 0xae..=0x24f | 0x2010..=0x2027 | 0x2030..=0x205e | 0x2190..=0x245f
        | 0x2500..=0x27ff | 0x2900..=0x2bff | 0x3000..=0x3129 | 0x4e00..=0x9fff | 0xac00..=0xd7a3 | 0x1f300..=0x1faff)
}

/// Everything suspicious, unordered. Plain texts are recognised first, because most texts are plain.
fn marks(letters: &SuspiciousCharacters<'_>) -> Vec<Mark> {
    let mut marks = letters.controls.clone();
    if letters.odd.is_empty() {
        return marks;
    }
    tag::find(letters, &mut marks);
    variation::find(letters, &mut marks);
    bidirectional::find(letters, &mut marks);
    invisible::find(letters, &mut marks);
    combining::find(letters, &mut marks);
    confusable::find(letters, &mut marks);
    marks
}

/// Printable ASCII and ordinary white space.
fn is_plain(bytes: &[u8]) -> bool {
    let is_odd = |byte: u8| (byte < 0x20 && !matches!(byte, b'\n' | b'\r' | b'\t')) || byte >= 0x7f;
    bytes.chunks(CHUNK).all(|chunk| !any(chunk, is_odd))
}

const CHUNK: usize = 64;

/// Without an early exit, so that the compiler can use vector instructions.
#[inline(always)]
fn any(chunk: &[u8], test: impl Fn(u8) -> bool) -> bool {
    chunk.iter().fold(false, |found, byte| found | test(*byte))
}

/// The first byte at or after `at` that passes; chunks without one are skipped as a whole.
#[inline(always)]
fn next(bytes: &[u8], at: usize, test: impl Fn(u8) -> bool + Copy) -> Option<usize> {
    let mut start = at;
    for chunk in bytes.get(at..)?.chunks(CHUNK) {
        if any(chunk, test) {
            return chunk.iter().position(|byte| test(*byte)).map(|offset| start + offset);
        }
        start += chunk.len();
    }
    None
}

/// The characters outside ASCII with their offsets; ASCII between them is skipped in chunks.
fn foreign_letters(text: &str) -> impl Iterator<Item = (usize, char)> + '_ {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        at = next(bytes, at, |byte| byte >= 0x80)?;
        let letter = text[at..].chars().next()?;
        let place = at;
        at += letter.len_utf8();
        Some((place, letter))
    })
}

fn letter_before(text: &str, at: usize) -> Option<char> {
    text[..at].chars().next_back()
}

fn letter_after(text: &str, at: usize) -> Option<char> {
    text[at..].chars().next()
}

/// Letters of scripts that are written from right to left.
fn is_right_to_left(letter: char) -> bool {
    matches!(u32::from(letter), 0x590..=0x8ff | 0xfb1d..=0xfdff | 0xfe70..=0xfefc | 0x10800..=0x10fff | 0x1e800..=0x1efff)
}

/// The line that holds `range`, up to a bounded distance on both sides.
fn line_around<'t>(text: &'t str, range: &Range<usize>) -> &'t str {
    const MAX_DISTANCE: usize = 512;
    let from = text.floor_char_boundary(range.start.saturating_sub(MAX_DISTANCE));
    let to = text.ceil_char_boundary((range.end + MAX_DISTANCE).min(text.len()));
    let start = text[from..range.start].rfind('\n').map_or(from, |at| from + at + 1);
    let end = text[range.end..to].find('\n').map_or(to, |at| range.end + at);
    steps::count(end - start);
    &text[start..end]
}

#[cfg(test)]
mod tests;
