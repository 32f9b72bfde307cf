//! Both decision steps at once, from raw text: may this program send this request there. It does the same checks as a
//! proxy, which does them one by one as bytes arrive, in the same order.

use std::net::IpAddr;

use super::{
    CallingProgram, Compiled, ConnectionRequest, Denial, InspectedRequest, PolicyDecision, Reason,
    RequestAction,
};
use crate::canonical::CanonicalPath;
use crate::host::Host;
use crate::message::{BodyRequest, Operation, Operations};
use crate::query::Query;

#[derive(Clone, Copy, Debug)]
pub struct AccessRequest<'a> {
    /// As in a URL.
    pub host: &'a str,
    pub port: u16,
    pub caller: CallingProgram<'a>,
    /// The request and its target, path and query, as they were sent; `None` to test the connection alone.
    pub request: Option<(RequestAction<'a>, &'a str)>,
    pub body: AccessBody<'a>,
    /// What the name resolved to; `None` skips the check of addresses.
    pub addresses: Option<&'a [IpAddr]>,
}

/// What is known of the body of a request.
#[derive(Clone, Copy, Debug)]
pub enum AccessBody<'a> {
    Empty,
    Bytes {
        content_type: &'a str,
        bytes: &'a [u8],
    },
    /// One operation that was read in it.
    Read(&'a Operation),
}

pub fn decide(policy: &Compiled, attempt: &AccessRequest<'_>) -> PolicyDecision {
    judge(policy, attempt).unwrap_or_else(PolicyDecision::Deny)
}

fn judge(policy: &Compiled, attempt: &AccessRequest<'_>) -> Result<PolicyDecision, Denial> {
    let host = Host::parse(attempt.host).map_err(|error| Denial::new(Reason::Host(error), None))?;
    let admitted =
        policy.admit(&ConnectionRequest { host: &host, port: attempt.port, caller: attempt.caller })?;
    let deny = |reason| Denial::new(reason, Some(admitted.cause()));
    if let Some(addresses) = attempt.addresses {
        admitted.reach().check(attempt.port, addresses).map_err(|denied| deny(Reason::Address(denied)))?;
    }
    let Some((action, target)) = attempt.request else { return Ok(PolicyDecision::Allow(admitted.cause())) };
    if !admitted.reads_requests() {
        return Ok(PolicyDecision::Allow(admitted.cause()));
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let path =
        CanonicalPath::new(path, admitted.encoded_slash()).map_err(|error| deny(Reason::Path(error)))?;
    let query = Query::parse(query).map_err(|error| deny(Reason::Query(error)))?;
    let method = action.method();
    let read = |content_type, body| {
        admitted.operations(path.as_str(), &BodyRequest { method, query: &query, content_type, body })
    };
    let operations = match attempt.body {
        AccessBody::Empty => read(None, &[])?,
        AccessBody::Bytes { content_type, bytes } => read(Some(content_type), bytes)?,
        AccessBody::Read(operation) => Operations::only(admitted.protocol(path.as_str()), operation.clone()),
    };
    Ok(admitted.decide(&InspectedRequest { action, path: &path, query: &query, operations: &operations }))
}
