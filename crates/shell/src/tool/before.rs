//! The checks before a tool runs.

use std::collections::HashSet;
use std::ops::Range;

use redact::{Category, Finding, Hit, Score, Severity, report, rule, secrets};
use scan::{Toggles, ssrf};

use super::{ProposedCall, ScanContext};
use crate::command::{self, CommandReading};
use crate::isolation::Isolation;

/// All findings of a call.
pub fn before_tool(toggles: &Toggles, call: &ProposedCall<'_>, context: ScanContext<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(command) = call.command.filter(|_| toggles.tirith || toggles.ssrf_pretool) {
        findings.extend(of_command(command, toggles, context.isolation));
    }
    if toggles.ssrf_pretool {
        findings.extend(call.addresses.iter().flat_map(|one| address(one, context.isolation)));
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

/// What a command does, and the addresses that it connects to; it is parsed once for both.
fn of_command(command: &str, toggles: &Toggles, isolation: Isolation) -> Vec<Finding> {
    let CommandReading { mut hits, targets, .. } = command::read(command, isolation);
    if !toggles.tirith {
        hits.clear();
    }
    if toggles.ssrf_pretool {
        hits.extend(addresses_of(command, targets, isolation));
    }
    report(command, hits, &secrets::find_secrets(command))
}

/// Problems of the addresses that are written in a command, and of those that its programs build from their arguments.
/// Each is reported once.
fn addresses_of(command: &str, targets: Vec<(String, Range<usize>)>, isolation: Isolation) -> Vec<Hit> {
    let check = |address: &str| ssrf::check(address).filter(|_| !is_own(address, isolation));
    let written = ssrf::addresses(command).into_iter().map(|range| (check(&command[range.clone()]), range));
    let made = targets.into_iter().map(|(address, range)| (check(&address), range));
    let mut reported = HashSet::new();
    let found = written.chain(made).filter_map(|(problem, range)| Some((problem?, range)));
    let new = found.filter(|(problem, _)| reported.insert((problem.rule, problem.detail.clone())));
    new.map(|(problem, range)| ssrf::hit(problem, range)).collect()
}

/// In a sandbox with a network of its own, the loopback addresses lead to the agent's own servers.
fn is_own(address: &str, isolation: Isolation) -> bool {
    isolation == Isolation::Sandbox && ssrf::is_plain_loopback(address)
}

/// A tool that fetches must be given an address that can be judged.
fn address(address: &str, isolation: Isolation) -> Vec<Finding> {
    let whole = 0..address.len();
    let unreadable = || ssrf::AddressProblem {
        rule: rule::ssrf::UNKNOWN_SCHEME,
        severity: Severity::High,
        detail: "not an absolute address".to_owned(),
    };
    let problem = match ssrf::url::parse(address) {
        Some(_) => ssrf::check(address).filter(|_| !is_own(address, isolation)),
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
        score: Some(Score::new(1.0)),
        range: 0..0,
        passage: None,
        detail: Some(format!("the tool `{}` is not in the tool allowlist", call.tool)),
        advice: "Use a tool that is in the tool allowlist. Only the operator can change it.",
    };
    report("", vec![hit], &[])
}
