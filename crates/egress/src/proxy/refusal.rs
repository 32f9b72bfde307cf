//! A refusal that explains itself: the same words for the client, for the event and for the person who reads either.

use super::Locate;
use super::suggest::suggest;
use crate::credentials::CredentialError;
use crate::dial::DialError;
use crate::http1::HeadError;
use crate::identity::IdentityError;
use policy::address::AddressDenied;
use policy::{Denial, Host};
use serde_json::json;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) code: &'static str,
    pub(super) detail: String,
    pub(super) rule: Option<String>,
    pub(super) fix: Option<String>,
}

impl Refusal {
    fn new(status: u16, code: &'static str, detail: String) -> Self {
        Self { status, code, detail, rule: None, fix: None }
    }

    pub(super) fn policy(denial: &Denial, locate: &Locate, what: &str) -> Self {
        Self {
            rule: denial.cause.as_ref().map(|cause| locate(cause)),
            fix: denial.fix.as_deref().and_then(suggest),
            ..Self::new(403, "policy_denied", format!("{what}: {}", denial.reason))
        }
    }

    /// No suggestion: such addresses are not opened by pasting a line.
    pub(super) fn address(denied: &AddressDenied, host: &Host) -> Self {
        Self::new(403, "address_denied", format!("{host} resolves to what may not be reached: {denied}"))
    }

    pub(super) fn identity(error: &IdentityError) -> Self {
        Self::new(403, "caller_unknown", format!("the calling program could not be told: {error}"))
    }

    pub(super) fn host(reason: &str) -> Self {
        Self::new(400, "bad_host", reason.to_owned())
    }

    pub(super) fn head(error: HeadError) -> Self {
        Self::new(400, "malformed_request", error.reason().to_owned())
    }

    pub(super) fn unreadable(detail: String) -> Self {
        Self::new(400, "malformed_request", detail)
    }

    pub(super) fn path(detail: String) -> Self {
        Self::new(403, "policy_denied", detail)
    }

    pub(super) fn credential(error: &CredentialError) -> Self {
        let code = match error {
            CredentialError::NotBound { .. } => "credential_endpoint_mismatch",
            CredentialError::Source { .. } => "credential_unavailable",
            _ => "credential_injection_failed",
        };
        Self::new(403, code, error.to_string())
    }

    /// Whoever looks at what leaves does not let it.
    pub(super) fn seen(reason: String) -> Self {
        Self::new(403, "guard_denied", reason)
    }

    pub(super) fn dial(error: &DialError) -> Self {
        let status = if matches!(error, DialError::Timeout { .. }) { 504 } else { 502 };
        Self::new(status, "upstream_unreachable", error.to_string())
    }

    pub(super) fn upstream(detail: String) -> Self {
        Self::new(502, "upstream_broken", detail)
    }

    /// The policy had no say in it.
    pub(super) fn is_failure(&self) -> bool {
        self.status >= 500
    }

    pub(super) fn body(&self) -> String {
        let Self { status: _, code, detail, rule, fix } = self;
        let mut body = json!({ "error": code, "detail": detail, "by": "fullsend" });
        if let Some(rule) = rule {
            body["rule"] = json!(rule);
        }
        if let Some(fix) = fix {
            body["would_allow"] = json!(fix);
        }
        body.to_string()
    }

    /// A whole HTTP/1.1 answer that closes the connection.
    pub(super) fn answer(&self) -> Vec<u8> {
        let body = self.body();
        let reason = match self.status {
            400 => "Bad Request",
            403 => "Forbidden",
            504 => "Gateway Timeout",
            _ => "Bad Gateway",
        };
        format!(
            "HTTP/1.1 {} {reason}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\
             X-Fullsend-Refusal: {}\r\n\r\n{body}",
            self.status,
            body.len(),
            self.code
        )
        .into_bytes()
    }
}
