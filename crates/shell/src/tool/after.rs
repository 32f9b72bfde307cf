//! Processes a tool result before the agent sees it. The order matters: text that log shortening removes needs no cleaning, and
//! hidden characters are removed before secrets are masked, because they could hide them.

use std::borrow::Cow;

use redact::{Category, Finding, Hit, Redactor, Score, Severity, report, rule};
use scan::{Origin, Scanner, Toggles, clean, find_unescaped, redact_unescaped};

use super::{ProposedCall, ScanContext};
use crate::shorten::shorten;

/// The result for the agent, and the findings in the original result.
#[derive(Debug)]
pub struct CleanedResult<'t> {
    pub text: Cow<'t, str>,
    pub findings: Vec<Finding>,
}

/// Cleans a result for the agent, and reports what was found in it.
pub fn after_tool<'t>(
    toggles: &Toggles,
    call: &ProposedCall<'_>,
    result: &'t str,
    succeeded: Option<bool>,
    context: ScanContext<'_>,
) -> CleanedResult<'t> {
    let mut findings = found(toggles, result);
    let known = |text: &str| context.redactor.map(|redactor| redactor.find_known(text)).unwrap_or_default();
    findings.extend(find_unescaped(result.as_bytes(), known));
    // The canary is searched in the original result, before anything is removed.
    if toggles.canary_posttool {
        let canaries = |text: &str| context.canary.map(|canary| canary.findings(text)).unwrap_or_default();
        findings.extend(find_unescaped(result.as_bytes(), canaries));
    }
    let mut text = Cow::Borrowed(result);
    if toggles.context_suppress_posttool {
        let shortened = call.command.and_then(|command| shorten(command, &text, succeeded));
        if let Some(short) = shortened {
            findings.extend(report(&text, vec![suppressed(&text)], &[]));
            text = Cow::Owned(short);
        }
    }
    if toggles.unicode_posttool {
        text = map(text, clean);
    }
    if toggles.secret_redact_posttool {
        let patterns = Redactor::new();
        let redactor = context.redactor.unwrap_or(&patterns);
        text = map(text, |text| redact_unescaped(redactor, text));
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    CleanedResult { text, findings }
}

/// The rules of the hooks, on the original result and on its unescaped JSON. Injection is always reported, because nothing
/// removes it.
fn found(toggles: &Toggles, result: &str) -> Vec<Finding> {
    let hooks = Toggles {
        unicode_normalizer: toggles.unicode_posttool,
        secret_redactor: toggles.secret_redact_posttool,
        context_injection: toggles.context_injection,
        ..Toggles::NONE
    };
    let scanner = Scanner::new(hooks);
    find_unescaped(result.as_bytes(), |text| scanner.scan(text, Origin::Tool))
}

/// Applies a change; borrows if nothing changes.
fn map<'t>(text: Cow<'t, str>, change: impl Fn(&str) -> Cow<'_, str>) -> Cow<'t, str> {
    match change(&text) {
        Cow::Owned(changed) => Cow::Owned(changed),
        Cow::Borrowed(same) if same == &*text => text,
        Cow::Borrowed(other) => Cow::Owned(other.to_owned()),
    }
}

fn suppressed(text: &str) -> Hit {
    Hit {
        rule: rule::output::SUPPRESSED_OUTPUT,
        category: Category::ContextSuppress,
        severity: Severity::Low,
        score: Some(Score::new(1.0)),
        range: 0..text.len(),
        passage: None,
        detail: Some(format!("{} bytes of output left out, because the check passed", text.len())),
        advice: "Nothing to do. If you need all of the output, write it to a file.",
    }
}
