//! An admitted connection: how to treat it, and which requests it may carry. It owns its endpoints, so that a
//! connection keeps the policy under which it was admitted.

use std::sync::Arc;

use super::index::Entry;
use super::lookup::Lookup;
use super::operation;
use super::{DecidingRule, Denial, Fix, InspectedRequest, PolicyDecision, Reason, RequestAction};
use crate::address::AddressScope;
use crate::canonical::EncodedSlash;
use crate::file::Protocol;
use crate::glob::Pattern;
use crate::message::{BodyRequest, MessageError, Operation, Operations};
use crate::model::{CredentialUse, HttpRule, RequestRule, RuleSubject};
use crate::query::Query;
use crate::read::WEBSOCKET_TEXT;

/// The endpoints that admit a connection; at least one.
#[derive(Clone, Debug)]
pub struct Admitted {
    entries: Vec<Arc<Entry>>,
}

impl Admitted {
    pub(super) fn new(entries: Vec<Arc<Entry>>) -> Self {
        Self { entries }
    }

    /// The first endpoint that admits.
    pub fn cause(&self) -> DecidingRule {
        self.entries[0].cause()
    }

    /// Whether requests must be read before they are passed on. If not, bytes are tunnelled untouched.
    pub fn reads_requests(&self) -> bool {
        self.readers().next().is_some()
    }

    /// Whether the policy forbids terminating TLS here.
    pub fn tls_skip(&self) -> bool {
        self.entries.iter().any(|entry| entry.endpoint.tls_skip)
    }

    /// How `%2F` is treated while a path is made canonical; whether this path may have it is decided with the request.
    pub fn encoded_slash(&self) -> EncodedSlash {
        let keep = self.readers().any(|entry| entry.endpoint.allow_encoded_slash);
        if keep { EncodedSlash::Keep } else { EncodedSlash::Refuse }
    }

    /// Which resolved addresses may be dialled.
    pub fn reach(&self) -> AddressScope {
        let widest = |entry: &&Arc<Entry>| match entry.endpoint.reach() {
            AddressScope::Listed(_) => 3,
            AddressScope::Literal(_) => 2,
            AddressScope::Declared => 1,
            AddressScope::Public => 0,
        };
        self.entries.iter().max_by_key(widest).map_or(AddressScope::Public, |entry| entry.endpoint.reach())
    }

    /// What the policy says about credentials for a request on this path; `None` for the connection as a whole.
    pub fn credentials(&self, path: Option<&str>) -> &CredentialUse {
        let chosen = path.and_then(|path| self.deciding_entry(path));
        let bound = || self.entries.iter().find(|entry| entry.endpoint.credentials.provider.is_some());
        &chosen.or_else(bound).unwrap_or(&self.entries[0]).endpoint.credentials
    }

    /// The protocol by which a request on this path is read; `Tunnel` when it is not.
    pub fn protocol(&self, path: &str) -> Protocol {
        self.deciding_entry(path).map_or(Protocol::Tunnel, |entry| entry.endpoint.protocol)
    }

    /// The longest body that the rules for this path read; `None` if they do not read bodies.
    pub fn max_body_bytes(&self, path: &str) -> Option<u64> {
        let governing = self.deciding_entry(path).filter(|entry| entry.endpoint.protocol.reads_bodies());
        governing.map(|entry| entry.endpoint.limits.max_body_bytes)
    }

    /// The operations in the body of a request on this path.
    pub fn operations(&self, path: &str, request: &BodyRequest<'_>) -> Result<Operations, Denial> {
        let Some(governing) = self.deciding_entry(path) else { return Ok(Operations::default()) };
        Operations::read(governing.endpoint.protocol, &governing.endpoint.limits, request)
            .map_err(|error| Denial::new(Reason::Body(error), Some(governing.cause())))
    }

    /// The second step: whether this request is allowed.
    pub fn decide(&self, request: &InspectedRequest<'_>) -> PolicyDecision {
        if !self.reads_requests() {
            return PolicyDecision::Allow(self.cause());
        }
        let deny = |reason, cause| PolicyDecision::Deny(Denial::new(reason, cause));
        if let RequestAction::Http(method) = request.action
            && !is_method(method)
        {
            return deny(Reason::Method, None);
        }
        let path = request.path.as_str();
        let Some(governing) = self.deciding_entry(path) else {
            return deny(Reason::NoPath, Some(self.cause()));
        };
        if !governing.endpoint.is_inspected() {
            return deny(Reason::NotInspected(governing.endpoint.protocol), Some(governing.cause()));
        }
        if request.path.has_encoded_slash() && !governing.endpoint.allow_encoded_slash {
            return deny(Reason::EncodedSlash, Some(governing.cause()));
        }
        let decided = if governing.endpoint.protocol.reads_bodies() {
            let Some(operations) = request.operations.of(governing.endpoint.protocol) else {
                return deny(Reason::Body(MessageError::unread()), Some(governing.cause()));
            };
            if let Some(denial) = self.withheld_tool(request, operations) {
                return PolicyDecision::Deny(denial);
            }
            self.by_operations(request, operations, governing)
        } else {
            self.by_rules(request, governing)
        };
        match decided {
            Ok(cause) => PolicyDecision::Allow(cause),
            Err(denial) if governing.endpoint.enforce => PolicyDecision::Deny(denial),
            Err(denial) => PolicyDecision::Audit(denial),
        }
    }

