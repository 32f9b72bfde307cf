//! The context of a sign. The harness's own documents may quote attacks; that lowers the severity of a finding but
//! never removes it. In text that others wrote, quotes and vocabulary change nothing: an attacker can write both.

use std::ops::Range;
use std::sync::LazyLock;

use crate::origin::Origin;
use crate::steps;
use redact::search::{Literal, Search};

/// How far around a group of signs the text is read for its subject.
const REACH: usize = 1500;
/// This many different security words make a text one about attacks.
const ENOUGH: u32 = 3;

/// Words of people who write about attacks. Attackers do not explain what they do.
const SUBJECT: &[&str] = &[
    "prompt injection",
    "prompt-injection",
    "injection attack",
    "jailbreak",
    "adversarial",
    "malicious",
    "attacker",
    "red team",
    "red-team",
    "owasp",
    "vulnerab",
    "threat model",
    "sanitiz",
    "sanitis",
    "untrusted",
    "guardrail",
    "exploit",
    "security review",
    "security audit",
    "payload",
    "false positive",
    "detection",
    "penetration test",
    "mitigation",
    "defense",
    "defence",
    "phishing",
    "suspicious",
    "social engineering",
    "attack vector",
    "cve-",
    "test case",
    "pentest",
    "ctf",
    // Rules of conduct name what they forbid.
    "code of conduct",
    "harassment",
    "harassing",
    "unacceptable behav",
    "community leader",
    "project maintainer",
];

static SUBJECTS: LazyLock<Search<usize>> = LazyLock::new(|| {
    Search::new(SUBJECT.iter().enumerate().map(|(index, word)| (Literal::anywhere(word), index)))
});

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TextContext {
    pub(super) is_about_attacks: bool,
}

/// What the text around a group of signs says about it. It counts only in the harness's own documents, because in other
/// text an attacker can choose the words around an order.
pub(super) fn context_of(text: &str, range: &Range<usize>, origin: Origin) -> TextContext {
    if origin == Origin::Harness { around(text, range) } else { TextContext::default() }
}

/// The subject of the text around `range`. The range itself does not count: it must not lower its own severity.
fn around(text: &str, range: &Range<usize>) -> TextContext {
    let before = &text[text.floor_char_boundary(range.start.saturating_sub(REACH))..range.start];
    let after = &text[range.end..text.ceil_char_boundary((range.end + REACH).min(text.len()))];
    steps::count(before.len() + after.len());
    let mut seen = 0u64;
    for part in [before, after] {
        SUBJECTS.each(part, |index, _| seen |= 1 << index);
    }
    TextContext { is_about_attacks: seen.count_ones() >= ENOUGH }
}

/// Whether a sign stands between quotes or backticks on its line, in a table, or in a quotation.
pub(super) fn is_quoted(text: &str, range: &Range<usize>) -> bool {
    const MAX_LINE: usize = 200;
    let from = text.floor_char_boundary(range.start.saturating_sub(MAX_LINE));
    let to = text.ceil_char_boundary((range.end + MAX_LINE).min(text.len()));
    let before = text[from..range.start].rsplit('\n').next().unwrap_or_default();
    let after = text[range.end..to].split('\n').next().unwrap_or_default();
    // A heading is not a quotation.
    let is_row = before.trim_start().starts_with(['|', '>']);
    let pairs = [("\"", "\""), ("`", "`"), ("“", "”"), ("'", "'"), ("«", "»"), ("「", "」")];
    let is_open = |opening: &str| match opening {
        "\"" | "`" => before.matches(opening).count() % 2 == 1,
        "'" => before.ends_with('\'') || before.contains(" '") || before.contains("('"),
        other => before.contains(other),
    };
    let is_closed = |closing: &str| match closing {
        "'" => closes_single(after),
        other => after.contains(other),
    };
    is_row || pairs.iter().any(|(opening, closing)| is_open(opening) && is_closed(closing))
}

/// Whether a single quote closes here. The one in `isn't` does not.
fn closes_single(after: &str) -> bool {
    after.match_indices('\'').any(|(at, _)| !after[at + 1..].starts_with(char::is_alphanumeric))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_quotations_are_quoted() {
        let check = |text: &str, expected: bool| {
            let at = text.find("SIGN").unwrap();
            assert_eq!(is_quoted(text, &(at..at + 4)), expected, "{text}");
        };
        check("say 'so SIGN and so', he said", true);
        check("'SIGN'", true);
        check("say 'so SIGN isn't it", false);
        check("say \"SIGN\"", true);
        check("> SIGN", true);
        check("| SIGN |", true);
        check("# SIGN", false);
    }
}
