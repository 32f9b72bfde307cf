//! A finding as the event log writes it. Scanners, the guard and the proxy have types of their own and convert them to
//! these; the names on disk stay the same when those types change.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One finding: one format for inputs, tool calls, tool results and output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FindingEvent {
    /// A file's path, or `call/Tool`, `result/Tool`, `answer`, `output/path`.
    pub place: String,
    #[serde(default)]
    pub origin: FindingOrigin,
    pub rule: String,
    #[serde(default)]
    pub category: FindingFamily,
    pub severity: FindingSeverity,
    /// How likely the finding is right, from 0 to 1. Logs before version 0.2 have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<f64>")]
    pub score: Option<FindingScore>,
    pub line: u32,
    #[serde(default)]
    pub column: u32,
    /// Bytes from the start of the scanned text.
    #[serde(default)]
    pub start: usize,
    #[serde(default)]
    pub end: usize,
    /// The text that matched, shortened, with secrets masked and invisible characters spelled out.
    pub excerpt: String,
    pub advice: String,
    #[serde(default)]
    pub action: FindingAction,
    /// The reason of the waiver, where the organisation accepts the finding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "suppressed")]
    pub waiver: Option<String>,
    /// The file in the run directory with the original text, if a part of it was withheld.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
}

/// A probability in thousandths; a number from 0 to 1 on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "f64", into = "f64")]
pub struct FindingScore(u16);

impl From<f64> for FindingScore {
    fn from(value: f64) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is between 0 and 1000"
        )]
        Self((value.clamp(0.0, 1.0) * 1000.0).round() as u16)
    }
}

impl From<FindingScore> for f64 {
    fn from(score: FindingScore) -> Self {
        Self::from(score.0) / 1000.0
    }
}

impl From<redact::Score> for FindingScore {
    fn from(score: redact::Score) -> Self {
        Self::from(score.value())
    }
}

/// How serious a finding is.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum FindingSeverity {
    #[default]
    Low,
    Medium,
    High,
    Critical,
}

impl FindingSeverity {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }
}

/// Where the scanned text came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FindingOrigin {
    Harness,
    Instruction,
    Tool,
    Issue,
    Web,
    Output,
    Configuration,
    /// No text was scanned: the finding is about a connection.
    #[default]
    #[serde(rename = "")]
    None,
}

/// The family of the rule that matched. Each family of scanner rules has a page in `docs/rules`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FindingFamily {
    UnicodeNormalizer,
    ContextInjection,
    SsrfValidator,
    SecretRedactor,
    LlmGuard,
    Commands,
    Canary,
    ToolAllowlist,
    ContextSuppress,
    /// The proxy saw a credential's placeholder where it does not belong.
    Egress,
    /// Events of the first version may leave it out.
    #[default]
    #[serde(rename = "")]
    Unknown,
}

impl FindingFamily {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UnicodeNormalizer => "unicode_normalizer",
            Self::ContextInjection => "context_injection",
            Self::SsrfValidator => "ssrf_validator",
            Self::SecretRedactor => "secret_redactor",
            Self::LlmGuard => "llm_guard",
            Self::Commands => "commands",
            Self::Canary => "canary",
            Self::ToolAllowlist => "tool_allowlist",
            Self::ContextSuppress => "context_suppress",
            Self::Egress => "egress",
            Self::Unknown => "",
        }
    }
}

/// What was done about a finding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FindingAction {
    Reported,
    /// The text passed without the matched parts.
    Cleaned,
    Denied,
    Withheld,
    Stopped,
    /// A waiver accepts it.
    #[serde(rename = "suppressed")]
    Waived,
    /// Not decided yet.
    #[default]
    #[serde(rename = "")]
    None,
}

impl FindingAction {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reported => "reported",
            Self::Cleaned => "cleaned",
            Self::Denied => "denied",
            Self::Withheld => "withheld",
            Self::Stopped => "stopped",
            Self::Waived => "suppressed",
            Self::None => "",
        }
    }
}

impl From<redact::Severity> for FindingSeverity {
    fn from(severity: redact::Severity) -> Self {
        match severity {
            redact::Severity::Low => Self::Low,
            redact::Severity::Medium => Self::Medium,
            redact::Severity::High => Self::High,
            redact::Severity::Critical => Self::Critical,
        }
    }
}

impl From<scan::Origin> for FindingOrigin {
    fn from(origin: scan::Origin) -> Self {
        match origin {
            scan::Origin::Harness => Self::Harness,
            scan::Origin::Instruction => Self::Instruction,
            scan::Origin::Tool => Self::Tool,
            scan::Origin::Issue => Self::Issue,
            scan::Origin::Web => Self::Web,
            scan::Origin::Output => Self::Output,
            scan::Origin::Configuration => Self::Configuration,
        }
    }
}

impl From<redact::Category> for FindingFamily {
    fn from(category: redact::Category) -> Self {
        match category {
            redact::Category::UnicodeNormalizer => Self::UnicodeNormalizer,
            redact::Category::ContextInjection => Self::ContextInjection,
            redact::Category::SsrfValidator => Self::SsrfValidator,
            redact::Category::SecretRedactor => Self::SecretRedactor,
            redact::Category::LlmGuard => Self::LlmGuard,
            redact::Category::Commands => Self::Commands,
            redact::Category::Canary => Self::Canary,
            redact::Category::ToolAllowlist => Self::ToolAllowlist,
            redact::Category::ContextSuppress => Self::ContextSuppress,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names on disk are the scanners' names.
    #[test]
    fn scanners_and_events_use_the_same_words() {
        let word = |value: serde_json::Value| value.as_str().unwrap().to_owned();
        for severity in redact::Severity::ALL {
            assert_eq!(FindingSeverity::from(severity).as_str(), severity.as_str());
            assert_eq!(
                word(serde_json::to_value(FindingSeverity::from(severity)).unwrap()),
                severity.as_str()
            );
        }
        for origin in scan::Origin::ALL {
            assert_eq!(word(serde_json::to_value(FindingOrigin::from(origin)).unwrap()), origin.as_str());
        }
        for category in redact::Category::ALL {
            let family = FindingFamily::from(category);
            assert_eq!(word(serde_json::to_value(family).unwrap()), category.as_str());
            assert_eq!(family.as_str(), category.as_str());
        }
    }
}
