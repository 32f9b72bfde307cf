//! An admitted connection: how to treat it, and what may be asked over it. Holds its endpoints by itself, so that a
//! connection keeps the policy it was admitted under.

use std::sync::Arc;

use super::index::Entry;
use super::lookup::Lookup;
use super::{Cause, Denial, Fix, InspectedRequest, PolicyDecision, Reason, RequestAction};
use crate::address::AddressScope;
use crate::canonical::EncodedSlash;
use crate::file::Protocol;
use crate::glob::Pattern;
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
    pub fn cause(&self) -> Cause {
        self.entries[0].cause()
    }

    /// Whether requests must be read before they are passed on. If not, bytes are tunnelled untouched.
    pub fn reads_requests(&self) -> bool {
        self.readers().next().is_some()
    }

    /// Whether the policy forbids to terminate TLS here.
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
        let chosen = path.and_then(|path| self.governing(path));
        let bound = || self.entries.iter().find(|entry| entry.endpoint.credentials.provider.is_some());
        &chosen.or_else(bound).unwrap_or(&self.entries[0]).endpoint.credentials
    }

    /// The protocol by which a request on this path is read; `Tunnel` when it is not.
    pub fn protocol(&self, path: &str) -> Protocol {
        self.governing(path).map_or(Protocol::Tunnel, |entry| entry.endpoint.protocol)
    }

    /// The second step: may this be asked.
    pub fn decide(&self, request: &InspectedRequest<'_>) -> PolicyDecision {
        if !self.reads_requests() {
            return PolicyDecision::Allow(self.cause());
        }
        let deny = |reason, cause| PolicyDecision::Deny(Denial::because(reason, cause));
        if let RequestAction::Http(method) = request.action
            && !is_method(method)
        {
            return deny(Reason::Method, None);
        }
        let path = request.path.as_str();
        let Some(governing) = self.governing(path) else {
            return deny(Reason::NoPath, Some(self.cause()));
        };
        if !governing.endpoint.is_inspected() {
            return deny(Reason::NotInspected(governing.endpoint.protocol), Some(governing.cause()));
        }
        if request.path.has_encoded_slash() && !governing.endpoint.allow_encoded_slash {
            return deny(Reason::EncodedSlash, Some(governing.cause()));
        }
        match self.by_rules(request, governing) {
            Ok(cause) => PolicyDecision::Allow(cause),
            Err(denial) if governing.endpoint.enforce => PolicyDecision::Deny(denial),
            Err(denial) => PolicyDecision::Audit(denial),
        }
    }

    fn by_rules(&self, request: &InspectedRequest<'_>, governing: &Entry) -> Result<Cause, Denial> {
        // Frames are read only where the endpoint says websocket; elsewhere the upgrade was the question.
        if request.action == RequestAction::WebsocketText && governing.endpoint.protocol == Protocol::Rest {
            return Ok(governing.cause());
        }
        let speaking = || self.readers().filter(|entry| entry.endpoint.speaks_for(request.path.as_str()));
        let cause =
            |entry: &Entry, rule: &RequestRule| Cause { rule: entry.rule.name.clone(), at: rule.at.0 };
        let denied = speaking()
            .find_map(|entry| Some((entry, find(&entry.endpoint.deny, &entry.deny, request, denies)?)));
        if let Some((entry, rule)) = denied {
            return Err(Denial::because(Reason::DenyRule, Some(cause(entry, rule))));
        }
        let allowed = speaking()
            .find_map(|entry| Some((entry, find(&entry.endpoint.allow, &entry.allow, request, allows)?)));
        match allowed {
            Some((entry, rule)) => Ok(cause(entry, rule)),
            None => Err(Denial {
                reason: Reason::NotAllowed,
                cause: Some(governing.cause()),
                fix: Some(Box::new(Fix::Allow {
                    endpoint: governing.cause(),
                    method: request.action.method().to_owned(),
                    path: Pattern::escape(request.path.as_str()),
                })),
            }),
        }
    }

    fn readers(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.entries.iter().filter(|entry| entry.endpoint.protocol.reads_requests())
    }

    /// The endpoint that names the path most exactly. Equals agree: the policy was checked for that.
    fn governing(&self, path: &str) -> Option<&Arc<Entry>> {
        let speaking = self.readers().filter(|entry| entry.endpoint.speaks_for(path));
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

/// The word for text frames must not be usable as a method of a request.
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
