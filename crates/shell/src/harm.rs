//! What a rule about commands reports.

use redact::{RuleName, Severity};

/// One thing that is wrong with a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Harm {
    pub(crate) rule: RuleName,
    pub(crate) severity: Severity,
    pub(crate) detail: String,
    pub(crate) advice: &'static str,
}
