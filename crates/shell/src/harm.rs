//! What a rule about commands reports.

use redact::{RuleName, Severity};

/// One thing that is wrong with a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Harm {
    pub(crate) rule: RuleName,
    pub(crate) severity: Severity,
    pub(crate) detail: String,
    pub(crate) advice: &'static str,
    pub(crate) reach: HarmReach,
}

/// How far a harm goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HarmReach {
    /// Its effect ends with a disposable sandbox.
    Sandbox,
    /// It sends something out, outlives the sandbox, or attacks it.
    Beyond,
}

impl Harm {
    /// Everyday work in a disposable sandbox.
    pub(crate) fn ends_with_sandbox(self) -> Self {
        Harm { reach: HarmReach::Sandbox, ..self }
    }
}
