//! Runs the enabled rules over one text and turns their hits into findings. It keeps no state between texts. The search tables
//! are built once per process, at first use.

use std::borrow::Cow;
use std::sync::LazyLock;

use redact::search::{Literal, Search};
use redact::secrets::{self, Confidence, SecretMatch};
use redact::{Category, Finding, Hit, RuleName, Severity, report, rule};

use crate::injection;
use crate::origin::Origin;
use crate::ssrf;
use crate::toggles::Toggles;
use crate::unicode::{self, SuspiciousCharacters};

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
        let letters = SuspiciousCharacters::new(&text);
        let mut hits = Vec::new();
        if self.toggles.unicode_normalizer {
            unicode::scan(&letters, &mut hits);
        }
        let mut secrets = Vec::new();
        let mut signs = injection::InjectionMatches::default();
        let mut addresses = ssrf::Addresses::default();
        let Toggles { context_injection, ssrf_validator, .. } = self.toggles;
        SEARCH.each(&text, |target, hit| match target {
            Target::Secret(trigger) => trigger.collect(&text, hit, &mut secrets),
            Target::Sign(trigger) if context_injection => signs.visit(&text, trigger, hit),
            Target::Address if ssrf_validator => {
                hits.extend(ssrf::scan(&mut addresses, &text, hit.start, origin));
            }
            Target::Sign(_) | Target::Address => {}
        });
        let secrets = secrets::merge(secrets);
        if context_injection {
            signs.judge(&letters, &text, origin, &mut hits);
        }
        if self.toggles.secret_redactor {
            hits.extend(secrets.iter().map(secret_hit));
        }
        raise(origin, &mut hits);
        report(&text, hits, &secrets)
    }

    /// What is wrong with an address that an agent or a person wants to fetch, if `ssrf_validator` is on.
    pub fn scan_address(&self, address: &str) -> Vec<Finding> {
        let found = ssrf::check(address).filter(|_| self.toggles.ssrf_validator);
        let hits = found.into_iter().map(|problem| ssrf::hit(problem, 0..address.len())).collect();
        report(address, hits, &secrets::find_secrets(address))
    }
}

/// What a literal of the search means. Secrets are collected even if their rule is off, to mask them in the excerpts of other
/// findings.
enum Target {
    Secret(secrets::SecretTrigger),
    Sign(injection::InjectionTrigger),
    Address,
}

static SEARCH: LazyLock<Search<Target>> = LazyLock::new(|| {
    let secrets = secrets::literals().map(|(literal, trigger)| (literal, Target::Secret(trigger)));
    let signs = injection::literals().map(|(literal, trigger)| (literal, Target::Sign(trigger)));
    Search::new(secrets.chain(signs).chain([(Literal::anywhere("://"), Target::Address)]))
});

/// Fewer zero-width characters may be copied by accident.
const MAX_STRAY: usize = 3;

/// Raises the severity of findings by the origin of the text.
fn raise(origin: Origin, hits: &mut [Hit]) {
    let is_zero_width = |hit: &Hit| hit.rule == rule::unicode::ZERO_WIDTH;
    let are_stray = hits.iter().filter(|hit| is_zero_width(hit)).count() < MAX_STRAY;
    for hit in hits.iter_mut().filter(|hit| origin.raises(hit.category, hit.severity)) {
        if !(are_stray && is_zero_width(hit)) {
            hit.severity = hit.severity.raised();
        }
    }
}

/// Bytes that are not UTF-8 become question marks, one each, so that offsets stay valid.
pub(crate) fn decode(bytes: &[u8]) -> Cow<'_, str> {
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
        rule: RuleName::of_secret(secret),
        category: Category::SecretRedactor,
        severity,
        score: None,
        range: secret.range.clone(),
        passage: None,
        detail: None,
        advice: "Remove the credential, revoke it, and pass it through a provider instead.",
    }
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
    fn the_origin_raises_by_one_level() {
        let worst = |text: &str, origin| Scanner::default().scan(text, origin)[0].severity;
        assert_eq!(worst("a\u{1b}[2Jb", Origin::Tool), Severity::Medium);
        assert_eq!(worst("a\u{1b}[2Jb", Origin::Issue), Severity::High);
        assert_eq!(worst("if a\u{202e}b", Origin::Instruction), Severity::High);
        assert_eq!(worst("if a\u{202e}b", Origin::Configuration), Severity::Critical);
        assert_eq!(worst("DB_PASSWORD=hunter2-rainbow", Origin::Output), Severity::High);
    }

    #[test]
    fn one_pasted_zero_width_character_is_no_attack_in_an_issue() {
        let worst = |text: &str| Scanner::default().scan(text, Origin::Issue)[0].severity;
        assert_eq!(worst("Java\u{200b}Script"), Severity::High);
        assert_eq!(worst("a \u{200b}\u{200b}\u{200b}\u{200b} b"), Severity::Medium);
        assert_eq!(worst("Ja\u{200b}va\u{200b}Sc\u{200b}ript"), Severity::Critical);
    }

    #[test]
    fn bytes_that_are_no_text_keep_their_places() {
        let findings = Scanner::default().scan(b"\xff\xfe\nDB_PASSWORD=hunter2-rainbow", Origin::Tool);
        assert_eq!(findings[0].span.start, 15);
    }
}
