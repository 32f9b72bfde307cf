//! The checks around one tool call, in the order of the harness's hooks. Before the call: commands, addresses, canary,
//! allowlist. After it: shorten, clean, redact, canary. Reports findings; the caller decides what they stop.

mod after;
mod before;

use redact::{Canary, Finding, Redactor, Severity};

use crate::allowlist::Allowlist;
use crate::isolation::Isolation;

pub use after::{CleanedResult, after_tool};
pub use before::before_tool;

/// Values of the run: its canary, allowlist and redactor.
#[derive(Debug, Clone, Copy, Default)]
pub struct ScanContext<'r> {
    pub canary: Option<&'r Canary>,
    pub allowlist: Option<&'r Allowlist>,
    pub redactor: Option<&'r Redactor>,
    /// Where the call runs.
    pub isolation: Isolation,
}

/// A call that the agent wants to make.
#[derive(Debug, Clone, Copy)]
pub struct ProposedCall<'c> {
    pub tool: &'c str,
    /// The whole input as text, for the checks of all tools.
    pub input: &'c str,
    /// The command line, for tools that run one.
    pub command: Option<&'c str>,
    /// The addresses, for tools that fetch something.
    pub addresses: &'c [&'c str],
}

/// Whether findings forbid a call. A command is denied from `fail_on` upwards, everything else from high upwards.
pub fn denies(findings: &[Finding], fail_on: Severity) -> Option<&Finding> {
    let is_denied = |finding: &&Finding| {
        let level = if finding.category == redact::Category::Commands { fail_on } else { Severity::High };
        finding.severity >= level
    };
    findings.iter().filter(is_denied).max_by_key(|finding| finding.severity)
}

#[cfg(test)]
mod tests;
