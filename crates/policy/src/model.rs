//! A policy ready for use: every text parsed, every pattern compiled, every entry with the place it was written at.
//! `read` makes it from a valid file.

use std::net::IpAddr;

use yaml::{Span, Spanned};

use crate::address::{AddressScope, Network};
use crate::file::FreeMap;
pub use crate::file::{Compatibility, OnError, Protocol, Signing};
use crate::glob::{Pattern, ProofBudget};
use crate::host::Host;
use crate::message::Operation;
pub use crate::message::ProtocolSettings;

#[derive(Clone, Debug)]
pub struct Policy {
    pub at: Span,
    pub filesystem: Filesystem,
    pub landlock: Spanned<Compatibility>,
    pub process: ProcessIdentity,
    pub networks: Vec<NetworkRule>,
    /// In the order they run.
    pub middlewares: Vec<Middleware>,
}

/// Paths are absolute, without `.`, `..` or doubled slashes.
#[derive(Clone, Debug, Default)]
pub struct Filesystem {
    pub include_workdir: Option<Spanned<bool>>,
    pub read_only: Vec<Spanned<String>>,
    pub read_write: Vec<Spanned<String>>,
}

impl Filesystem {
    pub fn includes_workdir(&self) -> bool {
        self.include_workdir.as_ref().is_some_and(|at| at.value)
    }
}

#[derive(Clone, Debug, Default)]
pub struct ProcessIdentity {
    pub user: Option<Spanned<RunAs>>,
    pub group: Option<Spanned<RunAs>>,
}

/// Never root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunAs {
    /// The account named `sandbox`.
    Sandbox,
    Number(u32),
}

impl std::fmt::Display for RunAs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sandbox => f.write_str("sandbox"),
            Self::Number(number) => number.fmt(f),
        }
    }
}

#[derive(Clone, Debug)]
pub struct NetworkRule {
    pub key: Spanned<String>,
    /// Its name in logs.
    pub name: String,
    pub endpoints: Vec<Endpoint>,
    pub binaries: Vec<Spanned<Pattern>>,
}

#[derive(Clone, Debug)]
pub struct Endpoint {
    pub at: Span,
    pub host: HostPattern,
    /// Sorted, each once, never empty.
    pub ports: Vec<u16>,
    /// The paths that this endpoint covers.
    pub path: Option<Spanned<Pattern>>,
    pub protocol: Protocol,
    pub tls_skip: bool,
    pub enforce: bool,
    pub allow: Vec<RequestRule>,
    pub deny: Vec<RequestRule>,
    pub allowed_ips: Vec<Network>,
    pub allow_encoded_slash: bool,
    pub credentials: CredentialUse,
    pub limits: ProtocolSettings,
    /// Set when a ceiling holds this endpoint to public addresses although its host is written out.
    pub public_only: bool,
    /// The tools of an MCP server that may be called here, where the harness lists them. The list applies in addition
    /// to the rules, also if the endpoint only audits.
    pub only_tools: Option<Vec<String>>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum HostPattern {
    /// No host: any, within `allowed_ips`.
    Any,
    /// In lower case.
    Name(String),
    Address(IpAddr),
    Glob(Pattern),
}

/// How credentials may travel to an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CredentialUse {
    pub provider: Option<String>,
    pub rewrite_websocket: bool,
    pub rewrite_body: bool,
    pub allow_uninspected: bool,
    pub signing: Option<Signature>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    pub scheme: Signing,
    pub service: String,
    pub region: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RequestRule {
    pub at: RuleSpan,
    pub on: RuleSubject,
}

/// Where a rule was written. All places compare as equal, so that rules are compared by their conditions.
#[derive(Clone, Copy, Debug)]
pub struct RuleSpan(pub Span);

impl PartialEq for RuleSpan {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The conditions of a rule.
#[derive(Clone, Debug, PartialEq)]
pub enum RuleSubject {
    Http(HttpRule),
    Graphql(GraphqlRule),
    Rpc(RpcRule),
    Sql { command: String },
}

#[derive(Clone, Debug, PartialEq)]
pub struct HttpRule {
    pub method: Method,
    pub path: Pattern,
    pub query: Vec<(String, ValuePattern)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Method {
    Any,
    /// In upper case. `GET` also covers `HEAD`.
    Named(String),
}

/// One of several patterns must match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValuePattern(pub Vec<Pattern>);

#[derive(Clone, Debug, PartialEq)]
pub struct GraphqlRule {
    pub operation_type: String,
    pub operation_name: Option<Pattern>,
    pub fields: Vec<Pattern>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RpcRule {
    pub method: Pattern,
    pub tool: Option<ValuePattern>,
    /// By path, in folded case.
    pub params: Vec<(String, ValuePattern)>,
}

#[derive(Clone, Debug)]
pub struct Middleware {
    pub key: Spanned<String>,
    pub name: String,
    pub middleware: String,
    pub order: i32,
    pub config: Option<FreeMap>,
    pub on_error: OnError,
    pub include: Vec<Pattern>,
    pub exclude: Vec<Pattern>,
}

impl Protocol {
    /// Whether requests are read.
    pub fn reads_requests(self) -> bool {
        !matches!(self, Self::Tunnel | Self::Tcp)
    }

    /// Whether the rules read the body of a request.
    pub fn reads_bodies(self) -> bool {
        matches!(self, Self::Graphql | Self::JsonRpc | Self::Mcp)
    }
}

impl HostPattern {
    pub fn matches(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Any, _) => true,
            (Self::Name(name), Host::Name(asked)) => name == asked,
            (Self::Address(address), Host::Address(asked)) => address == asked,
            (Self::Glob(pattern), Host::Name(asked)) => pattern.matches(asked.as_bytes()),
            (Self::Name(_) | Self::Glob(_), Host::Address(_)) | (Self::Address(_), Host::Name(_)) => false,
        }
    }

