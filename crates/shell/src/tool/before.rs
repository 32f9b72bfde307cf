//! The checks before a tool runs.

use std::collections::HashSet;
use std::ops::Range;

use redact::{Category, Finding, Hit, Severity, report, rule, secrets};
use scan::{Toggles, ssrf};

use super::{ProposedCall, ScanContext};
use crate::command::{self, CommandReading};

/// All findings of a call.
pub fn before_tool(toggles: &Toggles, call: &ProposedCall<'_>, context: ScanContext<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(command) = call.command.filter(|_| toggles.tirith || toggles.ssrf_pretool) {
        findings.extend(of_command(command, toggles));
    }
    if toggles.ssrf_pretool {
        findings.extend(call.addresses.iter().flat_map(|one| address(one)));
    }
    if toggles.canary_pretool {
        findings.extend(context.canary.map(|canary| canary.findings(call.input)).unwrap_or_default());
    }
    if toggles.tool_allowlist_pretool {
        findings.extend(allowlist(call, context));
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

/// The findings of a command and of its addresses; the command is parsed once for both.
fn of_command(command: &str, toggles: &Toggles) -> Vec<Finding> {
    let CommandReading { mut hits, targets } = command::read(command);
    if !toggles.tirith {
        hits.clear();
    }
    if toggles.ssrf_pretool {
        hits.extend(addresses_of(command, targets));
    }
    report(command, hits, &secrets::find_secrets(command))
}

/// Problems of the addresses in a command, and of the arguments that its programs use as addresses. Each is reported once.
fn addresses_of(command: &str, targets: Vec<(String, Range<usize>)>) -> Vec<Hit> {
    let written =
        ssrf::addresses(command).into_iter().map(|range| (ssrf::check(&command[range.clone()]), range));
    let made = targets.into_iter().map(|(address, range)| (ssrf::check(&address), range));
    let mut told = HashSet::new();
    let found = written.chain(made).filter_map(|(problem, range)| Some((problem?, range)));
    let new = found.filter(|(problem, _)| told.insert((problem.rule, problem.detail.clone())));
    new.map(|(problem, range)| ssrf::hit(problem, range)).collect()
}

/// A fetching tool needs an address that can be judged.
fn address(address: &str) -> Vec<Finding> {
    let whole = 0..address.len();
    let unreadable = || ssrf::AddressProblem {
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

/// Without a list nothing is allowed. The setup refuses this earlier.
fn allowlist(call: &ProposedCall<'_>, context: ScanContext<'_>) -> Vec<Finding> {
    if context.allowlist.is_some_and(|list| list.allows(call.tool)) {
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