    fn by_rules(&self, request: &InspectedRequest<'_>, governing: &Entry) -> Result<DecidingRule, Denial> {
        // Frames are read only if the endpoint's protocol is websocket; otherwise the upgrade request was decided.
        if request.action == RequestAction::WebsocketText && governing.endpoint.protocol == Protocol::Rest {
            return Ok(governing.cause());
        }
        if let Some(cause) = self.denied_by_head(request) {
            return Err(Denial::new(Reason::DenyRule, Some(cause)));
        }
        let allowed = self
            .speaking(request)
            .find_map(|entry| Some((entry, find(&entry.endpoint.allow, &entry.allow, request, allows)?)));
        match allowed {
            Some((entry, rule)) => Ok(entry.cause_of(rule)),
            None => Err(Denial {
                reason: Reason::NotAllowed,
                cause: Some(governing.cause()),
                fix: Some(Box::new(Fix::Allow {
                    endpoint: governing.cause(),
                    method: request.action.method().to_owned(),
                    path: Pattern::escape(request.path.as_str()),
                })),
                operation: None,
            }),
        }
    }

    /// The deny rule that forbids a request by its method, path and query.
    fn denied_by_head(&self, request: &InspectedRequest<'_>) -> Option<DecidingRule> {
        self.speaking(request)
            .find_map(|entry| Some(entry.cause_of(find(&entry.endpoint.deny, &entry.deny, request, denies)?)))
    }

    /// The refusal of the first call of a tool that the harness does not list.
    fn withheld_tool(&self, request: &InspectedRequest<'_>, operations: &[Operation]) -> Option<Denial> {
        operations.iter().find_map(|asked| {
            let entry = self.speaking(request).find(|entry| entry.endpoint.withholds(asked))?;
            let denial = Denial::new(Reason::DenyRule, Some(entry.cause()));
            Some(Denial { operation: Some(Box::new(asked.clone())), ..denial })
        })
    }

    /// Every operation must be allowed, and none denied.
    fn by_operations(
        &self,
        request: &InspectedRequest<'_>,
        operations: &[Operation],
        governing: &Entry,
    ) -> Result<DecidingRule, Denial> {
        if let Some(cause) = self.denied_by_head(request) {
            return Err(Denial::new(Reason::DenyRule, Some(cause)));
        }
        let mut first = None;
        for asked in operations.iter().filter(|asked| **asked != Operation::Session) {
            let refused = |denial| Denial { operation: Some(Box::new(asked.clone())), ..denial };
            let denied = self.speaking(request).find_map(|entry| {
                let rule = entry.endpoint.deny.iter().find(|rule| operation::denies(&rule.on, asked))?;
                Some(entry.cause_of(rule))
            });
            if let Some(cause) = denied {
                return Err(refused(Denial::new(Reason::DenyRule, Some(cause))));
            }
            let allowed = self.speaking(request).find_map(|entry| {
                let rule = entry.endpoint.allow.iter().find(|rule| operation::allows(&rule.on, asked))?;
                Some(entry.cause_of(rule))
            });
            let Some(cause) = allowed else {
                let fix = Fix::AllowOperation { endpoint: governing.cause(), operation: asked.clone() };
                let denial = Denial::new(Reason::NotAllowed, Some(governing.cause()));
                return Err(refused(Denial { fix: Some(Box::new(fix)), ..denial }));
            };
            first = first.or(Some(cause));
        }
        Ok(first.unwrap_or_else(|| governing.cause()))
    }

    fn speaking<'a>(&'a self, request: &'a InspectedRequest<'_>) -> impl Iterator<Item = &'a Arc<Entry>> {
        self.readers().filter(|entry| entry.endpoint.covers_path(request.path.as_str()))
    }

    fn readers(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.entries.iter().filter(|entry| entry.endpoint.protocol.reads_requests())
    }

    /// The endpoint with the most specific path. Equally specific endpoints agree: the policy was checked for that.
    fn deciding_entry(&self, path: &str) -> Option<&Arc<Entry>> {
        let speaking = self.readers().filter(|entry| entry.endpoint.covers_path(path));
        speaking.reduce(
            |best, entry| {
                if entry.endpoint.specificity() > best.endpoint.specificity() { entry } else { best }
            },
        )
    }
}

impl RequestAction<'_> {
    pub fn method(&self) -> &str {
        match self {
            Self::Http(method) => method,
            Self::WebsocketText => WEBSOCKET_TEXT,
        }
    }
}

/// A request must not use the name for text frames as its method.
fn is_method(method: &str) -> bool {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !method.is_empty() && method.bytes().all(token) && !method.eq_ignore_ascii_case(WEBSOCKET_TEXT)
}

fn find<'a>(
    rules: &'a [RequestRule],
    lookup: &Lookup,
    request: &InspectedRequest<'_>,
    query_matches: fn(&HttpRule, &Query) -> bool,
) -> Option<&'a RequestRule> {
    let path = request.path.as_str().as_bytes();
    let candidates = lookup.candidates(path, b'/');
    candidates.into_iter().map(|position| &rules[position]).find(|rule| match &rule.on {
        RuleSubject::Http(http) => {
            http.method.matches(request.action.method())
                && http.path.matches(path)
                && query_matches(http, request.query)
        }
        RuleSubject::Graphql(_) | RuleSubject::Rpc(_) | RuleSubject::Sql { .. } => false,
    })
}

/// Every key must be there, and all its values must match.
fn allows(rule: &HttpRule, query: &Query) -> bool {
    rule.query.iter().all(|(key, pattern)| {
        let mut values = query.values(key).peekable();
        values.peek().is_some() && values.all(|value| pattern.matches(value))
    })
}

/// Every key must be there, and one of its values is enough.
fn denies(rule: &HttpRule, query: &Query) -> bool {
    rule.query.iter().all(|(key, pattern)| query.values(key).any(|value| pattern.matches(value)))
}
