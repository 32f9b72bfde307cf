//! Runs the rules that are switched on over one text and makes findings of what they report. Holds no state between
//! texts; the automata behind the rules are built once per process, when first needed.

use std::borrow::Cow;
use std::sync::LazyLock;

use crate::excerpt;
use crate::finding::{Category, Finding, Severity};
use crate::hit::Hit;
use crate::injection;
use crate::origin::Origin;
use crate::position::LineIndex;
use crate::search::Search;
use crate::secrets::{self, Confidence, SecretMatch};
use crate::toggles::Toggles;
use crate::unicode::{self, Letters};

/// More findings than this help nobody; the most severe are kept.
const MAX_FINDINGS: usize = 1000;

#[derive(Debug, Clone, Default)]
pub struct Scanner {
    toggles: Toggles,
}

impl Scanner {
    pub fn new(toggles: Toggles) -> Self {
        Scanner { toggles }
    }

    pub fn toggles(&self) -> &Toggles {
        &self.toggles
    }

    /// All findings of a text, most severe first, then in order of place.
    pub fn scan(&self, bytes: impl AsRef<[u8]>, origin: Origin) -> Vec<Finding> {
        let text = decode(bytes.as_ref());
        let mut hits = Vec::new();
        let letters = Letters::new(&text);
        if self.toggles.unicode_normalizer {
            unicode::scan(&letters, &mut hits);
        }
        let (secrets, signs) = self.search(&text);
        if self.toggles.context_injection {
            signs.judge(&letters, &text, origin, &mut hits);
        }
        if self.toggles.secret_redactor {
            hits.extend(secrets.iter().map(secret_hit));
        }
        report(&text, hits, &secrets)
    }

    /// One pass for all literals. Secrets are always looked for: excerpts are masked even where the rule is off.
    fn search(&self, text: &str) -> (Vec<SecretMatch>, injection::Collected) {
        let mut found = Vec::new();
        let mut signs = injection::Collected::default();
        if !self.toggles.context_injection {
            return (secrets::find_secrets(text), signs);
        }
        SEARCH.each(text, |target, hit| match target {
            Target::Secret(trigger) => trigger.collect(text, hit, &mut found),
            Target::Sign(trigger) => signs.visit(text, trigger, hit),
        });
        (secrets::merge(found), signs)
    }
}

enum Target {
    Secret(secrets::Trigger),
    Sign(injection::Trigger),
}

static SEARCH: LazyLock<Search<Target>> = LazyLock::new(|| {
    let secrets = secrets::literals().map(|(literal, trigger)| (literal, Target::Secret(trigger)));
    let signs = injection::literals().map(|(literal, trigger)| (literal, Target::Sign(trigger)));
    Search::new(secrets.chain(signs))
});

/// Bytes that are not UTF-8 become question marks, one each, so that offsets stay true.
fn decode(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(std::iter::repeat_n('?', chunk.invalid().len()));
    }
    Cow::Owned(text)
}

fn secret_hit(secret: &SecretMatch) -> Hit {
    let severity = match secret.confidence {
        Confidence::Verified | Confidence::Shaped => Severity::High,
        Confidence::Structural => Severity::Medium,
        Confidence::Unlikely => Severity::Low,
    };
    Hit {
        rule: secret.format,
        category: Category::SecretRedactor,
        severity,
        range: secret.range.clone(),
        detail: None,
        advice: "Remove the credential, revoke it, and pass it through a provider instead.",
    }
}

fn report(text: &str, mut hits: Vec<Hit>, secrets: &[SecretMatch]) -> Vec<Finding> {
    if hits.is_empty() {
        return Vec::new();
    }
    hits.sort_by_key(|hit| (std::cmp::Reverse(hit.severity), hit.range.start));
    hits.truncate(MAX_FINDINGS);
    let lines = LineIndex::new(text);
    hits.into_iter().map(|hit| finding(text, hit, &lines, secrets)).collect()
}

fn finding(text: &str, hit: Hit, lines: &LineIndex<'_>, secrets: &[SecretMatch]) -> Finding {
    let Hit { rule, category, severity, range, detail, advice } = hit;
    let excerpt = match detail {
        Some(detail) => excerpt::visible(&detail),
        None => excerpt::excerpt(text, lines.line_range(range.start), &range, secrets),
    };
    Finding { rule, severity, category, span: lines.span(range.start, range.end), excerpt, advice }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_found_with_its_place_and_never_shown() {
        let findings = Scanner::default().scan("ok\nDB_PASSWORD=hunter2-rainbow\n", Origin::Tool);
        assert_eq!(findings.len(), 1);
        let finding = &findings[0];
        assert_eq!((finding.rule, finding.severity), ("password-assignment", Severity::Medium));
        assert_eq!((finding.span.line, finding.span.column), (2, 13));
        assert!(!finding.excerpt.contains("hunter2"), "{}", finding.excerpt);
    }

    #[test]
    fn the_switch_is_live() {
        let scanner = Scanner::new(Toggles { secret_redactor: false, ..Toggles::default() });
        assert!(scanner.scan("DB_PASSWORD=hunter2-rainbow", Origin::Tool).is_empty());
    }

    #[test]
    fn bytes_that_are_no_text_keep_their_places() {
        let findings = Scanner::default().scan(b"\xff\xfe\nDB_PASSWORD=hunter2-rainbow", Origin::Tool);
        assert_eq!(findings[0].span.start, 15);
    }
}
