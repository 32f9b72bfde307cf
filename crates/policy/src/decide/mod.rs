//! Decides whether a program may connect to a host, and which requests it may send. Two steps: a connection is admitted
//! by host, port and program; if an admitting endpoint reads requests, each request is then decided by its rules. Deny
//! rules win.

mod access_request;
mod admitted;
mod index;
mod lookup;
mod operation;

use std::path::{Path, PathBuf};

use yaml::Span;

pub use access_request::{AccessBody, AccessRequest, decide};
pub use admitted::Admitted;
pub use index::Compiled;

use crate::address::AddressDenied;
use crate::canonical::{CanonicalPath, PathError};
use crate::file::Protocol;
use crate::host::{Host, HostError};
use crate::message::{MessageError, Operation, Operations};
use crate::query::{Query, QueryStringError};

/// The caller: the executable that owns the socket, and those of its parent processes.
#[derive(Clone, Copy, Debug)]
pub struct CallingProgram<'a> {
    pub binary: &'a Path,
    pub ancestors: &'a [PathBuf],
}

#[derive(Clone, Copy, Debug)]
pub struct ConnectionRequest<'a> {
    pub host: &'a Host,
    pub port: u16,
    pub caller: CallingProgram<'a>,
}

/// A request over an admitted connection.
#[derive(Clone, Copy, Debug)]
pub struct InspectedRequest<'a> {
    pub action: RequestAction<'a>,
    pub path: &'a CanonicalPath,
    pub query: &'a Query,
    /// From `Admitted::operations`; empty if the rules do not read bodies.
    pub operations: &'a Operations,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestAction<'a> {
    /// A request with this method. A websocket starts with a `GET`.
    Http(&'a str),
    /// A text frame from the client on the websocket that was opened with this path and query.
    WebsocketText,
}

/// The line of the policy that decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecidingRule {
    /// The name of the network rule.
    pub rule: String,
    pub at: Span,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyDecision {
    Allow(DecidingRule),
    /// Let through because the endpoint only audits; with `enforce` this would be the refusal.
    Audit(Denial),
    Deny(Denial),
}

impl PolicyDecision {
    /// Whether the request goes through.
    pub fn passes(&self) -> bool {
        !matches!(self, Self::Deny(_))
    }
}

impl Denial {
    fn new(reason: Reason, cause: Option<DecidingRule>) -> Self {
        Self { reason, cause, fix: None, operation: None }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    pub reason: Reason,
    /// Where in the policy, if one line can be named.
    pub cause: Option<DecidingRule>,
    /// The smallest change that would have allowed it; absent if nothing should be suggested.
    pub fix: Option<Box<Fix>>,
    /// The operation in the body that was refused, if the rules read bodies.
    pub operation: Option<Box<Operation>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No rule names this host and port.
    NoEndpoint,
    /// Rules name the endpoint, but not for this program.
    NoBinary,
    /// Endpoints match the host and port, but none covers this path.
    NoPath,
    /// No rule allows the request.
    NotAllowed,
    /// A deny rule forbids it.
    DenyRule,
    /// `%2F` in the path of an endpoint that does not allow it.
    EncodedSlash,
    /// The endpoint's protocol cannot be read yet, and nothing passes unread.
    NotInspected(Protocol),
    /// The rules read the body, and it cannot be parsed.
    Body(MessageError),
    /// Not a method of HTTP.
    Method,
    Host(HostError),
    Path(PathError),
    Query(QueryStringError),
    /// The name is allowed, but one of its addresses is not.
    Address(AddressDenied),
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoEndpoint => f.write_str("no rule names this host and port"),
            Self::NoBinary => f.write_str("no rule for this host and port names the calling program"),
            Self::NoPath => f.write_str("no endpoint covers this path"),
            Self::NotAllowed => f.write_str("no rule allows this request"),
            Self::DenyRule => f.write_str("a deny rule forbids this request"),
            Self::EncodedSlash => f.write_str("the path contains `%2F`, which this endpoint does not allow"),
            Self::NotInspected(protocol) => write!(f, "protocol {protocol} is not inspected yet"),
            Self::Body(error) => error.fmt(f),
            Self::Method => f.write_str("this is not an HTTP method"),
            Self::Host(error) => error.fmt(f),
            Self::Path(error) => error.fmt(f),
            Self::Query(error) => error.fmt(f),
            Self::Address(denied) => denied.fmt(f),
        }
    }
}

/// The smallest change to the policy that would have allowed the request, as data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fix {
    /// A rule of its own.
    Rule { host: Host, port: u16, binary: PathBuf },
    /// One more program in an existing rule.
    Binary { rule: DecidingRule, binary: PathBuf },
    /// One more allow rule in an existing endpoint; the path is a glob.
    Allow { endpoint: DecidingRule, method: String, path: String },
    /// One more allow rule for an operation in a body.
    AllowOperation { endpoint: DecidingRule, operation: Operation },
}
