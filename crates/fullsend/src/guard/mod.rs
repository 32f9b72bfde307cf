//! What may pass, in both directions: one value, decided outside the sandbox, used by the inputs' scan, by the model's
//! door and by the check of the output. It knows the run's secret values, so that they are found wherever they turn up.

use std::borrow::Cow;
use std::sync::Arc;

use egress::door::{Judge, Subject, Verdict};
use scan::{Finding, Origin, Redactor, Scanner, Severity, Toggles};

use crate::harness::security::{FailMode, Security};

/// The guard of one run.
#[derive(Clone)]
pub struct Guard {
    scanner: Arc<Scanner>,
    redactor: Arc<Redactor>,
    fail_mode: FailMode,
    redact_results: bool,
}

/// What a scan means for the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    Pass,
    /// A critical finding, and the harness fails closed.
    Stop(String),
}

impl Guard {
    /// `known` are the values that must never be seen: the credentials of the run.
    pub fn new(security: &Security, known: Vec<(String, String)>) -> Result<Self, scan::TooShort> {
        let redactor = Redactor::with_known(known)?;
        Ok(Self {
            scanner: Arc::new(Scanner::new(toggles(security))),
            redactor: Arc::new(redactor),
            fail_mode: security.fail_mode.value,
            redact_results: security.sandbox_hooks.secret_redact_posttool.value,
        })
    }

    pub fn scan(&self, bytes: &[u8], origin: Origin) -> Vec<Finding> {
        self.scanner.scan(bytes, origin)
    }

    /// Under `closed` the first critical finding ends the run.
    pub fn rule(&self, findings: &[Finding], place: &str) -> Ruling {
        let critical = findings.iter().find(|finding| finding.severity == Severity::Critical);
        match (critical, self.fail_mode) {
            (Some(finding), FailMode::Closed) => Ruling::Stop(format!(
                "{place}, line {}: {} ({})",
                finding.span.line, finding.excerpt, finding.rule
            )),
            _ => Ruling::Pass,
        }
    }

    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.redactor.redact(text)
    }

    pub fn redact_json<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.redactor.redact_json(text)
    }

    /// The same guard, as the door asks it.
    pub fn door_judge(&self) -> Judge {
        let guard = self.clone();
        Arc::new(move |subject| guard.judge(subject))
    }

    fn judge(&self, subject: &Subject<'_>) -> Verdict {
        match subject {
            Subject::ToolResult { text, .. } if self.redact_results => match self.redactor.redact(text) {
                Cow::Owned(clean) => Verdict::Replace(clean),
                Cow::Borrowed(_) => Verdict::Pass,
            },
            _ => Verdict::Pass,
        }
    }
}

/// The scanner's switches, from the harness's words.
fn toggles(security: &Security) -> Toggles {
    let (host, hooks) = (&security.host_scanners, &security.sandbox_hooks);
    Toggles {
        unicode_normalizer: host.unicode_normalizer.value,
        context_injection: host.context_injection.value,
        ssrf_validator: host.ssrf_validator.value,
        secret_redactor: host.secret_redactor.value,
        llm_guard: host.llm_guard.enabled.value,
        tirith: hooks.tirith.enabled.value,
        ssrf_pretool: hooks.ssrf_pretool.value,
        secret_redact_posttool: hooks.secret_redact_posttool.value,
        unicode_posttool: hooks.unicode_posttool.value,
        context_suppress_posttool: hooks.context_suppress_posttool.value,
        canary_pretool: hooks.canary_pretool.value,
        canary_posttool: hooks.canary_posttool.value,
        tool_allowlist_pretool: hooks.tool_allowlist_pretool.enabled.value,
    }
}
