//! What is looked at before a tool runs.

use super::{Surroundings, ToolCall};
use crate::finding::{Category, Finding, Severity};
use crate::hit::Hit;
use crate::report::report;
use crate::rule;
use crate::scanner::Scanner;
use crate::{secrets, ssrf};

pub(super) fn scan(scanner: &Scanner, call: &ToolCall<'_>, surroundings: Surroundings<'_>) -> Vec<Finding> {
    let toggles = scanner.toggles();
    let mut findings = Vec::new();
    if let Some(command) = call.command {
        findings.extend(scanner.scan_command(command));
    }
    if toggles.ssrf_pretool {
        findings.extend(call.command.map(addresses_of).unwrap_or_default());
        findings.extend(call.address.map(address).unwrap_or_default());
    }
    if toggles.canary_pretool {
        findings.extend(surroundings.canary.map(|canary| canary.findings(call.input)).unwrap_or_default());
    }
    if toggles.tool_allowlist_pretool {
        findings.extend(allowlist(call, surroundings));
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

fn addresses_of(command: &str) -> Vec<Finding> {
    let found = ssrf::addresses(command).into_iter().filter_map(|range| {
        let problem = ssrf::check(&command[range.clone()])?;
        Some(ssrf::hit(problem, range))
    });
    report(command, found.collect(), &secrets::find_secrets(command))
}

/// A tool that fetches must be given an address that can be judged.
fn address(address: &str) -> Vec<Finding> {
    let whole = 0..address.len();
    let unreadable = || ssrf::Problem {
        rule: rule::ssrf::UNKNOWN_SCHEME,
        severity: Severity::High,
        detail: "not an absolute address".to_owned(),
    };
    let problem = match ssrf::url::parse(address) {
        Some(_) => ssrf::check(address),
        None => Some(unreadable()),
    };
    let hits = problem.into_iter().map(|problem| ssrf::hit(problem, whole.clone())).collect();
    report(address, hits, &secrets::find_secrets(address))
}

/// On without a list, nothing is allowed: the setup should have stopped before.
fn allowlist(call: &ToolCall<'_>, surroundings: Surroundings<'_>) -> Vec<Finding> {
    if surroundings.allowlist.is_some_and(|list| list.allows(call.tool)) {
        return Vec::new();
    }
    let hit = Hit {
        rule: rule::tool::TOOL_NOT_ALLOWED,
        category: Category::ToolAllowlist,
        severity: Severity::High,
        range: 0..0,
        detail: Some(format!("the tool `{}` is not on the list", call.tool)),
        advice: "Use a tool that is on the list, or let the operator add it.",
    };
    report("", vec![hit], &[])
}
