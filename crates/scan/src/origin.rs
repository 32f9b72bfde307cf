//! Where a text comes from. A sentence can be normal in an instruction file and suspicious in a tool result. So rules depend
//! on the origin, not on the file's name.

use redact::{Category, Severity};

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The harness's own documents: its agent, skills and plugins. Their authors decide what the agent does.
    Harness,
    /// `CLAUDE.md`, `AGENTS.md` and similar files in the repository: made of instructions, by whoever may write there.
    Instruction,
    /// Tool results, and files of the repository.
    Tool,
    /// Issues, comments, reviews, mails: written by people outside.
    Issue,
    /// Fetched pages.
    Web,
    /// What the agent wrote.
    Output,
    /// Harness, policy, provider and settings files.
    Configuration,
}

impl Origin {
    pub const ALL: [Origin; 7] = [
        Origin::Harness,
        Origin::Instruction,
        Origin::Tool,
        Origin::Issue,
        Origin::Web,
        Origin::Output,
        Origin::Configuration,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Origin::Harness => "harness",
            Origin::Instruction => "instruction",
            Origin::Tool => "tool",
            Origin::Issue => "issue",
            Origin::Web => "web",
            Origin::Output => "output",
            Origin::Configuration => "configuration",
        }
    }

    pub fn parse(name: &str) -> Option<Origin> {
        Origin::ALL.into_iter().find(|origin| origin.as_str() == name)
    }

    /// Whether a finding is more severe in text of this origin. The injection rules use the origin themselves.
    pub(crate) fn raises(self, category: Category, severity: Severity) -> bool {
        match self {
            // Nobody types hidden characters into an issue, a page or a configuration by accident.
            Origin::Issue | Origin::Web | Origin::Configuration => {
                category == Category::UnicodeNormalizer && severity >= Severity::Medium
            }
            // What the agent wrote is about to be published.
            Origin::Output => category == Category::SecretRedactor && severity == Severity::Medium,
            Origin::Harness | Origin::Instruction | Origin::Tool => false,
        }
    }

    /// Whether somebody other than the operator may have written it.
    pub fn is_foreign(self) -> bool {
        matches!(self, Origin::Tool | Origin::Issue | Origin::Web)
    }
}
