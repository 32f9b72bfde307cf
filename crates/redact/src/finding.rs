//! One match of a rule. Its excerpt is redacted, and its control characters are escaped, before the finding is made.

use std::ops::Range;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

/// The version of the serialized form; it grows when a field changes its meaning.
pub const FINDING_VERSION: u32 = 1;

/// How severe a finding is, in memory. The guard decides which severity blocks, and stores it as `FindingSeverity` in
/// events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    Low,
    Medium,
    High,
    Critical,
}

impl Severity {
    pub const ALL: [Severity; 4] = [Severity::Low, Severity::Medium, Severity::High, Severity::Critical];

    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Low => "low",
            Severity::Medium => "medium",
            Severity::High => "high",
            Severity::Critical => "critical",
        }
    }

    pub fn parse(name: &str) -> Option<Severity> {
        Severity::ALL.into_iter().find(|severity| severity.as_str() == name)
    }

    /// One level up; `Critical` stays.
    #[must_use]
    pub fn raised(self) -> Severity {
        match self {
            Severity::Low => Severity::Medium,
            Severity::Medium => Severity::High,
            Severity::High | Severity::Critical => Severity::Critical,
        }
    }

    /// One level down; `Low` stays.
    #[must_use]
    pub fn lowered(self) -> Severity {
        match self {
            Severity::Low | Severity::Medium => Severity::Low,
            Severity::High => Severity::Medium,
            Severity::Critical => Severity::High,
        }
    }
}

/// How likely it is that a finding is right, in thousandths. Scores order findings of one severity; severities decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Score(u16);

impl Score {
    /// From a probability, clamped to 0 to 1. NaN becomes 0.
    #[must_use]
    pub fn new(probability: f32) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is between 0 and 1000"
        )]
        Self((probability.clamp(0.0, 1.0) * 1000.0).round() as u16)
    }

    /// For rules that know nothing more exact than a severity.
    #[must_use]
    pub fn of(severity: Severity) -> Self {
        Self(match severity {
            Severity::Low => 200,
            Severity::Medium => 450,
            Severity::High => 750,
            Severity::Critical => 950,
        })
    }

    /// From 0 to 1.
    #[must_use]
    pub fn value(self) -> f64 {
        f64::from(self.0) / 1000.0
    }
}

/// The family of a rule. Each has a page `docs/rules/<name>.md` and cases in `tests/data/<name>/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    UnicodeNormalizer,
    ContextInjection,
    SsrfValidator,
    SecretRedactor,
    LlmGuard,
    Commands,
    Canary,
    ToolAllowlist,
    ContextSuppress,
}

impl Category {
    pub const ALL: [Category; 9] = [
        Category::UnicodeNormalizer,
        Category::ContextInjection,
        Category::SsrfValidator,
        Category::SecretRedactor,
        Category::LlmGuard,
        Category::Commands,
        Category::Canary,
        Category::ToolAllowlist,
        Category::ContextSuppress,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Category::UnicodeNormalizer => "unicode_normalizer",
            Category::ContextInjection => "context_injection",
            Category::SsrfValidator => "ssrf_validator",
            Category::SecretRedactor => "secret_redactor",
            Category::LlmGuard => "llm_guard",
            Category::Commands => "commands",
            Category::Canary => "canary",
            Category::ToolAllowlist => "tool_allowlist",
            Category::ContextSuppress => "context_suppress",
        }
    }
}

/// Where it is: bytes from the start of the scanned text, and line and column (in characters) counted from one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TextSpan {
    pub start: usize,
    pub end: usize,
    pub line: u32,
    pub column: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule's own name, such as `github-personal-access-token`; unique within its category.
    pub rule: &'static str,
    pub severity: Severity,
    pub score: Score,
    pub category: Category,
    pub span: TextSpan,
    /// The bytes that are left out where the finding is withheld: everything that counted, not only the strongest words.
    pub passage: Range<usize>,
    /// The matched text, shortened, with secrets masked and invisible characters spelled out.
    pub excerpt: String,
    /// What a person should do about it.
    pub advice: &'static str,
}

impl Serialize for Severity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl Serialize for Category {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl Serialize for Finding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Finding { rule, severity, score, category, span, excerpt, advice, passage: _ } = self;
        let TextSpan { start, end, line, column } = span;
        let mut object = serializer.serialize_struct("Finding", 11)?;
        object.serialize_field("version", &FINDING_VERSION)?;
        object.serialize_field("rule", rule)?;
        object.serialize_field("severity", severity)?;
        object.serialize_field("score", &score.value())?;
        object.serialize_field("category", category)?;
        object.serialize_field("line", line)?;
        object.serialize_field("column", column)?;
        object.serialize_field("start", start)?;
        object.serialize_field("end", end)?;
        object.serialize_field("excerpt", excerpt)?;
        object.serialize_field("advice", advice)?;
        object.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn severities_are_ordered_and_move_one_level() {
        assert!(Severity::Critical > Severity::High && Severity::High > Severity::Medium);
        assert_eq!(Severity::Medium.raised(), Severity::High);
        assert_eq!(Severity::Critical.raised(), Severity::Critical);
        assert_eq!(Severity::Low.lowered(), Severity::Low);
        assert_eq!(Severity::parse("high"), Some(Severity::High));
        assert_eq!(Severity::parse("High"), None);
    }

    #[test]
    fn scores_are_between_0_and_1() {
        for (given, value) in [(0.5, 0.5), (2.0, 1.0), (-1.0, 0.0), (f32::NAN, 0.0)] {
            assert!((Score::new(given).value() - value).abs() < 1e-9, "{given}");
        }
        assert!(Severity::ALL.is_sorted_by_key(|severity| Score::of(*severity)));
    }

    #[test]
    fn a_finding_is_written_with_its_version() {
        let finding = Finding {
            rule: "tag-characters",
            severity: Severity::Critical,
            score: Score::new(0.9314),
            category: Category::UnicodeNormalizer,
            span: TextSpan { start: 1, end: 2, line: 1, column: 2 },
            passage: 0..2,
            excerpt: "x".to_owned(),
            advice: "remove it",
        };
        assert_eq!(
            serde_json::to_string(&finding).unwrap(),
            r#"{"version":1,"rule":"tag-characters","severity":"critical","score":0.931,"category":"unicode_normalizer","line":1,"column":2,"start":1,"end":2,"excerpt":"x","advice":"remove it"}"#
        );
    }
}
