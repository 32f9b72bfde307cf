//! A refusal that explains itself, with the same words for the client and for the event.

use super::suggest::suggest;
use crate::credentials::SubstituteError;
use crate::dial::DialError;
use crate::event::RefusalCode;
use crate::http1::HeadError;
use crate::identity::IdentityError;
use policy::address::AddressDenied;
use policy::{Denial, Host, MessageError, RpcIds};
use serde_json::{Value, json};
use std::sync::Arc;

/// Names the line of the policy that a cause points to.
pub type LocateRule = Arc<dyn Fn(&policy::DecidingRule) -> String + Send + Sync>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) code: RefusalCode,
    pub(super) detail: String,
    pub(super) rule: Option<String>,
    pub(super) fix: Option<String>,
    pub(super) form: ReplyForm,
}

/// The form in which the client reads a refusal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum ReplyForm {
    #[default]
    Plain,
    /// An error of JSON-RPC, for each call that waits for an answer.
    Rpc(RpcIds),
    /// The `errors` of a GraphQL response.
    Graphql,
}

/// In the range that JSON-RPC reserves for servers; MCP's own codes differ.
const RPC_REFUSED: i32 = -32040;

/// The most characters in the first line's explanation; some clients read only short lines.
const MAX_REASON: usize = 240;

impl Refusal {
    fn new(status: u16, code: RefusalCode, detail: String) -> Self {
        Self { status, code, detail, rule: None, fix: None, form: ReplyForm::Plain }
    }

    pub(super) fn policy(denial: &Denial, locate: &LocateRule, what: &str) -> Self {
        let operation =
            denial.operation.as_ref().map(|operation| format!("{operation}: ")).unwrap_or_default();
        Self {
            rule: denial.cause.as_ref().map(|cause| locate(cause)),
            fix: denial.fix.as_deref().and_then(suggest),
            ..Self::new(403, RefusalCode::PolicyDenied, format!("{what}: {operation}{}", denial.reason))
        }
    }

    /// The body cannot be decided.
    pub(super) fn body(what: &str, error: &MessageError) -> Self {
        Self::new(403, RefusalCode::PolicyDenied, format!("{what}: {error}"))
    }

    /// Without a suggestion: people should not open a private address by pasting a line.
    pub(super) fn address(denied: &AddressDenied, host: &Host) -> Self {
        Self::new(
            403,
            RefusalCode::AddressDenied,
            format!("{host} resolves to an address that is not allowed: {denied}"),
        )
    }

    pub(super) fn identity(error: &IdentityError) -> Self {
        Self::new(403, RefusalCode::CallerUnknown, format!("cannot identify the calling program: {error}"))
    }

    pub(super) fn host(reason: &str) -> Self {
        Self::new(400, RefusalCode::BadHost, reason.to_owned())
    }

    pub(super) fn head(error: HeadError) -> Self {
        Self::new(400, RefusalCode::MalformedRequest, error.reason().to_owned())
    }

    pub(super) fn unreadable(detail: String) -> Self {
        Self::new(400, RefusalCode::MalformedRequest, detail)
    }

    pub(super) fn path(detail: String) -> Self {
        Self::new(403, RefusalCode::PolicyDenied, detail)
    }

    pub(super) fn credential(error: &SubstituteError) -> Self {
        let code = match error {
            SubstituteError::NotBound { .. } => RefusalCode::CredentialEndpointMismatch,
            SubstituteError::Source { .. } => RefusalCode::CredentialUnavailable,
            _ => RefusalCode::CredentialInjectionFailed,
        };
        Self::new(403, code, error.to_string())
    }

    /// The leak watcher found something that must not leave.
    pub(super) fn leak(reason: String) -> Self {
        Self::new(403, RefusalCode::GuardDenied, reason)
    }

    pub(super) fn dial(error: &DialError) -> Self {
        let status = if matches!(error, DialError::Timeout { .. }) { 504 } else { 502 };
        Self::new(status, RefusalCode::UpstreamUnreachable, error.to_string())
    }

