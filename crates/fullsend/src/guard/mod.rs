//! What may pass, in both directions: one value, decided outside the sandbox, used by the inputs' scan, by the hooks'
//! socket, by the model's door and by the check of the output. It knows the run's secret values, so that they are found
//! wherever they turn up.

mod calls;
pub mod client;
pub mod dialect;
mod door;
mod hooks;
pub mod socket;

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use egress::credentials::Secret;
use scan::{Finding, Origin, Redactor, Scanner, Severity, Toggles, TooShort};
use tokio::sync::watch;

use crate::event::log::Emitter;
use crate::harness::Harness;
use crate::harness::names::RuntimeName;
use crate::harness::security::{FailMode, Security};
use calls::Calls;

/// The guard of one run. Cheap to clone; every clone knows the same calls.
#[derive(Clone)]
pub struct Guard {
    scanner: Arc<Scanner>,
    known: Arc<RwLock<Known>>,
    fail_mode: FailMode,
    redact_results: bool,
    runtime: RuntimeName,
    /// Only these tools, if it is there.
    allowlist: Option<Arc<Vec<String>>>,
    /// Hooks of this run know it.
    token: Arc<str>,
    calls: Arc<Mutex<Calls>>,
    /// Whether the runtime's start hook has reached us.
    started: Arc<watch::Sender<bool>>,
    /// Why the run must end, once it must.
    stopped: Arc<Mutex<Option<String>>>,
    emit: Emitter,
}

/// The values that must never be seen, and what finds them.
#[derive(Default)]
struct Known {
    values: Vec<(String, Secret)>,
    redactor: Arc<Redactor>,
}

/// What a scan means for the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    Pass,
    /// A critical finding, and the harness fails closed.
    Stop(String),
}

/// A guard that cannot be set up as the harness asks.
#[derive(Debug)]
pub enum GuardError {
    NoAllowlist,
}

impl std::fmt::Display for GuardError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoAllowlist => f.write_str(
                "`tool_allowlist_pretool` is on and FULLSEND_TOOL_ALLOWLIST names no tool: set it to names separated by commas",
            ),
        }
    }
}

impl std::error::Error for GuardError {}

impl Guard {
    /// `allowlist` is the value of `FULLSEND_TOOL_ALLOWLIST`.
    pub fn new(harness: &Harness, allowlist: Option<&str>, emit: &Emitter) -> Result<Self, GuardError> {
        let security = &harness.security;
        Ok(Self {
            scanner: Arc::new(Scanner::new(toggles(security))),
            known: Arc::default(),
            fail_mode: security.fail_mode.value,
            redact_results: security.sandbox_hooks.secret_redact_posttool.value,
            runtime: harness.runtime.value,
            allowlist: tools_allowed(security, allowlist)?.map(Arc::new),
            token: uuid::Uuid::now_v7().simple().to_string().into(),
            calls: Arc::default(),
            started: Arc::new(watch::Sender::new(false)),
            stopped: Arc::default(),
            emit: emit.clone(),
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

    /// From here on this value is seen nowhere. A credential that was fetched anew does not make the old one harmless,
    /// so values are only added.
    pub fn learn(&self, name: &str, value: &str) -> Result<(), TooShort> {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.values.iter().any(|(_, known)| known.reveal() == value) {
            return Ok(());
        }
        let new = std::iter::once((name, value));
        let old = known.values.iter().map(|(name, value)| (name.as_str(), value.reveal()));
        let redactor = Redactor::with_known(old.chain(new))?;
        known.redactor = Arc::new(redactor);
        known.values.push((name.to_owned(), Secret::new(value.to_owned())));
        Ok(())
    }

    fn redactor(&self) -> Arc<Redactor> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner).redactor)
    }

    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.redactor().redact(text)
    }

    pub fn redact_json<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.redactor().redact_json(text)
    }

    /// The words after `__hook` with which a hook of this run reaches this guard.
    pub fn hook_arguments(&self) -> [String; 3] {
        let how = if self.fail_mode == FailMode::Closed { "closed" } else { "open" };
        [self.runtime.to_string(), how.to_owned(), self.token.to_string()]
    }

    /// The run must end. The first reason stays.
    pub fn stop(&self, reason: &str) {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| reason.to_owned());
    }

    /// Why the run must end, if it must.
    pub fn stop_reason(&self) -> Option<String> {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A tool's result as the model may see it.
    fn clean_result<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.redact_results { self.redactor().redact(text) } else { Cow::Borrowed(text) }
    }
}

/// Asked for and empty is a mistake, never "everything".
fn tools_allowed(security: &Security, list: Option<&str>) -> Result<Option<Vec<String>>, GuardError> {
    if !security.sandbox_hooks.tool_allowlist_pretool.enabled.value {
        return Ok(None);
    }
    let names: Vec<String> = list
        .unwrap_or_default()
        .split(',')
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .collect();
    if names.is_empty() { Err(GuardError::NoAllowlist) } else { Ok(Some(names)) }
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