    /// Whether every host that this matches, `other` matches.
    pub fn within(&self, other: &Self, budget: &ProofBudget) -> bool {
        match (self, other) {
            (_, Self::Any) => true,
            (Self::Name(one), Self::Name(two)) => one == two,
            (Self::Name(name), Self::Glob(pattern)) => pattern.matches(name.as_bytes()),
            (Self::Address(one), Self::Address(two)) => one == two,
            (Self::Glob(one), Self::Glob(two)) => one.within(two, budget),
            _ => false,
        }
    }

    /// Whether some host may match both.
    pub fn overlaps(&self, other: &Self, budget: &ProofBudget) -> bool {
        match (self, other) {
            (Self::Any, _) | (_, Self::Any) => true,
            (Self::Name(one), Self::Name(two)) => one == two,
            (Self::Address(one), Self::Address(two)) => one == two,
            (Self::Name(name), Self::Glob(pattern)) | (Self::Glob(pattern), Self::Name(name)) => {
                pattern.matches(name.as_bytes())
            }
            (Self::Glob(one), Self::Glob(two)) => one.overlaps(two, budget),
            (Self::Address(_), _) | (_, Self::Address(_)) => false,
        }
    }
}

impl std::fmt::Display for HostPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Any => f.write_str("any host"),
            Self::Name(name) => f.write_str(name),
            Self::Address(address) => address.fmt(f),
            Self::Glob(pattern) => pattern.fmt(f),
        }
    }
}

impl Endpoint {
    /// How specific the endpoint's path is; the more specific of two decides how a request is read.
    pub fn specificity(&self) -> usize {
        self.path.as_ref().map_or(0, |path| path.as_str().chars().filter(|c| *c != '*').count())
    }

    /// Whether this program can read the traffic as the endpoint asks. What it cannot read is refused, never passed
    /// unread.
    pub fn is_inspected(&self) -> bool {
        let graphql =
            || self.allow.iter().chain(&self.deny).any(|rule| !matches!(rule.on, RuleSubject::Http(_)));
        match self.protocol {
            Protocol::Tunnel | Protocol::Tcp => true,
            Protocol::Rest | Protocol::Websocket => !graphql() && self.limits.persisted_queries.is_none(),
            Protocol::Graphql | Protocol::JsonRpc | Protocol::Mcp => true,
            Protocol::Sql => false,
        }
    }

    /// Whether the operation calls a tool that is not listed.
    pub(crate) fn withholds(&self, operation: &Operation) -> bool {
        let (Some(listed), Operation::Rpc(call)) = (&self.only_tools, operation) else { return false };
        let is_listed = |tool: &String| listed.contains(tool);
        call.method == "tools/call" && !call.tool.as_ref().is_some_and(is_listed)
    }

    pub fn covers_path(&self, path: &str) -> bool {
        self.path.as_ref().is_none_or(|pattern| pattern.matches(path.as_bytes()))
    }

    pub fn reach(&self) -> AddressScope {
        match &self.host {
            _ if !self.allowed_ips.is_empty() => AddressScope::Listed(self.allowed_ips.clone()),
            HostPattern::Address(address) => AddressScope::Literal(*address),
            HostPattern::Name(_) if !self.public_only => AddressScope::Declared,
            HostPattern::Name(_) | HostPattern::Glob(_) | HostPattern::Any => AddressScope::Public,
        }
    }

    /// `host:port`, as messages name it.
    pub fn selector(&self) -> String {
        let ports: Vec<String> = self.ports.iter().map(u16::to_string).collect();
        format!("{}:{}", self.host, ports.join(","))
    }
}

impl Method {
    /// `method` is compared without regard to case.
    pub fn matches(&self, method: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Named(name) => {
                name.eq_ignore_ascii_case(method) || (name == "GET" && method.eq_ignore_ascii_case("HEAD"))
            }
        }
    }

    pub fn within(&self, other: &Self) -> bool {
        match (self, other) {
            (_, Self::Any) => true,
            (Self::Any, Self::Named(_)) => false,
            (Self::Named(one), Self::Named(two)) => one == two || (one == "HEAD" && two == "GET"),
        }
    }

    pub fn overlaps(&self, other: &Self) -> bool {
        self.within(other) || other.within(self)
    }
}

impl std::fmt::Display for Method {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Any => "*",
            Self::Named(name) => name,
        })
    }
}

/// As messages name it: the method, the tool and the names of the parameters.
impl std::fmt::Display for RpcRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.method.fmt(f)?;
        if let Some(ValuePattern(tools)) = &self.tool {
            let tools: Vec<&str> = tools.iter().map(Pattern::as_str).collect();
            write!(f, " {}", tools.join("|"))?;
        }
        for (path, _) in &self.params {
            write!(f, " ({path})")?;
        }
        Ok(())
    }
}

/// As messages name it.
impl std::fmt::Display for GraphqlRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.operation_type)?;
        if let Some(name) = &self.operation_name {
            write!(f, " {name}")?;
        }
        if !self.fields.is_empty() {
            let fields: Vec<&str> = self.fields.iter().map(Pattern::as_str).collect();
            write!(f, " {{ {} }}", fields.join(", "))?;
        }
        Ok(())
    }
}

impl ValuePattern {
    pub fn matches(&self, value: &[u8]) -> bool {
        self.0.iter().any(|pattern| pattern.matches(value))
    }

    pub fn within(&self, other: &Self, budget: &ProofBudget) -> bool {
        self.0.iter().all(|one| other.0.iter().any(|two| one.within(two, budget)))
    }
}