    pub(super) fn upstream(detail: String) -> Self {
        Self::new(502, RefusalCode::UpstreamBroken, detail)
    }

    /// Other bodies have the memory at the moment.
    pub(super) fn memory_taken() -> Self {
        let detail = "other large bodies are held at the moment; try again";
        Self::new(503, RefusalCode::ProxyBusy, detail.to_owned())
    }

    /// The body alone would take more than all of the memory.
    pub(super) fn body_over_memory(most: u64) -> Self {
        let detail = format!("the body takes more than {most} bytes of memory to be read");
        Self::new(413, RefusalCode::MalformedRequest, detail)
    }

    /// The server or the network failed; the policy denied nothing.
    pub(super) fn is_failure(&self) -> bool {
        self.status >= 500
    }

    /// The status that the client reads. An error of JSON-RPC is a successful response of HTTP, if a call waits for it.
    pub(super) fn sent_status(&self) -> u16 {
        match &self.form {
            ReplyForm::Rpc(RpcIds::One(_) | RpcIds::Batch(_)) => 200,
            ReplyForm::Plain | ReplyForm::Graphql | ReplyForm::Rpc(RpcIds::Unknown) => self.status,
        }
    }

    /// The JSON that the client reads, in the form of its protocol.
    pub(super) fn json(&self) -> String {
        let explained = self.explained();
        let error = |id: Option<&String>| {
            let id = id.and_then(|id| serde_json::from_str(id).ok()).unwrap_or(Value::Null);
            let error = json!({ "code": RPC_REFUSED, "message": self.detail, "data": explained });
            json!({ "jsonrpc": "2.0", "id": id, "error": error })
        };
        match &self.form {
            ReplyForm::Plain => explained.to_string(),
            ReplyForm::Graphql => {
                json!({ "errors": [{ "message": self.detail, "extensions": explained }] }).to_string()
            }
            ReplyForm::Rpc(RpcIds::Unknown) => error(None).to_string(),
            ReplyForm::Rpc(RpcIds::One(id)) => error(Some(id)).to_string(),
            ReplyForm::Rpc(RpcIds::Batch(ids)) => {
                Value::from_iter(ids.iter().map(|id| error(Some(id)))).to_string()
            }
        }
    }

    fn explained(&self) -> Value {
        let Self { status: _, code, detail, rule, fix, form: _ } = self;
        let mut body = json!({ "error": code.as_str(), "detail": detail, "by": "fullsend" });
        if let Some(rule) = rule {
            body["rule"] = json!(rule);
        }
        if let Some(fix) = fix {
            body["would_allow"] = json!(fix);
        }
        body
    }

    /// A complete HTTP/1.1 response that closes the connection.
    pub(super) fn response(&self) -> Vec<u8> {
        self.response_with(self.status_words())
    }

    /// The response to a CONNECT. Its first line explains the refusal: most programs show only that line of a proxy's
    /// response, and none shows the body.
    pub(super) fn connect_response(&self) -> Vec<u8> {
        let plain = |c: char| if c.is_ascii_graphic() { c } else { ' ' };
        let detail: String = self.detail.chars().map(plain).take(MAX_REASON).collect();
        self.response_with(&format!("{} by fullsend: {}", self.status_words(), detail.trim()))
    }

    fn status_words(&self) -> &'static str {
        match self.sent_status() {
            200 => "OK",
            400 => "Bad Request",
            403 => "Forbidden",
            413 => "Content Too Large",
            503 => "Service Unavailable",
            504 => "Gateway Timeout",
            _ => "Bad Gateway",
        }
    }

    fn response_with(&self, reason: &str) -> Vec<u8> {
        let body = self.json();
        let status = self.sent_status();
        format!(
            "HTTP/1.1 {} {reason}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\
             X-Fullsend-Refusal: {}\r\n\r\n{body}",
            status,
            body.len(),
            self.code
        )
        .into_bytes()
    }
}
