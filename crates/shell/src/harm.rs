//! What a rule about commands reports.

use redact::{RuleName, Severity};

/// One thing that is wrong with a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Harm {
    pub(crate) rule: RuleName,
    pub(crate) severity: Severity,
    pub(crate) detail: String,
    pub(crate) advice: &'static str,
    pub(crate) reach: Reach,
}

/// How far a harm goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Its effect ends with a disposable sandbox.
    Sandbox,
    /// It sends something out, outlives the sandbox, or attacks it.
    Beyond,
}

impl Harm {
    /// Everyday work in a disposable sandbox.
    pub(crate) fn ends_with_sandbox(self) -> Self {
        Harm { reach: Reach::Sandbox, ..self }
    }
}
