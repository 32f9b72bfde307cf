//! The smallest rules that would have allowed the refused requests, as YAML to paste below `network_policies`. It
//! suggests nothing for requests that a deny rule forbids, for protocols that cannot be inspected yet, or for addresses
//! that are not public: a person must decide about those.

mod write;

use std::net::IpAddr;
use std::path::PathBuf;

use yaml::Node;

use crate::address::{Class, classify};
use crate::canonical::{CanonicalPath, EncodedSlash};
use crate::decide::{
    CallingProgram, Compiled, ConnectionRequest, InspectedRequest, PolicyDecision, Reason, RequestAction,
};
use crate::host::Host;
use crate::message::{Operation, Operations};
use crate::model::{Endpoint, Policy};
use crate::query::Query;
use write::{Addition, DeniedRequest};

/// Something that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedAccess {
    pub host: Host,
    pub port: u16,
    pub binary: PathBuf,
    /// The method and the canonical path, where a request was read; `WEBSOCKET_TEXT` for a text frame.
    pub request: Option<(String, String)>,
    /// The operation in the body that was refused, if the rules read bodies.
    pub operation: Option<Operation>,
    /// What the name resolved to, where that is known.
    pub addresses: Vec<IpAddr>,
}

#[derive(Clone, Debug)]
pub struct Suggestion {
    /// A document with `network_policies` alone; empty when there is nothing to suggest.
    pub text: String,
    /// The same as a tree.
    pub node: Option<Node>,
    /// The requests without a suggestion, by their numbers, and why.
    pub skipped: Vec<(usize, String)>,
}

/// Suggests additions to a policy. Attempts that it allows already are skipped.
pub fn suggest(policy: &Policy, refused: &[RefusedAccess]) -> Suggestion {
    let compiled = Compiled::new(policy);
    let mut additions: Vec<Addition<'_>> = Vec::new();
    let mut skipped = Vec::new();
    for (index, attempt) in refused.iter().enumerate() {
        match addition(policy, &compiled, attempt) {
            Ok(addition) => write::add(&mut additions, addition),
            Err(why) => skipped.push((index, why)),
        }
    }
    let node = (!additions.is_empty()).then(|| write::node(policy, &additions));
    let text = node.as_ref().map_or(String::new(), |node| yaml::emit(node, &|_| None));
    Suggestion { text, node, skipped }
}

fn addition<'a>(
    policy: &'a Policy,
    compiled: &Compiled,
    attempt: &RefusedAccess,
) -> Result<Addition<'a>, String> {
    only_public(attempt)?;
    let path = match &attempt.request {
        Some((_, path)) => {
            Some(CanonicalPath::new(path, EncodedSlash::Keep).map_err(|error| error.to_string())?)
        }
        None => None,
    };
    let reason = refusal(compiled, attempt, path.as_ref())?;
    match reason {
        Reason::NoEndpoint
        | Reason::NoBinary
        | Reason::NoPath
        | Reason::NotAllowed
        | Reason::EncodedSlash => {}
        Reason::DenyRule
        | Reason::NotInspected(_)
        | Reason::Body(_)
        | Reason::Method
        | Reason::Host(_)
        | Reason::Path(_)
        | Reason::Query(_)
        | Reason::Address(_) => return Err(reason.to_string()),
    }
    let like = template(policy, attempt, path.as_ref());
    if let (Some(like), Some((method, _)), Some(path)) = (like, &attempt.request, &path) {
        forbidden(like, method, path)?;
    }
    let asked = match (like, &attempt.request, path) {
        (Some(like), Some((method, _)), Some(path)) if like.protocol.reads_requests() => {
            Some(DeniedRequest {
                method: method.to_ascii_uppercase(),
                path: path.as_str().to_owned(),
                operation: attempt.operation.clone().filter(|_| like.protocol.reads_bodies()),
            })
        }
        _ => None,
    };
    Ok(Addition {
        binary: attempt.binary.to_string_lossy().into_owned(),
        host: attempt.host.clone(),
        port: attempt.port,
        like,
        asked: asked.into_iter().collect(),
        encoded_slash: reason == Reason::EncodedSlash,
    })
}

fn only_public(attempt: &RefusedAccess) -> Result<(), String> {
    let literal = match &attempt.host {
        Host::Address(address) => Some(*address),
        Host::Name(_) => None,
    };
    let internal =
        attempt.addresses.iter().copied().chain(literal).find(|address| classify(*address) != Class::Public);
    match internal {
        Some(address) => Err(format!("{address} is a {} address", classify(address))),
        None => Ok(()),
    }
}

/// Why it is refused now.
fn refusal(
    compiled: &Compiled,
    attempt: &RefusedAccess,
    path: Option<&CanonicalPath>,
) -> Result<Reason, String> {
    let caller = CallingProgram { binary: &attempt.binary, ancestors: &[] };
    let connection = ConnectionRequest { host: &attempt.host, port: attempt.port, caller };
    let admitted = match compiled.admit(&connection) {
        Ok(admitted) => admitted,
        Err(denial) => return Ok(denial.reason),
    };
    let decision = match (&attempt.request, path) {
        (Some((method, _)), Some(path)) => {
            let action = if method == crate::read::WEBSOCKET_TEXT {
                RequestAction::WebsocketText
            } else {
                RequestAction::Http(method)
            };
            let asked = attempt.operation.clone();
            let operations = asked
                .map(|operation| Operations::only(admitted.protocol(path.as_str()), operation))
                .unwrap_or_default();
            let query = Query::default();
            admitted.decide(&InspectedRequest { action, path, query: &query, operations: &operations })
        }
        _ => PolicyDecision::Allow(admitted.cause()),
    };
    match decision {
        PolicyDecision::Deny(denial) => Ok(denial.reason),
        PolicyDecision::Allow(_) | PolicyDecision::Audit(_) => Err("the policy allows it".to_owned()),
    }
}

/// The existing endpoint for the same place; an addition must agree with it.
fn template<'a>(
    policy: &'a Policy,
    attempt: &RefusedAccess,
    path: Option<&CanonicalPath>,
) -> Option<&'a Endpoint> {
    let here =
        policy.networks.iter().flat_map(|network| &network.endpoints).filter(|endpoint| {
            endpoint.ports.contains(&attempt.port) && endpoint.host.matches(&attempt.host)
        });
    let speaks = |endpoint: &Endpoint| path.is_none_or(|path| endpoint.covers_path(path.as_str()));
    here.max_by_key(|endpoint| (endpoint.protocol.reads_requests(), speaks(endpoint), endpoint.specificity()))
}

/// A deny rule of the endpoint that the addition is modelled on stays a deny rule.
fn forbidden(like: &Endpoint, method: &str, path: &CanonicalPath) -> Result<(), String> {
    let denied = like.deny.iter().any(|rule| match &rule.on {
        crate::model::RuleSubject::Http(http) => {
            http.query.is_empty()
                && http.method.matches(method)
                && http.path.matches(path.as_str().as_bytes())
        }
        _ => false,
    });
    if denied { Err(Reason::DenyRule.to_string()) } else { Ok(()) }
}
