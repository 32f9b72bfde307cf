//! Removes what the rules call an attack. Cleaning a clean text changes nothing.

use std::borrow::Cow;

use redact::{Severity, json, rule};

use super::{SuspiciousCharacters, marks};

/// Removing something may join its neighbours into a new attack, so cleaning repeats.
const MAX_ROUNDS: usize = 8;

/// The text without hidden characters. Colours and other terminal sequences go as well: to a model they are noise,
/// to a terminal they are commands.
pub fn clean(text: &str) -> Cow<'_, str> {
    let mut current = Cow::Borrowed(text);
    for _ in 0..MAX_ROUNDS {
        let Some(cleaned) = clean_once(&current) else { return current };
        current = Cow::Owned(cleaned);
    }
    // The text still has findings after all rounds: keep only plain characters.
    let is_visible = |letter: &char| matches!(letter, ' '..='~' | '\n' | '\t' | '\r');
    match clean_once(&current) {
        Some(_) => Cow::Owned(current.chars().filter(is_visible).collect()),
        None => current,
    }
}

/// The same for the strings of a JSON text, also where they are written as escapes. Any other text is cleaned as it is.
pub fn clean_json(text: &str) -> Cow<'_, str> {
    json::map_strings(text, clean).unwrap_or_else(|| clean(text))
}

fn clean_once(text: &str) -> Option<String> {
    let mut removals: Vec<_> = marks(&SuspiciousCharacters::new(text))
        .into_iter()
        .filter(is_attack)
        .map(|mark| mark.range)
        .collect();
    if removals.is_empty() {
        return None;
    }
    removals.sort_by_key(|range| range.start);
    let mut cleaned = String::with_capacity(text.len());
    let mut at = 0;
    for range in removals {
        if range.start > at {
            cleaned.push_str(&text[at..range.start]);
        }
        at = at.max(range.end);
    }
    cleaned.push_str(&text[at..]);
    Some(cleaned)
}

/// Findings of low severity stay, except terminal sequences.
fn is_attack(mark: &super::Mark) -> bool {
    let is_for_terminals = matches!(
        mark.rule,
        rule::unicode::TERMINAL_COLOUR | rule::unicode::TERMINAL_ESCAPE | rule::unicode::CONTROL_CHARACTER
    );
    mark.is_removable && (mark.severity > Severity::Low || is_for_terminals)
}
