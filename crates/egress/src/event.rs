//! The events of egress, in the order in which they happen. The program wraps them into its own events; nothing here
//! prints or stores them.

use policy::{GraphqlOperation, Operation, RpcCall};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

pub type OnEvent = Arc<dyn Fn(EgressEvent) + Send + Sync>;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EgressEvent {
    /// One connection or request through the proxy, at its end.
    #[serde(rename = "attempt")]
    Connection(ConnectionEvent),
    /// The sandbox asked for the address of a name that no rule allows.
    NameRefused { name: String, reason: String },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConnectionEvent {
    pub via: ProxyMode,
    pub host: String,
    pub port: u16,
    /// Of a request that was read; a tunnel has none.
    pub method: Option<String>,
    /// Without its query, which may hold secrets.
    pub path: Option<String>,
    /// The operation in its body, if rules apply to the body: the refused one, else the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Box<RequestedOperation>>,
    /// As the host numbers it.
    pub pid: Option<u32>,
    pub binary: Option<String>,
    pub sha256: Option<String>,
    pub decision: ConnectionDecision,
    /// The line of the policy that decided.
    pub rule: Option<String>,
    pub code: Option<RefusalCode>,
    pub reason: Option<String>,
    /// The smallest addition to the policy that would have allowed it.
    pub fix: Option<String>,
    pub status: Option<u16>,
    pub bytes_out: u64,
    pub bytes_in: u64,
    pub duration_ms: u64,
}

/// Of one operation, in an event.
const MAX_FIELDS: usize = 64;

/// One operation in a body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "protocol", rename_all = "snake_case")]
pub enum RequestedOperation {
    /// A call of JSON-RPC or MCP.
    Rpc {
        method: String,
        tool: Option<String>,
    },
    Graphql {
        operation_type: String,
        name: Option<String>,
        fields: Vec<String>,
    },
}

impl RequestedOperation {
    /// `None` for a message that is not an operation.
    pub fn of(operation: &Operation) -> Option<Self> {
        match operation {
            Operation::Rpc(RpcCall { method, tool, .. }) => {
                Some(Self::Rpc { method: method.clone(), tool: tool.clone() })
            }
            Operation::Graphql(GraphqlOperation { operation_type, name, fields }) => Some(Self::Graphql {
                operation_type: operation_type.clone(),
                name: name.clone(),
                fields: fields.iter().take(MAX_FIELDS).cloned().collect(),
            }),
            Operation::Session => None,
        }
    }

    /// In the form that rules use.
    pub fn operation(&self) -> Operation {
        match self {
            Self::Rpc { method, tool } => Operation::Rpc(RpcCall::new(method, tool.as_deref())),
            Self::Graphql { operation_type, name, fields } => Operation::Graphql(GraphqlOperation {
                operation_type: operation_type.clone(),
                name: name.clone(),
                fields: fields.clone(),
            }),
        }
    }
}

/// How the client reached the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Via")]
pub enum ProxyMode {
    /// CONNECT to the proxy's port.
    Connect,
    /// A plain request in absolute form to the proxy's port.
    Forward,
    /// A connection to the address that the sandbox's name server gave for the host.
    Direct,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionDecision {
    Allowed,
    /// Let through because the endpoint only audits.
    Audited,
    Denied,
    /// Failed for another reason than the policy: unreachable, cut off, unreadable.
    Failed,
}

/// Why a request was refused. The client reads the same word in `X-Fullsend-Refusal` and in the response's JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RefusalCode {
    PolicyDenied,
    AddressDenied,
    CallerUnknown,
    BadHost,
    MalformedRequest,
    CredentialEndpointMismatch,
    CredentialUnavailable,
    CredentialInjectionFailed,
    GuardDenied,
    UpstreamUnreachable,
    UpstreamBroken,
    ProxyBusy,
}

impl RefusalCode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PolicyDenied => "policy_denied",
            Self::AddressDenied => "address_denied",
            Self::CallerUnknown => "caller_unknown",
            Self::BadHost => "bad_host",
            Self::MalformedRequest => "malformed_request",
            Self::CredentialEndpointMismatch => "credential_endpoint_mismatch",
            Self::CredentialUnavailable => "credential_unavailable",
            Self::CredentialInjectionFailed => "credential_injection_failed",
            Self::GuardDenied => "guard_denied",
            Self::UpstreamUnreachable => "upstream_unreachable",
            Self::UpstreamBroken => "upstream_broken",
            Self::ProxyBusy => "proxy_busy",
        }
    }
}

impl fmt::Display for RefusalCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl ConnectionDecision {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Audited => "audited",
            Self::Denied => "denied",
            Self::Failed => "failed",
        }
    }
}
