//! The checks around one tool call, in the order of the harness's hooks. Before the call: commands, addresses, canary,
//! allowlist. After it: suppress, clean, redact, canary. Decides what is found; who stops what is the caller's.

mod after;
mod before;

use crate::allowlist::Allowlist;
use crate::canary::Canary;
use crate::finding::{Finding, Severity};
use crate::redact::Redactor;
use crate::scanner::Scanner;

pub use after::ToolResult;

/// What a run knows that a single text does not.
#[derive(Debug, Clone, Copy, Default)]
pub struct Surroundings<'r> {
    pub canary: Option<&'r Canary>,
    pub allowlist: Option<&'r Allowlist>,
    pub redactor: Option<&'r Redactor>,
}

/// A call that the agent wants to make.
#[derive(Debug, Clone, Copy)]
pub struct ToolCall<'c> {
    pub tool: &'c str,
    /// All of its input as text, for everything that looks at any tool.
    pub input: &'c str,
    /// The command line, for tools that run one.
    pub command: Option<&'c str>,
    /// The addresses, for tools that fetch something.
    pub addresses: &'c [&'c str],
}

/// Whether findings forbid a call. A command is denied from `fail_on` upwards, everything else from high upwards.
pub fn denies(findings: &[Finding], fail_on: Severity) -> Option<&Finding> {
    let is_denied = |finding: &&Finding| {
        let level = if finding.category == crate::Category::Commands { fail_on } else { Severity::High };
        finding.severity >= level
    };
    findings.iter().filter(is_denied).max_by_key(|finding| finding.severity)
}

impl Scanner {
    /// Everything that speaks against a call.
    pub fn before_tool(&self, call: &ToolCall<'_>, surroundings: Surroundings<'_>) -> Vec<Finding> {
        before::scan(self, call, surroundings)
    }

    /// What the agent may see of a result, and what was found in it.
    pub fn after_tool<'t>(
        &self,
        call: &ToolCall<'_>,
        result: &'t str,
        succeeded: Option<bool>,
        surroundings: Surroundings<'_>,
    ) -> ToolResult<'t> {
        after::process(self, call, result, succeeded, surroundings)
    }
}

#[cfg(test)]
mod tests;
