//! A request whose rules apply to its body: the proxy reads it whole, decompresses it and decides before it sends
//! anything. It sends exactly the bytes that it checked.

use super::admission::AdmittedConnection;
use super::content_encoding::{DecodingLimits, EncodingError, decode};
use super::outgoing_check::{MessageCheck, watch};
use super::readings;
use super::record::ConnectionRecord;
use super::refusal::{Refusal, ReplyForm};
use crate::http1::RequestHead;
use policy::model::Protocol;
use policy::{
    BodyRequest, CanonicalPath, Denial, InspectedRequest, Operation, Operations, PolicyDecision, Query,
    RequestAction, RpcIds, rpc_ids, too_large,
};

/// Of a value of JSON or a name of GraphQL in memory, with its share of the lists around it.
const VALUE_BYTES: u64 = 144;

pub(super) struct BodyRules {
    /// The paths that a server may read in the request.
    paths: Vec<CanonicalPath>,
    query: Query,
    /// The longest body, as it comes and decompressed.
    pub(super) most: u64,
}

impl BodyRules {
    pub(super) fn new(
        head: &RequestHead,
        paths: Vec<CanonicalPath>,
        query: Query,
        most: u64,
    ) -> Result<Self, Refusal> {
        if head.is_websocket() {
            let detail = "the rules of this endpoint apply to bodies, and a websocket has none";
            return Err(Refusal::path(detail.to_owned()));
        }
        if readings::methods(head, &query)?.len() > 1 {
            let detail = "the request replaces its method, and the rules of this endpoint apply to its body";
            return Err(Refusal::unreadable(detail.to_owned()));
        }
        Ok(Self { paths, query, most })
    }

    /// Decides the request; `body` is as the client sent it.
    pub(super) fn decide(
        &self,
        connection: &AdmittedConnection,
        head: &RequestHead,
        body: &[u8],
        record: &mut ConnectionRecord,
    ) -> Result<(), Refusal> {
        let what = format!("{} {}{}", head.method, connection.destination, self.paths[0]);
        let encodings = head.fields.words("content-encoding");
        let mut of_decoded = connection.proxy.held_bodies.empty();
        let mut has_memory = |bytes: u64| of_decoded.grow(bytes).is_ok();
        let mut limits = DecodingLimits { most: self.most, has_memory: &mut has_memory };
        let decoded = decode(&encodings, body, &mut limits).map_err(|error| match error {
            EncodingError::NoMemory => Refusal::memory_taken(),
            error => Refusal::unreadable(format!("{what}: {error}")),
        })?;
        let _of_values = connection.proxy.held_bodies.reserve(self.memory_of_values(connection, &decoded))?;
        check_leaks(connection, body)?;
        check_leaks(connection, &decoded)?;
        self.decide_decoded(connection, head, &decoded, &what, record)
            .map_err(|refusal| Refusal { form: self.form(connection, rpc_ids(&decoded)), ..refusal })
    }

    fn decide_decoded(
        &self,
        connection: &AdmittedConnection,
        head: &RequestHead,
        body: &[u8],
        what: &str,
        record: &mut ConnectionRecord,
    ) -> Result<(), Refusal> {
        let AdmittedConnection { proxy, admitted, .. } = connection;
        let locate = &proxy.config.locate;
        let refused = |denial: &Denial| Refusal::policy(denial, locate, what);
        let content_type = content_type(head)?;
        let mut audited = None;
        let mut allowed = None;
        for path in &self.paths {
            let method = &head.method;
            let asked = BodyRequest { method, query: &self.query, content_type, body };
            let operations = admitted.operations(path.as_str(), &asked).map_err(|denial| refused(&denial))?;
            note(&operations, record);
            let action = RequestAction::Http(method);
            let request = InspectedRequest { action, path, query: &self.query, operations: &operations };
            let decision = proxy.defences.decide(admitted, &request);
            if let PolicyDecision::Deny(denial) | PolicyDecision::Audit(denial) = &decision
                && let Some(operation) = &denial.operation
            {
                record.operation(operation);
            }
            match decision {
                PolicyDecision::Allow(cause) => allowed = allowed.or(Some(cause)),
                PolicyDecision::Audit(denial) => audited = audited.or_else(|| Some(refused(&denial))),
                PolicyDecision::Deny(denial) => return Err(refused(&denial)),
            }
        }
        match (audited, allowed) {
            (Some(refusal), _) => record.audited(&refusal),
            (None, Some(cause)) => record.allowed(locate(&cause)),
            (None, None) => {}
        }
        Ok(())
    }

    /// The most that a body takes once it is read into values. Delimiters say how many there are.
    fn memory_of_values(&self, connection: &AdmittedConnection, body: &[u8]) -> u64 {
        let starts_value = |byte: &&u8| matches!(byte, b',' | b':' | b'[' | b'{');
        let ends_name = |byte: &&u8| !byte.is_ascii_alphanumeric() && **byte != b'_';
        let delimiters = match connection.admitted.protocol(self.paths[0].as_str()) {
            Protocol::Graphql => body.iter().filter(ends_name).count(),
            _ => body.iter().filter(starts_value).count(),
        };
        VALUE_BYTES * delimiters as u64 + body.len() as u64
    }

    fn form(&self, connection: &AdmittedConnection, ids: RpcIds) -> ReplyForm {
        match connection.admitted.protocol(self.paths[0].as_str()) {
            Protocol::Graphql => ReplyForm::Graphql,
            Protocol::JsonRpc | Protocol::Mcp => ReplyForm::Rpc(ids),
            _ => ReplyForm::Plain,
        }
    }

    pub(super) fn too_large(&self, connection: &AdmittedConnection, head: &RequestHead) -> Refusal {
        let what = format!("{} {}{}", head.method, connection.destination, self.paths[0]);
        let form = self.form(connection, RpcIds::Unknown);
        Refusal { form, ..Refusal::body(&what, &too_large(self.most)) }
    }
}

/// The record shows the first thing that is asked for.
fn note(operations: &Operations, record: &mut ConnectionRecord) {
    if let Some(first) = operations.iter().find(|operation| **operation != Operation::Session) {
        record.operation(first);
    }
}

fn check_leaks(connection: &AdmittedConnection, bytes: &[u8]) -> Result<(), Refusal> {
    let watcher = watch(connection.proxy.config.leak_watcher.as_ref(), &connection.destination);
    MessageCheck::new("body", watcher).refusal(bytes).map_or(Ok(()), Err)
}

/// With two content types a server may use either, so the request is refused.
fn content_type(head: &RequestHead) -> Result<Option<&str>, Refusal> {
    let mut values = head.fields.all("content-type");
    let first = values.next();
    if values.next().is_some() {
        return Err(Refusal::unreadable("the request has two content types".to_owned()));
    }
    match first.map(std::str::from_utf8) {
        None => Ok(None),
        Some(Ok(text)) => Ok(Some(text)),
        Some(Err(_)) => Err(Refusal::unreadable("the content type is not a text".to_owned())),
    }
}
